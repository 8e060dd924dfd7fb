#pragma once

#include <vector>

#include "base/arbitrary_reals.hpp"
#include "base/half.hpp"
#include "base/matrix_view.hpp"
#include "base/tensor_view.hpp"

namespace ioattn::api {

// Numbers of a type, of which dense tensors are taken.
template <class T>
class Numbers {
 public:
  explicit Numbers(index_t count) : memory_(static_cast<std::size_t>(count)) {}
  MatrixView<T> take(index_t rows, index_t cols) {
    T* data = memory_.data() + taken_;
    taken_ += static_cast<std::size_t>(rows * cols);
    return {data, rows, cols, cols};
  }
  TensorView<T> take(index_t batch, index_t heads, index_t rows, index_t cols) {
    return dense_tensor(take(batch * heads * rows, cols).data, batch, heads, rows, cols);
  }
  // With numbers from -1 to 1.
  void fill() { fill({memory_.data(), 1, static_cast<index_t>(memory_.size()), 0}, 1); }
  // With those from -largest to largest.
  static void fill(const MatrixView<T>& view, double largest) {
    ArbitraryReals reals;
    for (index_t i = 0; i < view.rows * view.cols; ++i) {
      T& number = view.data[i];
      const auto value = static_cast<Compute<T>>(largest * reals.next());
      if constexpr (is_half_storage<T>) {
        number = from_float<T>(value);
      } else {
        number = value;
      }
    }
  }

 private:
  std::vector<T> memory_;
  std::size_t taken_ = 0;
};

}  // namespace ioattn::api
