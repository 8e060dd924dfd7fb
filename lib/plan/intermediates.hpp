#pragma once

#include <array>
#include <cassert>
#include <optional>

#include "base/gradients.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"

namespace ioattn::plan {

// A matrix that a pass makes and reads again, through memory.
struct Intermediate {
  const char* name = "";
  index_t rows = 0, cols = 0;
};
struct Intermediates {
  std::array<Intermediate, 12> list{};
  int count = 0;

  void add(const char* name, index_t rows, index_t cols) {
    assert(count < static_cast<int>(list.size()));
    list[static_cast<std::size_t>(count++)] = {name, rows, cols};
  }
  index_t words() const;
};

// Of one entry: of a pass alone, and of a set of gradients whose pass over the queries, if there is
// one, is by a schedule.
Intermediates intermediates(const Variant& variant, const LayerShape& shape);
Intermediates intermediates(const LayerShape& shape, const GradientSet& set, Schedule schedule,
                            Form form);
// Of a plan: forward without a set.
Intermediates intermediates(const LayerShape& shape, const std::optional<GradientSet>& set,
                            const GradientBlocks& blocks);

}  // namespace ioattn::plan
