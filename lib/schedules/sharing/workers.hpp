#pragma once

#include "base/types.hpp"

namespace ioattn::schedules {

// Workers of a pass, and how many problems, heads of SDPA, they share.
struct Workers {
  int count;
  index_t problems;

  Workers(int all, index_t shared = 1) : count(all), problems(shared) {}  // NOLINT: of threads

  // Whether each takes whole problems where sums over blocks are made in their order: unless that
  // leaves them idle for more than an eighth of the time, for to share a problem is to wait for
  // each other.
  bool take_whole_problems() const {
    return 8 * ceil_div(problems, index_t(count)) * count <= 9 * problems;
  }
};

}  // namespace ioattn::schedules
