#pragma once

#include "base/half.hpp"
#include "kernels/generic/pair_elements.hpp"
#include "kernels/generic/product_kernel.hpp"
#include "kernels/generic/scalar_vector.hpp"

// Products of pairs of bf16 terms as the instructions define them, one lane at a time: for tests of
// what is built on them, on every CPU. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

IOATTN_INLINE float without_denormals(float x) {
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.f, x) : x;
}
IOATTN_INLINE bf16 rounded(float x) { return from_float<bf16>(without_denormals(x)); }

struct EmulatedTerms {
  using Word = bf16x2;
  using Vector = bf16x2;
  using V = ScalarVector<float>;
  static constexpr bool can_scale = true;
  static constexpr bool columns_of_a_fetch = false;
  static constexpr bool cuts_columns = false;
  static IOATTN_INLINE Vector splat(Word x) { return x; }
  static IOATTN_INLINE Vector load(const Word* p) { return *p; }
  static IOATTN_INLINE float first(Word x) {
    return without_denormals(to_float(bf16{std::uint16_t(x.bits)}));
  }
  static IOATTN_INLINE float second(Word x) {
    return without_denormals(to_float(bf16{std::uint16_t(x.bits >> 16)}));
  }
  static IOATTN_INLINE V exp(V x) { return {without_denormals(exponential(x).value)}; }
  // A call: kernels would be most of what there is to compile, with its copies in them.
  static __attribute__((noinline)) V multiply_add(Vector a, Vector b, V sum) {
    return {first(a) * first(b) + (second(a) * second(b) + sum.value)};
  }
};

template <int max_rows, int nr>
struct EmulatedPairs {
  static IOATTN_KERNEL void pack(const bf16* src, index_t lane_stride, index_t depth_stride,
                                 index_t lanes, index_t depth, bf16x2* dst) {
    for (index_t panel = 0; panel < lanes; panel += nr, dst += (depth + 1) / 2 * nr)
      pack_pair_elements<nr>(src + panel * lane_stride, lane_stride, depth_stride, lanes - panel,
                             depth, dst);
  }

  static IOATTN_KERNEL void copy(const bf16* src, index_t src_stride, index_t rows, index_t cols,
                                 bf16x2* dst, index_t dst_stride) {
    for (index_t i = 0; i < rows; ++i, src += src_stride, dst += dst_stride)
      for (index_t k = 0; k < cols; k += 2)
        dst[k / 2] = pair_of(src[k], k + 1 < cols ? src[k + 1] : bf16{0});
  }

  static IOATTN_KERNEL void transpose_pairs(const bf16* src, index_t src_stride, index_t rows,
                                            index_t cols, bf16x2* dst, index_t dst_stride) {
    for (index_t i = 0; i < rows; i += 2, src += 2 * src_stride, ++dst)
      for (index_t k = 0; k < cols; ++k)
        dst[k * dst_stride] = pair_of(src[k], i + 1 < rows ? src[src_stride + k] : bf16{0});
  }

  static IOATTN_KERNEL void round(const float* src, index_t src_stride, index_t rows, index_t cols,
                                  bf16x2* dst, index_t dst_stride) {
    for (index_t i = 0; i < rows; i += 2, src += 2 * src_stride, dst += dst_stride)
      for (index_t j = 0; j < cols; ++j)
        dst[j] = pair_of(rounded(src[j]), i + 1 < rows ? rounded(src[src_stride + j]) : bf16{0});
  }

  static IOATTN_INLINE bf16 element(const PairGradient& g, index_t i, index_t j) {
    if (i >= g.rows || j >= g.cols) return {0};
    const index_t at = i * g.stride + j;
    return rounded(g.scale * g.f[at] * (g.q[at] - g.delta[i]));
  }
  static IOATTN_INLINE void store_in_f32(const PairGradient& g, index_t i, index_t j) {
    const index_t at = i * g.stride + j;
    g.in_f32[at] = without_denormals(g.f[at] * (g.q[at] - g.delta[i]));
  }
  static IOATTN_KERNEL void gradient(const PairGradient& gradient) {
    const PairGradient g = gradient;
    for (index_t i = 0; i < g.rows; i += 2)
      for (index_t j = 0; j < g.cols; j += 2) {
        const bf16 p[2][2] = {{element(g, i, j), element(g, i, j + 1)},
                              {element(g, i + 1, j), element(g, i + 1, j + 1)}};
        for (index_t row = i; row < i + 2 && row < g.rows && g.in_f32 != nullptr; ++row)
          for (index_t col = j; col < j + 2 && col < g.cols; ++col) store_in_f32(g, row, col);
        for (index_t k = 0; k < 2 && g.by_rows != nullptr && j + k < g.cols; ++k)
          g.by_rows[i / 2 * g.by_rows_stride + j + k] = pair_of(p[0][k], p[1][k]);
        for (index_t k = 0; k < 2 && g.by_cols != nullptr && i + k < g.rows; ++k)
          g.by_cols[(i + k) * g.by_cols_stride + j / 2] = pair_of(p[k][0], p[k][1]);
      }
  }

