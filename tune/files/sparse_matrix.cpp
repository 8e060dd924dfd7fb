#include "tune/files/sparse_matrix.hpp"

#include <algorithm>

#include "tune/command_error.hpp"

namespace ioattn::tune {

SparsePattern identity_pattern(index_t n) {
  SparsePattern result = {n, n, {0}, {}};
  for (index_t i = 0; i < n; ++i) {
    result.column.push_back(i);
    result.start.push_back(i + 1);
  }
  return result;
}

SparsePattern full_pattern(index_t rows, index_t cols) {
  SparsePattern result = {rows, cols, {0}, {}};
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < cols; ++j) result.column.push_back(j);
    result.start.push_back((i + 1) * cols);
  }
  return result;
}

SparsePattern transposed(const SparsePattern& a) {
  SparsePattern result = {a.cols, a.rows,
                          std::vector<index_t>(static_cast<std::size_t>(a.cols + 1)),
                          std::vector<index_t>(a.column.size())};
  for (const index_t j : a.column) ++result.start[static_cast<std::size_t>(j + 1)];
  for (std::size_t j = 1; j < result.start.size(); ++j) result.start[j] += result.start[j - 1];
  std::vector<index_t> next(result.start.begin(), result.start.end() - 1);
  for (index_t i = 0; i < a.rows; ++i) {
    const std::size_t row = static_cast<std::size_t>(i);
    for (index_t k = a.start[row]; k < a.start[row + 1]; ++k) {
      const index_t j = a.column[static_cast<std::size_t>(k)];
      result.column[static_cast<std::size_t>(next[static_cast<std::size_t>(j)]++)] = i;
    }
  }
  return result;
}

PatternProduct multiply(const SparsePattern& a, const SparsePattern& b) {
  constexpr double most = 1e10;
  PatternProduct product;
  for (const index_t k : a.column) {
    const std::size_t row = static_cast<std::size_t>(k);
    product.multiply_adds += static_cast<double>(b.start[row + 1] - b.start[row]);
  }
  if (product.multiply_adds > most) {
    throw UsageError("a product of these matrices takes more than 10^10 multiply-adds");
  }
  SparsePattern& result = product.pattern;
  result.rows = a.rows;
  result.cols = b.cols;
  std::vector<index_t> met(static_cast<std::size_t>(b.cols), -1);
  for (index_t i = 0; i < a.rows; ++i) {
    const std::size_t row = static_cast<std::size_t>(i);
    const auto begin = result.column.size();
    for (index_t p = a.start[row]; p < a.start[row + 1]; ++p) {
      const std::size_t k = static_cast<std::size_t>(a.column[static_cast<std::size_t>(p)]);
      for (index_t q = b.start[k]; q < b.start[k + 1]; ++q) {
        const index_t j = b.column[static_cast<std::size_t>(q)];
        index_t& last = met[static_cast<std::size_t>(j)];
        if (last == i) continue;
        last = i;
        result.column.push_back(j);
      }
    }
    std::sort(result.column.begin() + static_cast<std::ptrdiff_t>(begin), result.column.end());
    result.start.push_back(static_cast<index_t>(result.column.size()));
  }
  return product;
}

}  // namespace ioattn::tune
