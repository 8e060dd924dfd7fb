#pragma once

#include <algorithm>

#include "schedules/range.hpp"

namespace ioattn::schedules {

// A block of keys in panels of pairs of terms, from `first` on: a few before those that the queries
// see may be among them. Panels lie as in a whole block of c keys, so that sums do not depend on
// which of its keys others see, and begin at whole pairs.
struct PairPanels {
  index_t first, count;
  index_t step;  // keys of the fewest whole panels that are whole pairs, too

  PairPanels(const Range& keys, index_t c, index_t nr) : step(nr % 2 == 0 ? nr : 2 * nr) {
    const index_t block = round_down(keys.begin, c);
    first = block + round_down(keys.begin - block, step);
    count = keys.end - first;
  }

  // From the panel where `seen` begins, in whole pairs: the other half of a last one is hidden.
  Range around(const Range& seen) const {
    const index_t begin = first + round_down(seen.begin - first, step);
    const index_t end = std::min(begin + round_up(seen.end - begin, 2), first + count);
    return {begin, end, end - begin};
  }
};

}  // namespace ioattn::schedules
