#pragma once

#include "kernels/generic/inlining.hpp"

// Transposition of a matrix over a vector type V. See scalar_vector.hpp about the anonymous
// namespace.
namespace ioattn::kernels {
namespace {

template <class V>
struct TransposeKernel {
  using T = typename V::value_type;

  template <bool add>
  static IOATTN_INLINE void elements(const T* src, index_t src_stride, index_t rows, index_t cols,
                                     T* dst, index_t dst_stride) {
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < cols; ++j) {
        T* to = dst + j * dst_stride + i;
        *to = add ? *to + src[i * src_stride + j] : src[i * src_stride + j];
      }
  }

  // Squares of V::lanes rows and columns in registers, what is left one by one.
  template <bool add>
  static IOATTN_INLINE void blocks(const T* src, index_t src_stride, index_t rows, index_t cols,
                                   T* dst, index_t dst_stride) {
    constexpr index_t side = V::lanes;
    const index_t whole_rows = side == 1 ? 0 : rows - rows % side;
    const index_t whole_cols = cols - cols % side;
    for (index_t i = 0; i < whole_rows; i += side) {
      for (index_t j = 0; j < whole_cols; j += side) {
        const T* from = src + i * src_stride + j;
        T* to = dst + j * dst_stride + i;
        V x[side];
#pragma GCC unroll 16
        for (int k = 0; k < side; ++k) x[k] = V::load(from + k * src_stride);
        V::transpose(x);
#pragma GCC unroll 16
        for (int k = 0; k < side; ++k) {
          const V sum = add ? V::load(to + k * dst_stride) + x[k] : x[k];
          sum.store(to + k * dst_stride);
        }
      }
      elements<add>(src + i * src_stride + whole_cols, src_stride, side, cols - whole_cols,
                    dst + whole_cols * dst_stride + i, dst_stride);
    }
    elements<add>(src + whole_rows * src_stride, src_stride, rows - whole_rows, cols,
                  dst + whole_rows, dst_stride);
  }

  static IOATTN_KERNEL void transpose(const T* src, index_t src_stride, index_t rows, index_t cols,
                                      bool add, T* dst, index_t dst_stride) {
    if (add) {
      blocks<true>(src, src_stride, rows, cols, dst, dst_stride);
    } else {
      blocks<false>(src, src_stride, rows, cols, dst, dst_stride);
    }
  }
};

}  // namespace
}  // namespace ioattn::kernels