  static IOATTN_INLINE float weight(float x) {
    constexpr float highest = ExpRange<float>::highest;
    return without_denormals(
        exponential_below(ScalarVector<float>::splat(highest < x ? highest : x)).value);
  }
  static IOATTN_KERNEL void softmax_update(const ScoreTile<float>& tile, float scale,
                                           float* row_max, float* row_sum, float* rescale,
                                           bf16x2* dst, index_t dst_stride) {
    for (index_t i = 0; i < tile.queries; ++i) {
      float new_max = row_max[i];
      for (index_t j = 0; j < tile.keys; ++j) {
        const float score = scale * tile.data[j * tile.stride + i];
        new_max = new_max > score ? new_max : score;
      }
      const float shift = new_max > -__builtin_inff() ? new_max : 0;
      const float factor = weight(row_max[i] - shift);
      float sum = row_sum[i] * factor;
      for (index_t j = 0; j < tile.keys; j += 2) {
        const float* score = tile.data + j * tile.stride + i;
        const float first = weight(scale * score[0] - shift);
        const float second = j + 1 < tile.keys ? weight(scale * score[tile.stride] - shift) : 0;
        dst[j / 2 * dst_stride + i] = pair_of(rounded(first), rounded(second));
        sum += first + second;
      }
      row_max[i] = new_max;
      row_sum[i] = sum;
      if (rescale != nullptr) rescale[i] = factor;
    }
  }

  static IOATTN_KERNEL void softmax_rows(const ScoreTile<float>& tile, float scale, float* row_max,
                                         float* row_sum, float* rescale, bf16x2* dst,
                                         index_t dst_stride, float margin) {
    for (index_t i = 0; i < tile.queries; ++i) {
      const float* scores = tile.data + i * tile.stride;
      bool grows = false;
      float largest = -__builtin_inff();
      for (index_t j = 0; j < tile.keys; ++j) {
        const float score = scale * scores[j];
        grows |= exceeds(score, row_max[i]);
        largest = largest > score ? largest : score;
      }
      const float new_max = grows ? largest + margin : row_max[i];
      const float shift = new_max > -__builtin_inff() ? new_max : 0;
      const float factor = weight(row_max[i] - shift);
      float total = 0;
      weigh(scores, tile.keys, scale, shift, &total, dst + i * dst_stride);
      row_max[i] = new_max;
      row_sum[i] = row_sum[i] * factor + total;
      if (rescale != nullptr) rescale[i] = factor;
    }
  }

  // What TileWeights makes of a row.
  static constexpr index_t part_lanes = 1;
  static IOATTN_INLINE bool is_ordinary(float row_max) { return row_max > -__builtin_inff(); }
  static IOATTN_INLINE float binary(float x) { return x; }
  static IOATTN_INLINE bool exceeds(float score, float row_max) {
    return score - row_max > 5.5451775f;  // 2^8
  }
  struct WeightConstants {
    float scale;
    explicit WeightConstants(float of_scores) : scale(of_scores) {}
    void hold() {}
  };
  template <bool>
  static IOATTN_INLINE void weigh(const float* scores, index_t count, const WeightConstants& c,
                                  float shift, float* part, bf16x2* to) {
    weigh(scores, count, c.scale, shift, part, to);
  }
  static IOATTN_INLINE void weigh(const float* scores, index_t count, float scale, float shift,
                                  float* part, bf16x2* to) {
    for (index_t j = 0; j < count; j += 2) {
      const float first = weight(scale * scores[j] - shift);
      const float second = j + 1 < count ? weight(scale * scores[j + 1] - shift) : 0;
      to[j / 2] = pair_of(rounded(first), rounded(second));
      *part += first + second;
    }
  }
  static IOATTN_INLINE bool add_parts(const float* parts, index_t rows, float* row_sum) {
    for (index_t i = 0; i < rows; ++i)
      if (!(parts[i] < 255)) return false;
    for (index_t i = 0; i < rows; ++i) row_sum[i] += parts[i];
    return true;
  }

