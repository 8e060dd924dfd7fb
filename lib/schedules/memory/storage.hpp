#pragma once

#include <algorithm>
#include <cmath>

#include "base/half.hpp"
#include "base/matrix_view.hpp"
#include "base/overflow_counts.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/memory_moves.hpp"

// Operands of type S as the engine computes with them, in T = Compute<S>: what is stored in 16 bits
// becomes f32 on its way in, and results are rounded once, on their way out.
namespace ioattn::schedules {

// to[i][k] = from[i][k]
template <class S>
void load_rows(const kernels::KernelTable<Compute<S>>& kernels, const S* from, index_t from_stride,
               index_t rows, index_t cols, Compute<S>* to, index_t to_stride) {
  if constexpr (is_half_storage<S>) {
    kernels.template storage<S>().widen(from, from_stride, rows, cols, to, to_stride);
  } else {
    for (index_t i = 0; i < rows; ++i) {
      fetch_row_behind(from + i * from_stride, from_stride, i, rows, cols);
      copy_words(kernels, from + i * from_stride, cols, to + i * to_stride);
    }
  }
}

template <class S>
void load_scaled_rows(const kernels::KernelTable<Compute<S>>& kernels, const S* from,
                      index_t from_stride, index_t rows, index_t cols, Compute<S> scale,
                      Compute<S>* to, index_t to_stride) {
  if constexpr (is_half_storage<S>) {
    load_rows<S>(kernels, from, from_stride, rows, cols, to, to_stride);
    kernels.scale_rows(rows, cols, &scale, 0, to, to_stride, to, to_stride);
  } else {
    kernels.scale_rows(rows, cols, &scale, 0, from, from_stride, to, to_stride);
  }
}

// out[i] = sum_k x[i][k] y[i][k]
template <class S>
void dot_rows(const kernels::KernelTable<Compute<S>>& kernels, index_t rows, index_t cols,
              const S* x, index_t x_stride, const S* y, index_t y_stride, Compute<S>* out) {
  if constexpr (is_half_storage<S>) {
    kernels.template storage<S>().row_dot(rows, cols, x, x_stride, y, y_stride, out);
  } else {
    kernels.row_dot(rows, cols, x, x_stride, y, y_stride, out);
  }
}

// As KernelTable::pack, times a factor.
template <class S>
void load_panels(const kernels::KernelTable<Compute<S>>& kernels, const S* from,
                 index_t lane_stride, index_t depth_stride, index_t lanes, index_t depth,
                 Compute<S>* to, Compute<S> scale = 1) {
  if constexpr (is_half_storage<S>) {
    kernels.template storage<S>().pack(from, lane_stride, depth_stride, lanes, depth, to);
  } else {
    kernels.pack(from, lane_stride, depth_stride, lanes, depth, to);
  }
  if (scale == 1) return;
  const index_t count = round_up(lanes, index_t(kernels.tile.cols)) * depth;
  kernels.scale_rows(1, count, &scale, 0, to, 0, to, 0);
}

// How many finite numbers have become infinite.
template <class S>
index_t overflows(const float* numbers, index_t count, const S* rounded) {
  index_t found = 0;
  for (index_t k = 0; k < count; ++k)
    if (!std::isinf(numbers[k]) && std::isinf(to_float(rounded[k]))) ++found;
  return found;
}

// What rows are multiplied by: all by one factor, or each by its own.
template <class T>
class RowFactors {
 public:
  RowFactors(T all) : one_(all) {}  // NOLINT: a number is the factor of all rows
  explicit RowFactors(const T* of_rows) : of_rows_(of_rows) {}
  const T* first() const { return of_rows_ != nullptr ? of_rows_ : &one_; }
  index_t step() const { return of_rows_ != nullptr ? 1 : 0; }

 private:
  T one_ = 1;
  const T* of_rows_ = nullptr;
};

// to[i][k] (+)= factor * from[i][k]
template <class S>
void store_rows(const kernels::KernelTable<Compute<S>>& kernels, const Compute<S>* from,
                index_t from_stride, index_t rows, index_t cols,
                const RowFactors<Compute<S>>& factors, bool add, S* to, index_t to_stride,
                const CountedResult& counted = {}) {
  using T = Compute<S>;
  const T* factor = factors.first();
  if constexpr (is_half_storage<S>) {
    if (!add && counted.counts == nullptr) {
      kernels.template storage<S>().narrow(from, from_stride, rows, cols, factor, factors.step(),
                                           to, to_stride);
      return;
    }
    constexpr index_t at_once = 256;
    constexpr T whole = 1;
    T sums[at_once];
    index_t overflowed = 0;
    for (index_t i = 0; i < rows; ++i, factor += factors.step()) {
      for (index_t k = 0; k < cols; k += at_once) {
        const index_t count = std::min(at_once, cols - k);
        const T* source = from + i * from_stride + k;
        S* target = to + i * to_stride + k;
        tell_read(kernels, source, count);
        if (add) kernels.template storage<S>().widen(target, 0, 1, count, sums, 0);
        for (index_t l = 0; l < count; ++l)
          sums[l] = add ? sums[l] + *factor * source[l] : *factor * source[l];
        kernels.template storage<S>().narrow(sums, 0, 1, count, &whole, 0, target, 0);
        if (counted.counts != nullptr) overflowed += overflows(sums, count, target);
      }
    }
    if (overflowed > 0) counted.counts->add(counted.result, overflowed);
  } else if (!add) {
    kernels.scale_rows(rows, cols, factor, factors.step(), from, from_stride, to, to_stride);
  } else {
    for (index_t i = 0; i < rows;
         ++i, factor += factors.step(), from += from_stride, to += to_stride) {
      tell_read(kernels, from, cols);
      tell_written(kernels, to, cols);
      for (index_t k = 0; k < cols; ++k) to[k] += *factor * from[k];
    }
  }
}

// What rounding to 16 bits took from numbers; nothing where they became infinite.
template <class S>
void subtract_rounded(const kernels::KernelTable<float>& kernels, const S* rounded,
                      index_t rounded_stride, index_t rows, index_t cols, float* numbers,
                      index_t stride) {
  constexpr index_t at_once = 256;
  float wide[at_once];
  for (index_t i = 0; i < rows; ++i) {
    for (index_t k = 0; k < cols; k += at_once) {
      const index_t count = std::min(at_once, cols - k);
      float* const row = numbers + i * stride + k;
      kernels.template storage<S>().widen(rounded + i * rounded_stride + k, 0, 1, count, wide, 0);
      tell_written(kernels, row, count);
      for (index_t l = 0; l < count; ++l) row[l] = std::isinf(wide[l]) ? 0 : row[l] - wide[l];
    }
  }
}

}  // namespace ioattn::schedules
