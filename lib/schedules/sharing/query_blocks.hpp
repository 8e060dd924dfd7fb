#pragma once

#include <algorithm>

#include "base/mask.hpp"
#include "schedules/range.hpp"

namespace ioattn::schedules {

// The same blocks of queries for one block of keys after the other, whose workers add to them in
// turns. Under a causal mask each block of keys begins with queries that the one before would come
// to only later, if both began with their first: they begin with the last, which all of them meet.
class QueryBlocks {
 public:
  QueryBlocks(const Interval& interval, index_t step, const Mask& mask)
      : interval_(interval),
        first_(interval.begin / step),
        step_(step),
        last_first_(mask.last < Mask::unbounded) {}

  index_t count() const {
    return interval_.is_empty() ? 0 : ceil_div(interval_.end, step_) - first_;
  }
  // Empty beyond the last.
  Range at(index_t i) const {
    if (i >= count()) return Range(0, 0, step_);
    const index_t block = first_ + (last_first_ ? count() - 1 - i : i);
    return Range(std::max(block * step_, interval_.begin),
                 std::min((block + 1) * step_, interval_.end), step_);
  }

 private:
  Interval interval_;
  index_t first_, step_;
  bool last_first_;
};

}  // namespace ioattn::schedules