  // What TileGradients makes of two rows of a panel.
  struct WithoutDenormals {};
  struct GradientConstants {
    explicit GradientConstants(float) {}
    void hold() {}
  };
  template <bool, RowKinds>
  static IOATTN_INLINE void gradients_of(const ScorePairs& x, const GradientConstants&) {
    for (index_t j = 0; j < x.columns; j += 2) {
      bf16 f[2][2] = {}, p[2][2] = {};
      for (index_t row = 0; row < 2 && row < x.rows; ++row)
        for (index_t k = 0; k < 2 && j + k < x.columns; ++k) {
          const index_t at = row * nr + j + k;
          const float x_f = EmulatedTerms::exp({x.scale * x.scores[at] - x.shifts[row].lse}).value;
          f[row][k] = rounded(x_f);
          p[row][k] = rounded(x_f * (x.scale * x.q[at] - x.shifts[row].delta));
        }
      for (index_t k = 0; k < 2 && j + k < x.columns; ++k) {
        x.f_by_rows[j + k] = pair_of(f[0][k], f[1][k]);
        x.p_by_rows[j + k] = pair_of(p[0][k], p[1][k]);
      }
      for (index_t row = 0; row < 2 && row < x.rows; ++row)
        x.p_by_cols[row * x.stride + j / 2] = pair_of(p[row][0], p[row][1]);
    }
  }

  static IOATTN_KERNEL void few_product(const Product<float, bf16x2>& all, const UnpackedTerms& b) {
    using Terms = EmulatedTerms;
    by_terms(all, terms_per_accumulator, [&](const Product<float, bf16x2>& p) {
      for (index_t i = 0; i < p.rows; ++i)
        for (index_t j = 0; j < p.cols; ++j) {
          Terms::V sum = {0};
          for (index_t q = 0; q < p.depth; ++q) {
            const index_t term = 2 * (p.a.data - all.a.data + q);
            const bf16* const x = b.src + j * b.lane_stride + term * b.depth_stride;
            const bf16 second = term + 1 < b.depth ? x[b.depth_stride] : bf16{0};
            sum = Terms::multiply_add(p.a.data[i * p.a.row + q], pair_of(*x, second), sum);
          }
          float* const c = p.c.row_of(0, i) + j;
          const float product = p.scale != 1 ? sum.value * p.scale : sum.value;
          const float factor = p.row_scale != nullptr ? p.row_scale[i] : 1;
          *c = p.accumulate ? *c * factor + product : product;
        }
    });
  }
  static IOATTN_KERNEL bool few_weights(const ScoreTile<float>& tile, const PairWeights& weights) {
    float parts[PairKernels::few_rows] = {};
    for (index_t i = 0; i < tile.queries; ++i) {
      if (!is_ordinary(weights.row_max[i])) return false;
      weigh(tile.data + i * tile.stride, tile.keys, weights.scale, weights.row_max[i], parts + i,
            weights.dst + i * weights.dst_stride);
    }
    return add_parts(parts, tile.queries, weights.row_sum);
  }

  static IOATTN_KERNEL float fma_loop(index_t iterations) {
    float sum[8] = {};
    const bf16x2 x = pair_of(rounded(0.5f), rounded(0.25f));
    for (index_t k = 0; k < iterations; ++k)
      for (float& each : sum) each = EmulatedTerms::multiply_add(x, x, {each}).value;
    float total = 0;
    for (const float each : sum) total += each;
    return total;
  }

  static constexpr PairKernels table = {
      ProductKernel<ScalarVector<float>, max_rows, nr, EmulatedTerms>::product,
      pack,
      copy,
      round,
      gradient,
      softmax_update,
      softmax_rows,
      fma_loop,
      16};
  // Tiles make other bits.
  static constexpr PairKernels table_with_few() {
    PairKernels pairs = table;
    pairs.few_product = few_product;
    pairs.few_weights = few_weights;
    return pairs;
  }
};

}  // namespace
}  // namespace ioattn::kernels
