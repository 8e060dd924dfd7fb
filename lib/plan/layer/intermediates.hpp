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
  DType dtype = DType::f32;
};
struct Intermediates {
  std::array<Intermediate, 12> list{};
  int count = 0;

  void add(const char* name, index_t rows, index_t cols, DType dtype) {
    assert(count < static_cast<int>(list.size()));
    list[static_cast<std::size_t>(count++)] = {name, rows, cols, dtype};
  }
  index_t bytes() const;
};

// Of one entry of a problem in that dtype: of a pass alone, and of a set of gradients whose pass
// over the queries, if there is one, is by a schedule, and that over the keys by another.
Intermediates intermediates(const Variant& variant, const LayerShape& shape, DType dtype);
Intermediates intermediates(const LayerShape& shape, const GradientSet& set, Schedule schedule,
                            Schedule by_keys, Form form, DType dtype);
// Of a plan: forward without a set.
Intermediates intermediates(const LayerShape& shape, const std::optional<GradientSet>& set,
                            const LayerBlocks& blocks, DType dtype);

}  // namespace ioattn::plan
