#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/arbitrary_reals.hpp"
#include "base/half.hpp"
#include "base/matrix_view.hpp"
#include "base/status.hpp"
#include "base/tensor_view.hpp"

namespace ioattn::api {

// Numbers of a type, of which dense tensors are taken. Each begins with a cache line, as those of
// frameworks do.
template <class T>
class Numbers {
 public:
  explicit Numbers(index_t count)
      : memory_(static_cast<std::size_t>(count + (most_tensors + 1) * line)) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(T);
    taken_ = (line - address % line) % line;
  }
  MatrixView<T> take(index_t rows, index_t cols) {
    T* data = memory_.data() + taken_;
    taken_ += static_cast<std::size_t>((rows * cols + line - 1) / line * line);
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
      view.data[i] = to_storage<T>(static_cast<Compute<T>>(largest * reals.next()));
    }
  }

 private:
  static constexpr index_t line = 64 / sizeof(T), most_tensors = 8;
  std::vector<T> memory_;
  std::size_t taken_ = 0;
};

// How many numbers a run reads and writes.
struct NumberCounts {
  index_t inputs = 0, results = 0, sums = 0, gradients = 0;

  index_t bytes(DType dtype, bool gradients_in_f32) const {
    const index_t size = size_of(dtype), of_sum = is_half(dtype) ? 4 : size;
    return (inputs + results) * size + sums * of_sum +
           gradients * (gradients_in_f32 ? of_sum : size);
  }
};

// A Timed, whose backward pass has what `forward` makes.
template <class Timed, class Problem, class Set, class Plan, class Base>
Status make_timed(const Problem& problem, const Set& set, int threads, const Plan& forward,
                  std::unique_ptr<Base>* result) {
  auto timed = std::make_unique<Timed>(problem, set, threads);
  const Status status = set ? timed->forward(forward) : Status::ok();
  *result = std::move(timed);
  return status;
}

}  // namespace ioattn::api
