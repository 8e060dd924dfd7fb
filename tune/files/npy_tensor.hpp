#pragma once

#include <string>
#include <vector>

#include "base/tensor_view.hpp"

namespace ioattn::tune {

// Matrices by batch and head, in C order; rank 2 is one matrix, rank 3 heads of one batch entry.
template <class T>
struct Tensor {
  std::size_t rank = 4;
  index_t batch = 1, heads = 1, rows = 0, cols = 0;
  std::vector<T> data;

  TensorView<const T> view() const { return dense_tensor(data.data(), batch, heads, rows, cols); }
};

// An array of dimension 2 to 4, converted to T as read_npy does, to or from 16 bits too. Throws
// UsageError, beginning with the path.
template <class T>
Tensor<T> read_npy_tensor(const std::string& path);

}  // namespace ioattn::tune
