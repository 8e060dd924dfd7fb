#pragma once

#include <immintrin.h>

#include "kernels/generic/pack_kernel.hpp"
#include "kernels/generic/pair_elements.hpp"
#include "kernels/generic/product_kernel.hpp"
#include "kernels/generic/x86_bf16_softmax.hpp"
#include "kernels/generic/xsimd_transpose.hpp"
#include "kernels/generic/xsimd_vector.hpp"

// Products of pairs of bf16 terms by AVX512-BF16, and their operands. Masks cut what is beyond the
// last element. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

struct Bf16Terms {
  using Word = bf16x2;
  using Vector = __m512i;
  using V = XsimdVector<float>;
  static constexpr bool can_scale = true;
  static constexpr bool columns_of_a_fetch = false;
  static constexpr bool cuts_columns = false;
  static IOATTN_INLINE Vector splat(Word x) { return _mm512_set1_epi32(static_cast<int>(x.bits)); }
  static IOATTN_INLINE Vector load(const Word* p) { return _mm512_loadu_si512(p); }
  static IOATTN_INLINE V exp(V x) {
    const __m512 exponent = _mm512_mul_ps(x.value, _mm512_set1_ps(log2_of_e));
    return {V::batch(power_of_2(not_above_zero(exponent)))};
  }
  static IOATTN_INLINE V multiply_add(Vector a, Vector b, V sum) {
    return {V::batch(_mm512_dpbf16_ps(sum.value, (__m512bh)a, (__m512bh)b))};
  }
};

template <int max_rows>
struct X86Bf16Pairs : X86Bf16Softmax {
  static constexpr index_t nr = 2 * lanes;

