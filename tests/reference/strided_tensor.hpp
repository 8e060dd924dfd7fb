#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/sdpa_oracle.hpp"

namespace ioattn_reference {

enum class Layout { bhsd, bshd, padded };
inline constexpr Layout all_layouts[] = {Layout::bhsd, Layout::bshd, Layout::padded};

// A tensor as T somewhere in memory: heads of rows, rows of heads, or heads with gaps between rows
// and heads. Everything beside its elements, and the elements of an output, is NaN. It ends with
// its last element, for sanitizers to see what is read beyond.
template <class T>
class StridedTensor {
 public:
  StridedTensor() = default;
  StridedTensor(std::size_t batch, std::size_t heads, std::size_t rows, std::size_t cols,
                Layout layout)
      : shape_{batch, heads, rows, cols} {
    const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    const std::int64_t gap = layout == Layout::padded ? 3 : 0;
    if (layout == Layout::bshd) {
      strides_ = {size(rows * heads * cols), size(cols), size(heads * cols)};
    } else {
      strides_[2] = size(cols) + gap;
      strides_[1] = size(rows) * strides_[2] + gap;
      strides_[0] = size(heads) * strides_[1];
    }
    const bool empty = batch * heads * rows * cols == 0;
    const std::size_t last = empty ? 0 : at(batch - 1, heads - 1, rows - 1, cols - 1) + 1;
    values_.assign(last, std::numeric_limits<T>::quiet_NaN());
  }
  StridedTensor(const Tensor<double>& from, Layout layout)
      : StridedTensor(from.batch, from.heads, from.rows, from.cols, layout) {
    set(from);
  }

  template <class From>
  void set(const Tensor<From>& from) {
    each([&](std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
      values_[at(b, h, i, j)] = static_cast<T>(from(b, h, i, j));
    });
  }
  void poison() { values_.assign(values_.size(), std::numeric_limits<T>::quiet_NaN()); }

  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  // Of batch, head, row.
  const std::array<std::int64_t, 3>& strides() const { return strides_; }
  T& operator()(std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
    return values_[at(b, h, i, j)];
  }

  Tensor<T> dense() const {
    Tensor<T> to(shape_[0], shape_[1], shape_[2], shape_[3]);
    each([&](std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
      to(b, h, i, j) = values_[at(b, h, i, j)];
    });
    return to;
  }
  // Of all memory those that are no NaN: an output that was not touched has none, one that was
  // written as many as it has elements.
  std::size_t numbers() const {
    std::size_t count = 0;
    for (const T value : values_) count += std::isnan(value) ? 0u : 1u;
    return count;
  }

 private:
  std::size_t at(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    const auto stride = [&](std::size_t k) { return static_cast<std::size_t>(strides_[k]); };
    return b * stride(0) + h * stride(1) + i * stride(2) + j;
  }
  template <class Act>
  void each(const Act& act) const {
    for (std::size_t b = 0; b < shape_[0]; ++b)
      for (std::size_t h = 0; h < shape_[1]; ++h)
        for (std::size_t i = 0; i < shape_[2]; ++i)
          for (std::size_t j = 0; j < shape_[3]; ++j) act(b, h, i, j);
  }

  std::array<std::size_t, 4> shape_ = {};
  std::array<std::int64_t, 3> strides_ = {};
  std::vector<T> values_;
};

// The largest |out - ref| / (eps unit), as worst_ratio takes it.
template <class T, class Wide>
double worst_ratio(const Tensor<T>& out, const Tensor<Wide>& ref, const Tensor<double>& unit) {
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  double worst = out.values.size() == ref.values.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < out.values.size() && worst < HUGE_VAL; ++i) {
    const Wide value = static_cast<Wide>(out.values[i]);
    if (value == ref.values[i]) continue;
    const double ratio =
        static_cast<double>(std::fabs(value - ref.values[i])) / (eps * unit.values[i]);
    worst = ratio <= worst ? worst : std::isnan(ratio) ? HUGE_VAL : ratio;
  }
  return worst;
}

}  // namespace ioattn_reference
