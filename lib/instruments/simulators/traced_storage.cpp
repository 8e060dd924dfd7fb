#include "instruments/simulators/traced_storage.hpp"

#include <algorithm>

namespace ioattn::instruments {
namespace {

// A table holds plain functions, so what they call and record into is found from here.
template <class S>
struct Traced {
  static inline TraceRecorder* (*current)() = nullptr;
  static inline const kernels::StorageKernels<S>* inner = nullptr;
  static inline index_t nr = 1;

  static void widen(const S* src, index_t src_stride, index_t rows, index_t cols, float* dst,
                    index_t dst_stride) {
    for (index_t i = 0; i < rows; ++i) {
      touch(current(), src + i * src_stride, cols, false);
      touch(current(), dst + i * dst_stride, cols, true);
    }
    inner->widen(src, src_stride, rows, cols, dst, dst_stride);
  }
  static void narrow(const float* src, index_t src_stride, index_t rows, index_t cols,
                     const float* factors, index_t factor_step, S* dst, index_t dst_stride) {
    if (factor_step != 0) touch(current(), factors, rows, false);  // else a number, no operand
    for (index_t i = 0; i < rows; ++i) {
      touch(current(), src + i * src_stride, cols, false);
      touch(current(), dst + i * dst_stride, cols, true);
    }
    inner->narrow(src, src_stride, rows, cols, factors, factor_step, dst, dst_stride);
  }
  // Terms go by way of L1, so many at a time, unless lanes are adjacent.
  static void pack(const S* src, index_t lane_stride, index_t depth_stride, index_t lanes,
                   index_t depth, float* dst) {
    constexpr index_t terms_at_once = 64;
    const bool by_lanes = lane_stride == 1 && depth_stride != 1;
    const index_t step = by_lanes ? 1 : terms_at_once;
    for (index_t first = 0; first < lanes && depth > 0; first += nr) {
      const index_t width = std::min(nr, lanes - first);
      for (index_t q = 0; q < depth; q += step) {
        const index_t terms = std::min(step, depth - q);
        const S* from = src + first * lane_stride + q * depth_stride;
        if (by_lanes) {
          touch(current(), from, width, false);
        } else {
          for (index_t j = 0; j < width; ++j)
            for (index_t k = 0; k < (depth_stride == 1 ? 1 : terms); ++k)
              touch(current(), from + j * lane_stride + k * depth_stride,
                    depth_stride == 1 ? terms : 1, false);
        }
        touch(current(), dst + first * depth + q * nr, terms * nr, true);
      }
    }
    inner->pack(src, lane_stride, depth_stride, lanes, depth, dst);
  }
  static void row_dot(index_t rows, index_t cols, const S* x, index_t x_stride, const S* y,
                      index_t y_stride, float* out) {
    for (index_t i = 0; i < rows; ++i) {
      touch(current(), x + i * x_stride, cols, false);
      touch(current(), y + i * y_stride, cols, false);
      touch(current(), out + i, 1, true);
    }
    inner->row_dot(rows, cols, x, x_stride, y, y_stride, out);
  }
};

}  // namespace

template <class S>
kernels::StorageKernels<S> traced_storage(const kernels::StorageKernels<S>& traced, index_t nr,
                                          TraceRecorder* (*current)()) {
  Traced<S>::current = current;
  Traced<S>::inner = &traced;
  Traced<S>::nr = nr;
  return {Traced<S>::widen, Traced<S>::narrow, Traced<S>::pack, Traced<S>::row_dot};
}

template kernels::StorageKernels<bf16> traced_storage(const kernels::StorageKernels<bf16>&, index_t,
                                                      TraceRecorder* (*)());
template kernels::StorageKernels<f16> traced_storage(const kernels::StorageKernels<f16>&, index_t,
                                                     TraceRecorder* (*)());

}  // namespace ioattn::instruments