  // Terms are adjacent: squares of 16 lanes and 16 pairs are transposed in registers.
  static IOATTN_INLINE void pack_adjacent_terms(const bf16* src, index_t lane_stride, index_t width,
                                                index_t depth, bf16x2* dst) {
    for (index_t q = 0; q < depth; q += 2 * lanes) {
      const index_t later = to_later_square(q, 2 * lanes, depth, nr * lane_stride);
      const __mmask32 terms = first_of_32(depth - q);
      const index_t pairs = depth - q < 2 * lanes ? (depth - q + 1) / 2 : lanes;
      for (index_t v = 0; v < nr; v += lanes) {
        __m512 x[lanes];
        const bf16* square = src + v * lane_stride + q;
#pragma GCC unroll 16
        for (index_t j = 0; j < lanes; ++j) {
          if (width == nr) __builtin_prefetch(square + later + j * lane_stride, 0, 2);
          x[j] = _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(
              v + j < width ? terms : 0, v + j < width ? square + j * lane_stride : square));
        }
        transpose(x);
#pragma GCC unroll 16
        for (index_t k = 0; k < lanes; ++k)
          if (k < pairs) _mm512_storeu_ps(dst + (q / 2 + k) * nr + v, x[k]);
      }
    }
  }

  // {first[j], second[j]} of two rows of 32 terms.
  struct Interleaving {
    __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39,
                                   7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    IOATTN_INLINE __m512i lower(__m512i first, __m512i second) const {
      return _mm512_permutex2var_epi16(first, low, second);
    }
    IOATTN_INLINE __m512i upper(__m512i first, __m512i second) const {
      return _mm512_permutex2var_epi16(first, high, second);
    }
  };

  // Rows of lanes, two at a time, each into all the panels: a run of lines.
  static IOATTN_INLINE void pack_adjacent_lanes(const bf16* src, index_t depth_stride,
                                                index_t all_lanes, index_t depth, bf16x2* dst) {
    const Interleaving pairs;
    const index_t panel = (depth + 1) / 2 * nr;
    constexpr index_t ahead = 4;
    for (index_t q = 0; q < depth; q += 2, src += 2 * depth_stride, dst += nr) {
      bf16x2* to = dst;
      const index_t later = q + ahead + 1 < depth ? ahead * depth_stride : 0;
      for (index_t j = 0; j < all_lanes; j += nr, to += panel) {
        const __mmask32 exist = first_of_32(all_lanes - j);
        __builtin_prefetch(src + later + j, 0, 2);
        __builtin_prefetch(src + later + depth_stride + j, 0, 2);
        const __m512i first = _mm512_maskz_loadu_epi16(exist, src + j);
        const __m512i second = q + 1 < depth
                                   ? _mm512_maskz_loadu_epi16(exist, src + depth_stride + j)
                                   : _mm512_setzero_si512();
        _mm512_storeu_si512(to, pairs.lower(first, second));
        _mm512_storeu_si512(to + lanes, pairs.upper(first, second));
      }
    }
  }

  static IOATTN_KERNEL void pack(const bf16* src, index_t lane_stride, index_t depth_stride,
                                 index_t all_lanes, index_t depth, bf16x2* dst) {
    if (depth == 0) return;  // there may be no memory behind src
    if (lane_stride == 1) {
      pack_adjacent_lanes(src, depth_stride, all_lanes, depth, dst);
      return;
    }
    for (index_t first = 0; first < all_lanes; first += nr, dst += (depth + 1) / 2 * nr) {
      const bf16* panel = src + first * lane_stride;
      const index_t width = all_lanes - first < nr ? all_lanes - first : nr;
      if (depth_stride == 1) {
        pack_adjacent_terms(panel, lane_stride, width, depth, dst);
      } else {
        pack_pair_elements<nr>(panel, lane_stride, depth_stride, width, depth, dst);
      }
    }
  }

  static IOATTN_KERNEL void copy(const bf16* src, index_t src_stride, index_t rows, index_t cols,
                                 bf16x2* dst, index_t dst_stride) {
    constexpr index_t ahead = 4;
    for (index_t i = 0; i < rows; ++i, src += src_stride, dst += dst_stride) {
      const index_t later = i + ahead < rows ? ahead * src_stride : 0;
      for (index_t k = 0; k < cols; k += 32) {
        __builtin_prefetch(src + later + k, 0, 2);
        const __m512i pairs = _mm512_maskz_loadu_epi16(first_of_32(cols - k), src + k);
        _mm512_mask_storeu_epi32(dst + k / 2, first_of_16((cols - k + 1) / 2), pairs);
      }
    }
  }

  // 32 rows and columns at a time, or the first of them: words of columns in the order in which
  // rows are interleaved within quarters of a vector.
  template <bool whole>
  static IOATTN_INLINE void transpose_square(const bf16* src, index_t src_stride, index_t rows,
                                             index_t cols, bf16x2* dst, index_t dst_stride) {
    const __mmask32 exist = whole ? ~__mmask32(0) : first_of_32(cols);
    const __mmask16 pairs = whole ? __mmask16(0xffff) : first_of_16((rows + 1) / 2);
    const auto row = [&](index_t i) {
      return whole      ? _mm512_loadu_si512(src + i * src_stride)
             : i < rows ? _mm512_maskz_loadu_epi16(exist, src + i * src_stride)
                        : _mm512_setzero_si512();
    };
#pragma GCC unroll 2
    for (index_t upper = 0; upper < 2; ++upper) {
      __m512 x[lanes];
#pragma GCC unroll 16
      for (index_t r = 0; r < lanes; ++r) {
        const __m512i first = row(2 * r), second = row(2 * r + 1);
        x[r] = _mm512_castsi512_ps(upper == 0 ? _mm512_unpacklo_epi16(first, second)
                                              : _mm512_unpackhi_epi16(first, second));
      }
      transpose(x);
#pragma GCC unroll 16
      for (index_t k = 0; k < lanes; ++k) {
        const index_t col = k / 4 * 8 + upper * 4 + k % 4;
        if (whole || col < cols) _mm512_mask_storeu_ps(dst + col * dst_stride, pairs, x[k]);
      }
    }
  }
  static IOATTN_KERNEL void transpose_pairs(const bf16* src, index_t src_stride, index_t rows,
                                            index_t cols, bf16x2* dst, index_t dst_stride) {
    constexpr index_t side = 2 * lanes;
    for (index_t i = 0; i < rows; i += side, src += side * src_stride, dst += lanes)
      for (index_t k = 0; k < cols; k += side) {
        const index_t left = rows - i, width = cols - k;
        if (left >= side && width >= side) {
          transpose_square<true>(src + k, src_stride, left, width, dst + k * dst_stride,
                                 dst_stride);
        } else {
          transpose_square<false>(src + k, src_stride, left, width, dst + k * dst_stride,
                                  dst_stride);
        }
      }
  }

  static IOATTN_KERNEL void round(const float* src, index_t src_stride, index_t rows, index_t cols,
                                  bf16x2* dst, index_t dst_stride) {
    for (index_t i = 0; i < rows; i += 2, src += 2 * src_stride, dst += dst_stride) {
      const bool has_second = i + 1 < rows;
      for (index_t j = 0; j < cols; j += lanes) {
        const __mmask16 exist = first_of_16(cols - j);
        const __m512 first = _mm512_maskz_loadu_ps(exist, src + j);
        const __m512 second = _mm512_maskz_loadu_ps(has_second ? exist : 0, src + src_stride + j);
        _mm512_mask_storeu_epi32(dst + j, exist, interleaved(narrow(first, second)));
      }
    }
  }

  // Rows i and, if it exists, i + 1, columns [j, j + 32); beyond the last one nothing exists.
  template <bool whole>
  static IOATTN_INLINE void gradient_of(const PairGradient& g, index_t i, index_t j,
                                        const __m512 (&delta)[2]) {
    const bool has_second = whole || i + 1 < g.rows;
    const __mmask16 exist[2] = {whole ? __mmask16(0xffff) : first_of_16(g.cols - j),
                                whole ? __mmask16(0xffff) : first_of_16(g.cols - j - lanes)};
    const __m512 scale = _mm512_set1_ps(g.scale);
    __m512 p[2][2];
#pragma GCC unroll 2
    for (index_t row = 0; row < 2; ++row)
#pragma GCC unroll 2
      for (index_t k = 0; k < 2; ++k) {
        const __mmask16 mask = row == 0 || has_second ? exist[k] : __mmask16(0);
        const index_t at = (mask == 0 ? i : i + row) * g.stride + j + k * lanes;
        const __m512 f = _mm512_maskz_loadu_ps(mask, g.f + at);
        const __m512 q = _mm512_maskz_loadu_ps(mask, g.q + at);
        const __m512 difference = _mm512_sub_ps(q, delta[row]);
        p[row][k] = _mm512_maskz_mul_ps(mask, _mm512_mul_ps(scale, f), difference);
        if (g.in_f32 != nullptr)
          _mm512_mask_storeu_ps(g.in_f32 + at, mask, _mm512_mul_ps(f, difference));
      }
    if (g.by_rows != nullptr) {
      bf16x2* to = g.by_rows + i / 2 * g.by_rows_stride + j;
#pragma GCC unroll 2
      for (index_t k = 0; k < 2; ++k)
        _mm512_mask_storeu_epi32(to + k * lanes, exist[k], interleaved(narrow(p[0][k], p[1][k])));
    }
    if (g.by_cols != nullptr) {
      bf16x2* to = g.by_cols + i * g.by_cols_stride + j / 2;
      const __mmask16 pairs = whole ? __mmask16(0xffff) : first_of_16((g.cols - j + 1) / 2);
      _mm512_mask_storeu_epi32(to, pairs, narrow(p[0][0], p[0][1]));
      if (has_second)
        _mm512_mask_storeu_epi32(to + g.by_cols_stride, pairs, narrow(p[1][0], p[1][1]));
    }
  }
  // Denormals, which a product takes for 0, may take a hundred times as long as other numbers.
  class WithoutDenormals {
   public:
    WithoutDenormals() : saved_(_mm_getcsr()) { set(saved_ | flush_results | take_for_zero); }
    ~WithoutDenormals() { set(saved_); }
    WithoutDenormals(const WithoutDenormals&) = delete;
    WithoutDenormals& operator=(const WithoutDenormals&) = delete;

   private:
    static constexpr unsigned flush_results = 0x8000, take_for_zero = 0x0040;
    static void set(unsigned csr) {
      __asm__ volatile("" ::: "memory");
      _mm_setcsr(csr);
      __asm__ volatile("" ::: "memory");
    }
    unsigned saved_;
  };

  static IOATTN_KERNEL void gradient(const PairGradient& gradient) {
    const WithoutDenormals mode;
    const PairGradient g = gradient;
    for (index_t i = 0; i < g.rows; i += 2) {
      const bool has_second = i + 1 < g.rows;
      const __m512 delta[2] = {_mm512_set1_ps(g.delta[i]),
                               _mm512_set1_ps(has_second ? g.delta[i + 1] : 0.f)};
      index_t j = 0;
      for (; has_second && j + 2 * lanes <= g.cols; j += 2 * lanes)
        gradient_of<true>(g, i, j, delta);
      for (; j < g.cols; j += 2 * lanes) gradient_of<false>(g, i, j, delta);
    }
  }

  // Of gradients_of. A compiler would read them again beside every product, and tiles wait for
  // loads.
  struct GradientConstants {
    __m512 scale, binary_scale;
    BinaryPowerConstants power;
    __m512i order = interleaving_of_halves();
    __m512i lower = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    __m512i upper = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);

    explicit IOATTN_INLINE GradientConstants(float of_scores)
        : scale(_mm512_set1_ps(of_scores)), binary_scale(_mm512_set1_ps(binary(of_scores))) {}
    // Keeps the compiler from knowing them.
    IOATTN_INLINE void hold() {
      __asm__(""
              : "+v"(scale), "+v"(binary_scale), "+v"(power.magic), "+v"(power.centre),
                "+v"(power.rest), "+v"(power.powers));
      __asm__("" : "+v"(order), "+v"(lower), "+v"(upper));
    }
  };

  template <RowKinds kinds>
  static IOATTN_INLINE __m512 exponents_of(__m512 scores, float lse, const GradientConstants& c) {
    __m512 exponents;
    if (kinds == RowKinds::ordinary) {
      exponents = Exponents{c.binary_scale, _mm512_set1_ps(lse)}.of(scores);
    } else if (kinds == RowKinds::any && is_ordinary(lse)) {
      exponents = Exponents{c.binary_scale, _mm512_set1_ps(binary(lse))}.of(scores);
    } else {
      exponents = exponents_of_gradients(scores, c.scale, _mm512_set1_ps(lse));
    }
    return not_above_zero(exponents);
  }

  // What TileGradients makes of two rows of a panel, WithoutDenormals.
  template <bool whole, RowKinds kinds>
  static IOATTN_INLINE void gradients_of(const ScorePairs& x, const GradientConstants& c) {
    const __mmask16 exist[2] = {whole ? __mmask16(0xffff) : first_of_16(x.columns),
                                whole ? __mmask16(0xffff) : first_of_16(x.columns - lanes)};
    const bool has_second = whole || x.rows > 1;
    __m512 f[2][2], p[2][2];
#pragma GCC unroll 2
    for (index_t row = 0; row < 2; ++row) {
      const __m512 delta = _mm512_set1_ps(x.shifts[row].delta);
#pragma GCC unroll 2
      for (index_t k = 0; k < 2; ++k) {
        const index_t at = row * nr + k * lanes;
        const __m512 scores = _mm512_load_ps(x.scores + at);
        f[row][k] = flushed_power_of_2(exponents_of<kinds>(scores, x.shifts[row].lse, c), c.power);
        p[row][k] =
            _mm512_mul_ps(f[row][k], _mm512_fmsub_ps(_mm512_load_ps(x.q + at), c.scale, delta));
        if (!whole) {
          const __mmask16 mask = row == 0 || has_second ? exist[k] : __mmask16(0);
          f[row][k] = _mm512_maskz_mov_ps(mask, f[row][k]);
          p[row][k] = _mm512_maskz_mov_ps(mask, p[row][k]);
        }
      }
    }
    const auto store = [](bf16x2* to, __mmask16 mask, __m512i words) {
      if (whole) {
        _mm512_storeu_si512(to, words);
      } else {
        _mm512_mask_storeu_epi32(to, mask, words);
      }
    };
#pragma GCC unroll 2
    for (index_t k = 0; k < 2; ++k)
      store(x.f_by_rows + k * lanes, exist[k],
            _mm512_permutexvar_epi16(c.order, narrow(f[0][k], f[1][k])));
    const __m512i first = narrow(p[0][0], p[0][1]), second = narrow(p[1][0], p[1][1]);
    const __mmask16 pairs = whole ? __mmask16(0xffff) : first_of_16((x.columns + 1) / 2);
    store(x.p_by_cols, pairs, first);
    if (has_second) store(x.p_by_cols + x.stride, pairs, second);
    // Both are interleaved in each quarter of a vector. To round twice takes longer.
    const __m512i low = _mm512_unpacklo_epi16(first, second);
    const __m512i high = _mm512_unpackhi_epi16(first, second);
    store(x.p_by_rows, exist[0], _mm512_permutex2var_epi64(low, c.lower, high));
    store(x.p_by_rows + lanes, exist[1], _mm512_permutex2var_epi64(low, c.upper, high));
  }

  static IOATTN_KERNEL float fma_loop(index_t iterations) {
    __m512 sum[max_rows][2];
    for (auto& row : sum)
      for (__m512& each : row) each = _mm512_setzero_ps();
    const __m512i x = _mm512_set1_epi32(0x3f003f00);  // 0.5
    const __m512i y = _mm512_set1_epi32(0x3e803e80);  // 0.25
    for (index_t k = 0; k < iterations; ++k)
#pragma GCC unroll 16
      for (int i = 0; i < max_rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < 2; ++v)
          sum[i][v] = _mm512_dpbf16_ps(sum[i][v], (__m512bh)x, (__m512bh)y);
    float total = 0;
    for (auto& row : sum)
      for (const __m512& each : row) total += _mm512_reduce_add_ps(each);
    return total;
  }

  static constexpr PairKernels table = {
      ProductKernel<XsimdVector<float>, max_rows, 2, Bf16Terms>::product,
      pack,
      copy,
      round,
      gradient,
      softmax_update,
      softmax_rows,
      fma_loop,
      index_t(max_rows) * nr * 2};
};

}  // namespace
}  // namespace ioattn::kernels
