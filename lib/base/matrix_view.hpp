#pragma once

#include "base/types.hpp"

namespace ioattn {

// A rows x cols matrix in row-major order; consecutive rows are `stride` elements apart.
template <class T>
struct MatrixView {
  T* data = nullptr;
  index_t rows = 0;
  index_t cols = 0;
  index_t stride = 0;

  T* row(index_t i) const { return data + i * stride; }
  T* at(index_t i, index_t j) const { return data + i * stride + j; }
  operator MatrixView<const T>() const { return {data, rows, cols, stride}; }
};

}  // namespace ioattn
