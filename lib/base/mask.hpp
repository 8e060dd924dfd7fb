#pragma once

#include <algorithm>

#include "base/types.hpp"

namespace ioattn {

// Indices [begin, end).
struct Interval {
  index_t begin = 0, end = 0;

  index_t size() const { return std::max<index_t>(end - begin, 0); }
  bool is_empty() const { return end <= begin; }
  bool operator==(const Interval&) const = default;
};
constexpr Interval intersect(const Interval& a, const Interval& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// Which keys a query sees: query i sees key j if i + first <= j <= i + last.
struct Mask {
  static constexpr index_t unbounded = index_t(1) << 61;

  index_t first = -unbounded, last = unbounded;
  bool operator==(const Mask&) const = default;

  bool hides() const { return first > -unbounded || last < unbounded; }
  // Whether one of so many rows does not see the first column.
  bool hides_first_of(index_t rows) const { return first > -rows; }
  // For keys, the queries that see them.
  constexpr Mask transposed() const { return {-last, -first}; }

  // Of `columns` keys those that a row sees, and those that any or every one of some rows sees.
  Interval of_row(index_t row, index_t columns) const {
    return intersect({row + first, row + last + 1}, {0, columns});
  }
  Interval of_any(const Interval& rows, index_t columns) const {
    return intersect({rows.begin + first, rows.end + last}, {0, columns});
  }
  Interval of_every(const Interval& rows, index_t columns) const {
    return intersect({rows.end - 1 + first, rows.begin + last + 1}, {0, columns});
  }
};

// Every query sees the keys up to its own index, counted from the first of each or from the last.
constexpr Mask causal_top_left() { return {-Mask::unbounded, 0}; }
constexpr Mask causal_bottom_right(index_t n, index_t m) { return {-Mask::unbounded, m - n}; }

// Query i sees `left` keys before key i + diagonal and `right` after it; below 0: all.
constexpr Mask window(index_t diagonal, index_t left, index_t right) {
  return {left < 0 ? -Mask::unbounded : diagonal - left,
          right < 0 ? Mask::unbounded : diagonal + right};
}

// Pairs of a query and a key that it sees.
inline index_t visible_pairs(const Mask& mask, index_t n, index_t m) {
  if (!mask.hides()) return n * m;
  if (mask.first > mask.last) return 0;
  // Of t = shift, shift + 1, ... n numbers, each between 0 and m, the sum.
  const auto sum = [n, m](index_t shift) {
    const auto below = [m](index_t end) {
      const index_t rising = std::clamp(end, index_t(0), m);
      return rising * (rising - 1) / 2 + (std::max(end, m) - m) * m;
    };
    const index_t from = std::clamp(shift, -n, m);
    return below(from + n) - below(from);
  };
  return sum(mask.last + 1) - sum(mask.first);
}

}  // namespace ioattn
