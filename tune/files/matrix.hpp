#pragma once

#include <vector>

#include "base/matrix_view.hpp"

namespace ioattn::tune {

// A row-major matrix that owns its memory; rows follow each other.
template <class T>
struct Matrix {
  index_t rows = 0, cols = 0;
  std::vector<T> data;

  Matrix() = default;
  Matrix(index_t row_count, index_t col_count)
      : rows(row_count), cols(col_count), data(static_cast<std::size_t>(row_count * col_count)) {}

  T& at(index_t i, index_t j) { return data[static_cast<std::size_t>(i * cols + j)]; }
  const T& at(index_t i, index_t j) const { return data[static_cast<std::size_t>(i * cols + j)]; }
  MatrixView<T> view() { return {data.data(), rows, cols, cols}; }
  MatrixView<const T> view() const { return {data.data(), rows, cols, cols}; }
};

}  // namespace ioattn::tune
