#pragma once

#include "base/isa.hpp"
#include "base/types.hpp"

namespace ioattn::kernels {

// What becomes of C = A B (+ C) before it is stored. Columns are SIMD lanes; `shift` is `lane`, one
// value per column, or `row`, one value per row.
enum class Epilogue : std::uint8_t {
  none,      // C
  exp,       // exp(C - shift): softmax weights f from scores, shift = LSE
  gradient,  // C_old o (A B - shift): p from f (in C) and q = A B, shift = delta
};

// C[rows x cols] (+)= A[rows x depth] B[depth x cols], where C and B are stored in panels of
// `TileShape::cols` columns: element (q, j) of B is at b[(j / nr) * b_panel + q * b_row + j % nr],
// C alike. A plain row-major matrix is b_panel = nr, b_row = its stride. Every panel of B must be
// readable over all nr columns (zeros beyond `cols`). Sums are taken in blocks
// of 256 terms, or of 128 where a_row is 1.
template <class T>
struct Product {
  index_t rows = 0, cols = 0, depth = 0;
  const T* a = nullptr;
  index_t a_row = 0, a_depth = 0;  // element (i, q) at a[i * a_row + q * a_depth]; one of them is 1
  const T* b = nullptr;
  index_t b_panel = 0, b_row = 0;
  T* c = nullptr;
  index_t c_panel = 0, c_row = 0;
  bool accumulate = false;       // add to C; excludes Epilogue::gradient
  const T* row_scale = nullptr;  // with accumulate: row i of C is first multiplied by row_scale[i]
  Epilogue epilogue = Epilogue::none;
  const T* lane = nullptr;  // readable over whole panels
  const T* row = nullptr;   // instead of lane
  bool padded = false;      // C's last panel may be written over all nr columns
};

// A score tile: `keys` x `queries`, queries are SIMD lanes. Neither the tile nor the vectors over
// queries are touched beyond `queries`.
template <class T>
struct ScoreTile {
  T* data = nullptr;
  index_t stride = 0;
  index_t keys = 0, queries = 0;
};

// Between 16-bit storage and f32. Rounding is to nearest even, whatever the floating-point
// environment, a NaN becomes quiet and keeps the upper bits of its payload, and denormals are kept
// (base/half.hpp). Nothing is touched beyond the elements.
template <class S>
struct StorageKernels {
  // dst[i][k] = src[i][k]
  void (*widen)(const S* src, index_t src_stride, index_t rows, index_t cols, float* dst,
                index_t dst_stride);
  void (*narrow)(const float* src, index_t src_stride, index_t rows, index_t cols, S* dst,
                 index_t dst_stride);
  // As KernelTable::pack.
  void (*pack)(const S* src, index_t lane_stride, index_t depth_stride, index_t lanes,
               index_t depth, float* dst);
};

// Straight-line SIMD code of one ISA.
template <class T>
struct KernelTable {
  TileShape tile;

  void (*product)(const Product<T>& product);

  // dst panel p, row q, lane j%nr = src[j * lane_stride + q * depth_stride]; lanes beyond `lanes`
  // are 0. A panel holds `depth` rows of nr elements.
  void (*pack)(const T* src, index_t lane_stride, index_t depth_stride, index_t lanes,
               index_t depth, T* dst);

  // dst[j][i] (+)= src[i][j] for i < rows, j < cols
  void (*transpose)(const T* src, index_t src_stride, index_t rows, index_t cols, bool add, T* dst,
                    index_t dst_stride);

  // tile = exp(tile - lse)
  void (*exp_tile)(const ScoreTile<T>& tile, const T* lse);
  // p = f o (q - delta), elementwise on tiles of the same shape; p may be f or q
  void (*gradient_tile)(const ScoreTile<T>& f, const ScoreTile<T>& q, const T* delta,
                        const ScoreTile<T>& p);
  // sum[i] += sum over keys of f o q
  void (*dot_tile)(const ScoreTile<T>& f, const ScoreTile<T>& q, T* sum);

  // Online softmax over the keys of one tile: updates the running row_max and row_sum, sets
  // rescale = exp(old max - new max) unless it is null; with `store` the tile becomes
  // exp(tile - new max).
  void (*softmax_update)(const ScoreTile<T>& tile, bool store, T* row_max, T* row_sum, T* rescale);

  // out[i] = sum_k x[i][k] y[i][k]
  void (*row_dot)(index_t rows, index_t cols, const T* x, index_t x_stride, const T* y,
                  index_t y_stride, T* out);

  // Independent multiply-adds in registers, for the machine's peak: returns a value that depends on
  // all of them. fma_per_iteration multiply-adds each.
  T (*fma_loop)(index_t iterations);
  index_t fma_per_iteration;

  // Told of words that a schedule reads or writes without a kernel; null where nobody traces.
  void (*touched)(const T* first, index_t count, bool written) = nullptr;

  // Of f32 alone.
  const StorageKernels<bf16>* of_bf16 = nullptr;
  const StorageKernels<f16>* of_f16 = nullptr;

  template <class S>
  const StorageKernels<S>& storage() const {
    if constexpr (std::is_same_v<S, bf16>) {
      return *of_bf16;
    } else {
      return *of_f16;
    }
  }
};

}  // namespace ioattn::kernels
