#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

// Where a sparse matrix has entries.
namespace ioattn::tune {

struct SparsePattern {
  index_t rows = 0, cols = 0;
  std::vector<index_t> start = {0};  // of each row, and the end
  std::vector<index_t> column;       // ascending within a row

  index_t entries() const { return start.back(); }
  bool has_row(index_t i) const {
    const auto row = static_cast<std::size_t>(i);
    return start[row + 1] > start[row];
  }
};

// Reads Matrix Market, coordinate format; entries that are 0 are none. Throws UsageError, also
// beyond so many rows or columns.
constexpr index_t most_sparse_rows = 10000000;
SparsePattern read_matrix_market(const std::string& path);

SparsePattern identity_pattern(index_t n);
SparsePattern full_pattern(index_t rows, index_t cols);
SparsePattern transposed(const SparsePattern& a);
// Those with keep(row, column).
template <class Keep>
SparsePattern entries_where(const SparsePattern& a, const Keep& keep) {
  SparsePattern part = {a.rows, a.cols, {0}, {}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.rows); ++i) {
    for (index_t k = a.start[i]; k < a.start[i + 1]; ++k) {
      const index_t column = a.column[static_cast<std::size_t>(k)];
      if (keep(static_cast<index_t>(i), column)) part.column.push_back(column);
    }
    part.start.push_back(static_cast<index_t>(part.column.size()));
  }
  return part;
}

// The product, where no sum cancels, and how many multiply-adds it takes. Throws UsageError beyond
// 10^10.
struct PatternProduct {
  SparsePattern pattern;
  double multiply_adds = 0;
};
PatternProduct multiply(const SparsePattern& a, const SparsePattern& b);

}  // namespace ioattn::tune
