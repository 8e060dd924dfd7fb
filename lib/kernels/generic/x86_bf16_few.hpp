#pragma once

#include <algorithm>

#include "kernels/generic/x86_bf16_pairs.hpp"

// Products of few rows by operands that are not packed. See scalar_vector.hpp about the anonymous
// namespace.
namespace ioattn::kernels {
namespace {

// What is packed is read once where there are few rows: pairs are made in registers instead, and an
// element is the same sum in the same order.
template <int max_rows>
struct X86Bf16Few : X86Bf16Pairs<max_rows> {
  static constexpr PairKernels table(PairKernels pairs) {
    pairs.few_product = few_product;
    pairs.few_weights = few_weights;
    return pairs;
  }

 private:
  using Base = X86Bf16Pairs<max_rows>;
  using Base::lanes;
  using Product = kernels::Product<float, bf16x2>;

  // A line of row i of those that are read next.
  static IOATTN_INLINE void fetch(const RowsAhead& ahead, index_t i, index_t byte) {
    if (i < ahead.rows && byte < ahead.row_bytes)
      __builtin_prefetch(static_cast<const char*>(ahead.first) + i * ahead.stride_bytes + byte, 0,
                         2);
  }

  static IOATTN_INLINE __m512 multiply_add(__m512 sum, bf16x2 a, __m512i b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)Bf16Terms::splat(a), (__m512bh)b);
  }

  // Sums of row i of a product, columns [col, col + 16).
  static IOATTN_INLINE void finish(const Product& p, index_t i, index_t col, __m512 sum) {
    const __mmask16 exist = Base::first_of_16(p.cols - col);
    float* const c = p.c.row_of(0, i) + col;
    if (p.scale != 1) sum = _mm512_mul_ps(sum, _mm512_set1_ps(p.scale));
    if (p.accumulate) {
      const __m512 before = _mm512_maskz_loadu_ps(exist, c);
      sum = p.row_scale != nullptr ? _mm512_fmadd_ps(before, _mm512_set1_ps(p.row_scale[i]), sum)
                                   : _mm512_add_ps(before, sum);
    }
    _mm512_mask_storeu_ps(c, exist, sum);
  }

  // Rows of A, of which a last one may be there more than once.
  template <int rows>
  struct RowsOfA {
    const bf16x2* row[rows];
    IOATTN_INLINE RowsOfA(const Product& p) {
      for (int i = 0; i < rows; ++i) row[i] = p.a.data + std::min<index_t>(i, p.rows - 1) * p.a.row;
    }
  };

  // Columns have adjacent terms: squares of 16 columns and 16 pairs are transposed in registers.
  template <int rows, bool whole>
  static IOATTN_INLINE void columns_of_terms(const Product& p, const UnpackedTerms& b,
                                             index_t first, index_t col) {
    const RowsOfA<rows> a(p);
    const index_t width = p.cols - col;
    __m512 sum[rows];
#pragma GCC unroll 8
    for (__m512& each : sum) each = _mm512_setzero_ps();
    for (index_t q = 0; q < p.depth; q += lanes) {
      const index_t term = 2 * (first + q);
      const bf16* const square = b.src + col * b.lane_stride + term;
      const __mmask32 terms = Base::first_of_32(b.depth - term);
      __m512 x[lanes];
#pragma GCC unroll 16
      for (index_t j = 0; j < lanes; ++j) {
        const bf16* const from = square + (whole || j < width ? j : 0) * b.lane_stride;
        const __mmask32 exist = whole || j < width ? terms : __mmask32(0);
        x[j] = _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(exist, from));
        if (whole) __builtin_prefetch(from + lanes * b.lane_stride);
        fetch(p.ahead, col + j, 2 * term);
      }
      transpose(x);
      const index_t pairs = p.depth - q;
#pragma GCC unroll 16
      for (index_t k = 0; k < lanes; ++k) {
        if (k >= pairs) break;
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i)
          sum[i] = multiply_add(sum[i], a.row[i][q + k], _mm512_castps_si512(x[k]));
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
      if (i < p.rows) finish(p, i, col, sum[i]);
  }
  template <int rows>
  static IOATTN_INLINE void by_terms_of_columns(const Product& p, const UnpackedTerms& b,
                                                index_t first) {
    index_t col = 0;
    for (; col + lanes <= p.cols; col += lanes) columns_of_terms<rows, true>(p, b, first, col);
    if (col < p.cols) columns_of_terms<rows, false>(p, b, first, col);
  }

