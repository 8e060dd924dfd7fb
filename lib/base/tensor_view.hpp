#pragma once

#include "base/matrix_view.hpp"

namespace ioattn {

// Matrices of rows x cols by batch and head, with unit stride within a row.
template <class T>
struct TensorView {
  T* data = nullptr;
  index_t batch = 0, heads = 0, rows = 0, cols = 0;
  index_t batch_stride = 0, head_stride = 0, row_stride = 0;

  // Without memory all rows are null.
  MatrixView<T> matrix(index_t b, index_t h) const {
    if (data == nullptr) return {nullptr, rows, cols, 0};
    return {data + b * batch_stride + h * head_stride, rows, cols, row_stride};
  }
  operator TensorView<const T>() const {
    return {data, batch, heads, rows, cols, batch_stride, head_stride, row_stride};
  }
};

// Heads, and their rows, follow each other.
template <class T>
TensorView<T> dense_tensor(T* data, index_t batch, index_t heads, index_t rows, index_t cols) {
  return {data, batch, heads, rows, cols, heads * rows * cols, rows * cols, cols};
}

}  // namespace ioattn
