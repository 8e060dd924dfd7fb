#pragma once

#include "base/mask.hpp"
#include "base/observer.hpp"

namespace ioattn::schedules {

// Consecutive blocks of [0, size) or [first, last): for (Range i(size, block); i; i.next()).
struct Range {
  index_t begin, end, step, limit;

  Range(index_t size, index_t block) : Range(0, size, block) {}
  Range(index_t first, index_t last, index_t block) : begin(first), step(block), limit(last) {
    cut();
  }
  explicit operator bool() const { return begin < limit; }
  void next() {
    begin = end;
    cut();
  }
  index_t size() const { return end - begin; }

 private:
  void cut() { end = begin + step < limit ? begin + step : limit; }
};

// Columns [cols.begin, cols.end) of some rows.
inline Block part_of(Operand operand, const Range& rows, const Range& cols) {
  return {operand, rows.begin, cols.begin, rows.size(), cols.size()};
}

// Whole rows of an operand with so many columns.
inline Block rows_of(Operand operand, const Range& rows, index_t cols) {
  return {operand, rows.begin, 0, rows.size(), cols};
}

inline Interval interval_of(const Range& range) { return {range.begin, range.end}; }

// As many indices, counted from 0: of a block that is a matrix of its own.
inline Range from_0(const Range& range) { return {range.size(), range.size()}; }

// What of an interval lies in a range, counted from its first index.
inline Interval within(const Interval& interval, const Range& range) {
  const Interval common = intersect(interval, interval_of(range));
  if (common.is_empty()) return {};
  return {common.begin - range.begin, common.end - range.begin};
}

// Blocks of `step` indices, counted from 0, as far as they lie within an interval: for the blocks
// to be the same whatever part of them is visible.
inline Range blocks_within(const Interval& interval, index_t step) {
  Range range(round_down(interval.begin, step), interval.end, step);
  range.begin = interval.begin;
  return range;
}

}  // namespace ioattn::schedules
