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
};

// Reads Matrix Market, coordinate format; entries that are 0 are none. Throws UsageError, also
// beyond so many rows or columns.
constexpr double most_sparse_rows = 1e7;
SparsePattern read_matrix_market(const std::string& path);

SparsePattern identity_pattern(index_t n);
SparsePattern full_pattern(index_t rows, index_t cols);
SparsePattern transposed(const SparsePattern& a);

// The product, where no sum cancels, and how many multiply-adds it takes. Throws UsageError beyond
// 10^10.
struct PatternProduct {
  SparsePattern pattern;
  double multiply_adds = 0;
};
PatternProduct multiply(const SparsePattern& a, const SparsePattern& b);

}  // namespace ioattn::tune
