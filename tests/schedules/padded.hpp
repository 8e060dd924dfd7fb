#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "base/matrix_view.hpp"
#include "reference/oracle.hpp"

namespace ioattn_test {

// A copy of a matrix as T, `padding` elements of NaN between rows.
template <class T>
struct Padded {
  std::vector<T> values;
  ioattn::index_t rows, cols, stride;

  Padded(const ioattn_reference::Matrix<double>& m, ioattn::index_t padding)
      : Padded(static_cast<ioattn::index_t>(m.rows), static_cast<ioattn::index_t>(m.cols),
               padding) {
    for (ioattn::index_t i = 0; i < rows; ++i)
      for (ioattn::index_t j = 0; j < cols; ++j)
        values[static_cast<std::size_t>(i * stride + j)] =
            static_cast<T>(m(static_cast<std::size_t>(i), static_cast<std::size_t>(j)));
  }
  Padded(ioattn::index_t row_count, ioattn::index_t col_count, ioattn::index_t padding)
      : values(static_cast<std::size_t>((row_count - 1) * (col_count + padding) + col_count),
               std::numeric_limits<T>::quiet_NaN()),
        rows(row_count),
        cols(col_count),
        stride(col_count + padding) {}

  ioattn::MatrixView<const T> view() const { return {values.data(), rows, cols, stride}; }
  // No element beside the rows is a number.
  bool untouched_between_rows() const {
    for (ioattn::index_t i = 0; i + 1 < rows; ++i)
      for (ioattn::index_t j = cols; j < stride; ++j)
        if (!std::isnan(values[static_cast<std::size_t>(i * stride + j)])) return false;
    return true;
  }
  ioattn::MatrixView<T> view() { return {values.data(), rows, cols, stride}; }
};

}  // namespace ioattn_test
