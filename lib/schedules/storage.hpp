#pragma once

#include <algorithm>
#include <cmath>

#include "base/half.hpp"
#include "base/matrix_view.hpp"
#include "base/overflow_counts.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory_moves.hpp"

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
  if constexpr (is_half_storage<S>)
    load_rows<S>(kernels, from, from_stride, rows, cols, to, to_stride);
  for (index_t i = 0; i < rows; ++i) {
    Compute<S>* row = to + i * to_stride;
    if constexpr (is_half_storage<S>) {
      for (index_t k = 0; k < cols; ++k) row[k] *= scale;
    } else {
      const S* source = from + i * from_stride;
      fetch_row_behind(source, from_stride, i, rows, cols);
      tell_read(kernels, source, cols);
      tell_written(kernels, row, cols);
      for (index_t k = 0; k < cols; ++k) row[k] = scale * source[k];
    }
  }
}

// As KernelTable::pack.
template <class S>
void load_panels(const kernels::KernelTable<Compute<S>>& kernels, const S* from,
                 index_t lane_stride, index_t depth_stride, index_t lanes, index_t depth,
                 Compute<S>* to) {
  if constexpr (is_half_storage<S>) {
    kernels.template storage<S>().pack(from, lane_stride, depth_stride, lanes, depth, to);
  } else {
    kernels.pack(from, lane_stride, depth_stride, lanes, depth, to);
  }
}

// How many finite numbers have become infinite.
template <class S>
index_t overflows(const float* numbers, index_t count, const S* rounded) {
  index_t found = 0;
  for (index_t k = 0; k < count; ++k)
    if (!std::isinf(numbers[k]) && std::isinf(to_float(rounded[k]))) ++found;
  return found;
}

// to[i][k] (+)= scale * from[i][k]
template <class S>
void store_rows(const kernels::KernelTable<Compute<S>>& kernels, const Compute<S>* from,
                index_t from_stride, index_t rows, index_t cols, Compute<S> scale, bool add, S* to,
                index_t to_stride, const CountedResult& counted = {}) {
  using T = Compute<S>;
  if constexpr (is_half_storage<S>) {
    if (!add && counted.counts == nullptr) {
      kernels.template storage<S>().narrow(from, from_stride, rows, cols, scale, to, to_stride);
      return;
    }
    constexpr index_t at_once = 256;
    T sums[at_once];
    index_t overflowed = 0;
    for (index_t i = 0; i < rows; ++i) {
      for (index_t k = 0; k < cols; k += at_once) {
        const index_t count = std::min(at_once, cols - k);
        const T* source = from + i * from_stride + k;
        S* target = to + i * to_stride + k;
        tell_read(kernels, source, count);
        if (add) kernels.template storage<S>().widen(target, 0, 1, count, sums, 0);
        for (index_t l = 0; l < count; ++l)
          sums[l] = add ? sums[l] + scale * source[l] : scale * source[l];
        kernels.template storage<S>().narrow(sums, 0, 1, count, T(1), target, 0);
        if (counted.counts != nullptr) overflowed += overflows(sums, count, target);
      }
    }
    if (overflowed > 0) counted.counts->add(counted.result, overflowed);
  } else {
    for (index_t i = 0; i < rows; ++i, from += from_stride, to += to_stride) {
      tell_read(kernels, from, cols);
      tell_written(kernels, to, cols);
      if (add) {
        for (index_t k = 0; k < cols; ++k) to[k] += scale * from[k];
      } else {
        for (index_t k = 0; k < cols; ++k) to[k] = scale * from[k];
      }
    }
  }
}

}  // namespace ioattn::schedules
