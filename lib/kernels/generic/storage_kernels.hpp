#pragma once

#include "base/half.hpp"
#include "kernels/generic/inlining.hpp"
#include "kernels/generic/pack_kernel.hpp"
#include "kernels/generic/score_kernels.hpp"
#include "kernels/kernel_table.hpp"

// Conversions between 16-bit storage and f32. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// A multiplication, by 1 too, may make denormals 0; a compiler may put one in the place of a
// choice.
template <bool scales>
IOATTN_INLINE float scaled(float x, float scale) {
  return scales ? scale * x : x;
}

// One number at a time, in integers: for every CPU.
struct IntegerConversion {
  static constexpr int lanes = 1;
  template <class S>
  static IOATTN_INLINE void widen(const S* src, float* dst) {
    *dst = to_float(*src);
  }
  template <class S>
  static IOATTN_INLINE void widen_operands(const S* src, float* dst) {
    widen(src, dst);
  }
  template <bool scales, class S>
  static IOATTN_INLINE void narrow(const float* src, float scale, S* dst) {
    *dst = from_float<S>(scaled<scales>(*src, scale));
  }
};

template <class V, int vectors, class S, class Conversion>
struct StorageKernel {
  static constexpr int nr = vectors * V::lanes;

  static IOATTN_INLINE void widen_row(const S* src, index_t count, float* dst) {
    index_t k = 0;
    for (; k + Conversion::lanes <= count; k += Conversion::lanes)
      Conversion::widen(src + k, dst + k);
    for (; k < count; ++k) dst[k] = to_float(src[k]);
  }
  template <bool scales>
  static IOATTN_INLINE void narrow_row(const float* src, index_t count, float scale, S* dst) {
    index_t k = 0;
    for (; k + Conversion::lanes <= count; k += Conversion::lanes)
      Conversion::template narrow<scales>(src + k, scale, dst + k);
    for (; k < count; ++k) dst[k] = from_float<S>(scaled<scales>(src[k], scale));
  }

  static IOATTN_KERNEL void widen(const S* src, index_t src_stride, index_t rows, index_t cols,
                                  float* dst, index_t dst_stride) {
    for (index_t i = 0; i < rows; ++i) widen_row(src + i * src_stride, cols, dst + i * dst_stride);
  }
  static IOATTN_KERNEL void narrow(const float* src, index_t src_stride, index_t rows, index_t cols,
                                   const float* factors, index_t factor_step, S* dst,
                                   index_t dst_stride) {
    for (index_t i = 0; i < rows; ++i, factors += factor_step, src += src_stride, dst += dst_stride)
      if (*factors == 1) {
        narrow_row<false>(src, cols, *factors, dst);
      } else {
        narrow_row<true>(src, cols, *factors, dst);
      }
  }

  // Adjacent lanes are converted where they go; other layouts by way of a few terms in L1.
  static IOATTN_KERNEL void pack(const S* src, index_t lane_stride, index_t depth_stride,
                                 index_t lanes, index_t depth, float* dst) {
    constexpr index_t terms = 64;
    alignas(64) float rows[nr * terms];
    for (index_t first = 0; first < lanes && depth > 0; first += nr, dst += depth * nr) {
      const S* panel = src + first * lane_stride;
      const index_t width = lanes - first < nr ? lanes - first : nr;
      if (lane_stride == 1 && depth_stride != 1) {
        for (index_t q = 0; q < depth; ++q) {
          widen_row(panel + q * depth_stride, width, dst + q * nr);
          for (index_t j = width; j < nr; ++j) dst[q * nr + j] = 0;
        }
        continue;
      }
      for (index_t q = 0; q < depth; q += terms) {
        const index_t count = depth - q < terms ? depth - q : terms;
        for (index_t j = 0; j < width; ++j) {
          const S* lane = panel + j * lane_stride + q * depth_stride;
          if (depth_stride == 1) {
            widen_row(lane, count, rows + j * terms);
          } else {
            for (index_t k = 0; k < count; ++k)
              rows[j * terms + k] = to_float(lane[k * depth_stride]);
          }
        }
        PackKernel<V, vectors>::pack(rows, terms, 1, width, count, dst + q * nr);
      }
    }
  }

  struct WidenedOperands {
    static IOATTN_INLINE V vector(const S* src) {
      alignas(64) float wide[V::lanes];
      for (int v = 0; v < V::lanes; v += Conversion::lanes)
        Conversion::widen_operands(src + v, wide + v);
      return V::load(wide);
    }
    static IOATTN_INLINE float number(const S* src) { return to_float(*src); }
  };
  static IOATTN_KERNEL void row_dot(index_t rows, index_t cols, const S* x, index_t x_stride,
                                    const S* y, index_t y_stride, float* out) {
    for (index_t i = 0; i < rows; ++i, x += x_stride, y += y_stride)
      out[i] = ScoreKernels<V>::template dot<WidenedOperands>(cols, x, y);
  }

  static constexpr StorageKernels<S> table = {widen, narrow, pack, row_dot};
};

}  // namespace
}  // namespace ioattn::kernels
