#pragma once

#include "kernels/generic/inlining.hpp"
#include "kernels/kernel_table.hpp"

// Pairs of terms one by one. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

IOATTN_INLINE bf16x2 pair_of(bf16 first, bf16 second) {
  return {std::uint32_t(first.bits) | std::uint32_t(second.bits) << 16};
}

// Two rows of a panel of scores and of q, and where what is made of them goes (PairGradients).
struct ScorePairs {
  const float *scores, *q;  // [2][nr]
  float scale;
  const float *lse, *scaled_delta;            // of both rows
  index_t rows, columns;                      // that exist
  bf16x2 *f_by_rows, *p_by_rows, *p_by_cols;  // of p_by_cols the first row
  index_t stride;                             // of all three
};

// Rows of gradients, at most so many, whose scores and q come panel by panel.
template <index_t most, index_t nr>
struct GradientRows {
  float lse[most + 1], scaled_delta[most + 1];  // and of a row that is none
  PairGradients to;                             // of the first row
  index_t rows;

  IOATTN_INLINE void begin(const PairGradients& g, index_t row, index_t count) {
    rows = count;
    lse[count] = scaled_delta[count] = 0;
    for (index_t i = 0; i < count; ++i) {
      lse[i] = g.lse[row + i];
      scaled_delta[i] = g.scale * g.delta[row + i];
    }
    to = g;
    to.f_by_rows += row / 2 * g.stride;
    to.p_by_rows += row / 2 * g.stride;
    to.p_by_cols += row * g.stride;
  }

  // The panel that begins at column col, from which on `left` columns exist.
  IOATTN_INLINE ScorePairs panel(const float* scores, const float* q, index_t col,
                                 index_t left) const {
    return {scores,
            q,
            to.scale,
            lse,
            scaled_delta,
            rows,
            left < nr ? left : nr,
            to.f_by_rows + col,
            to.p_by_rows + col,
            to.p_by_cols + col / 2,
            to.stride};
  }
};

// So many rows of them, two at a time, by Pairs::gradients_of.
template <class Pairs, index_t nr>
IOATTN_INLINE void take_rows(ScorePairs* at, index_t count) {
  for (const index_t left = at->rows - (at->rows < count ? at->rows : count); at->rows > left;) {
    if (at->rows > 1 && at->columns == nr) {
      Pairs::template gradients_of<true>(*at);
    } else {
      Pairs::template gradients_of<false>(*at);
    }
    at->scores += 2 * nr;
    at->q += 2 * nr;
    at->lse += 2;
    at->scaled_delta += 2;
    at->f_by_rows += at->stride;
    at->p_by_rows += at->stride;
    at->p_by_cols += 2 * at->stride;
    at->rows = at->rows > 2 ? at->rows - 2 : 0;
  }
}

// A panel of nr lanes of any strides, as PairKernels::pack; `width` lanes exist.
template <index_t nr>
IOATTN_INLINE void pack_pair_elements(const bf16* src, index_t lane_stride, index_t depth_stride,
                                      index_t width, index_t depth, bf16x2* dst) {
  for (index_t q = 0; q < depth; q += 2, dst += nr)
    for (index_t j = 0; j < nr; ++j) {
      const bf16* term = src + j * lane_stride + q * depth_stride;
      const bool exists = j < width;
      dst[j] =
          pair_of(exists ? *term : bf16{0}, exists && q + 1 < depth ? term[depth_stride] : bf16{0});
    }
}

}  // namespace
}  // namespace ioattn::kernels