  // Rows of columns, two at a time: panels of 32 columns that are read side by side.
  template <int rows, int panels>
  static IOATTN_INLINE void panels_of_rows(const Product& p, const UnpackedTerms& b, index_t first,
                                           index_t col) {
    const RowsOfA<rows> a(p);
    const typename Base::Interleaving pairs;
    __mmask32 exist[panels];
#pragma GCC unroll 4
    for (int v = 0; v < panels; ++v) exist[v] = Base::first_of_32(p.cols - col - v * 2 * lanes);
    __m512 sum[rows][2 * panels];
#pragma GCC unroll 8
    for (auto& of_row : sum)
#pragma GCC unroll 8
      for (__m512& each : of_row) each = _mm512_setzero_ps();
    for (index_t q = 0; q < p.depth; ++q) {
      const index_t term = 2 * (first + q);
      const bf16* const row = b.src + term * b.depth_stride + col;
      const bool has_second = term + 1 < b.depth;
      const bf16* const next = has_second ? row + b.depth_stride : row;
#pragma GCC unroll 4
      for (int v = 0; v < panels; ++v) {
        const index_t at = v * 2 * lanes;
        const __m512i one = _mm512_maskz_loadu_epi16(exist[v], row + at);
        const __m512i two = _mm512_maskz_loadu_epi16(has_second ? exist[v] : 0, next + at);
        const __m512i lower = pairs.lower(one, two);
        const __m512i upper = pairs.upper(one, two);
        fetch(p.ahead, term, 2 * (col + at));
        fetch(p.ahead, term + 1, 2 * (col + at));
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
          const bf16x2 weight = a.row[i][q];
          sum[i][2 * v] = multiply_add(sum[i][2 * v], weight, lower);
          sum[i][2 * v + 1] = multiply_add(sum[i][2 * v + 1], weight, upper);
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < 2 * panels; ++v)
        if (i < p.rows && col + v * lanes < p.cols) finish(p, i, col + v * lanes, sum[i][v]);
  }
  template <int rows>
  static IOATTN_INLINE void by_rows_of_columns(const Product& p, const UnpackedTerms& b,
                                               index_t first) {
    constexpr int panels = rows == 1 ? 4 : rows <= 4 ? 2 : 1;  // as many sums as registers hold
    constexpr index_t wide = panels * 2 * lanes;
    index_t col = 0;
    for (; p.cols - col > wide - 2 * lanes; col += wide)
      panels_of_rows<rows, panels>(p, b, first, col);
    for (; col < p.cols; col += 2 * lanes) panels_of_rows<rows, 1>(p, b, first, col);
  }

  template <int rows>
  static IOATTN_INLINE void product_of(const Product& all, const UnpackedTerms& b) {
    by_terms(all, terms_per_accumulator, [&](const Product& p) {
      const index_t first = p.a.data - all.a.data;
      if (b.lane_stride == 1) {
        by_rows_of_columns<rows>(p, b, first);
      } else {
        by_terms_of_columns<rows>(p, b, first);
      }
    });
  }

  static IOATTN_KERNEL void few_product(const Product& p, const UnpackedTerms& b) {
    static_assert(PairKernels::few_rows == 8);
    if (p.rows == 1) {
      product_of<1>(p, b);
    } else if (p.rows == 2) {
      product_of<2>(p, b);
    } else if (p.rows <= 4) {
      product_of<4>(p, b);
    } else if (p.rows <= 6) {
      product_of<6>(p, b);
    } else {
      product_of<8>(p, b);
    }
  }

  static IOATTN_KERNEL bool few_weights(const ScoreTile<float>& tile, const PairWeights& weights) {
    const ScoreTile<float> x = tile;
    const __mmask16 exist = Base::first_of_16(x.queries);
    const __m512 row_max = _mm512_maskz_loadu_ps(exist, weights.row_max);
    __m512 total;
    if (!Base::are_ordinary(row_max)) return false;
    if (!Base::weigh_rows(
            {x.data, x.stride, x.queries, x.keys, weights.dst, weights.dst_stride, weights.scale},
            row_max, &total))
      return false;
    const __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(exist, weights.row_sum), total);
    _mm512_mask_storeu_ps(weights.row_sum, exist, sum);
    return true;
  }
};

}  // namespace
}  // namespace ioattn::kernels
