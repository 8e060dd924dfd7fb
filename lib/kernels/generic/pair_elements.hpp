#pragma once

#include "kernels/generic/inlining.hpp"
#include "kernels/kernel_table.hpp"

// Pairs of terms one by one. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

IOATTN_INLINE bf16x2 pair_of(bf16 first, bf16 second) {
  return {std::uint32_t(first.bits) | std::uint32_t(second.bits) << 16};
}

// How exponents are made of rows of scores: of any row in the same way, or of rows whose LSE is not
// too large in one operation. Those are all of them, and it is in binary, or have to be found.
enum class RowKinds { alike, ordinary, any };

// Of a row: what is taken from scores and from q, scaled.
struct RowShifts {
  float lse, delta;
};

// Two rows of a panel of scores and of q, and where what is made of them goes (PairGradients).
struct ScorePairs {
  const float *scores, *q;  // [2][nr]
  float scale;
  const RowShifts* shifts;                    // of both rows
  index_t rows, columns;                      // that exist
  bf16x2 *f_by_rows, *p_by_rows, *p_by_cols;  // of p_by_cols the first row
  index_t stride;                             // of all three
};

// Rows of gradients, at most so many, whose scores and q come panel by panel.
template <index_t most, index_t nr>
struct GradientRows {
  RowShifts shifts[most + 1];  // and of a row that is none
  PairGradients to;            // of the first row
  index_t rows;

  IOATTN_INLINE void begin(const PairGradients& g, index_t row, index_t count) {
    rows = count;
    shifts[count] = {};
    for (index_t i = 0; i < count; ++i) shifts[i] = {g.lse[row + i], g.scale * g.delta[row + i]};
    to = g;
    to.f_by_rows += row / 2 * g.stride;
    to.p_by_rows += row / 2 * g.stride;
    to.p_by_cols += row * g.stride;
  }

  template <class Pairs>
  IOATTN_INLINE void take_binary() {
    for (index_t i = 0; i < rows; ++i) shifts[i].lse = Pairs::binary(shifts[i].lse);
  }

  // The panel that begins at column col, from which on `left` columns exist.
  IOATTN_INLINE ScorePairs panel(const float* scores, const float* q, index_t col,
                                 index_t left) const {
    return {scores,
            q,
            to.scale,
            shifts,
            rows,
            left < nr ? left : nr,
            to.f_by_rows + col,
            to.p_by_rows + col,
            to.p_by_cols + col / 2,
            to.stride};
  }
};

template <index_t nr>
IOATTN_INLINE void go_to_next_rows(ScorePairs* at) {
  at->scores += 2 * nr;
  at->q += 2 * nr;
  at->shifts += 2;
  at->f_by_rows += at->stride;
  at->p_by_rows += at->stride;
  at->p_by_cols += 2 * at->stride;
}

// So many rows of them, two at a time, by Pairs::gradients_of.
template <class Pairs, index_t nr, RowKinds kinds = RowKinds::alike>
IOATTN_INLINE void take_rows(ScorePairs* at, index_t count) {
  const typename Pairs::GradientConstants constants(at->scale);
  for (const index_t left = at->rows - (at->rows < count ? at->rows : count); at->rows > left;) {
    if (at->rows > 1 && at->columns == nr) {
      Pairs::template gradients_of<true, kinds>(*at, constants);
    } else {
      Pairs::template gradients_of<false, kinds>(*at, constants);
    }
    go_to_next_rows<nr>(at);
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
