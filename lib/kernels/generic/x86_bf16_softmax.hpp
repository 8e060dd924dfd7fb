#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "kernels/generic/exponential.hpp"
#include "kernels/generic/inlining.hpp"
#include "kernels/generic/xsimd_transpose.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/product_order.hpp"

// The online softmax whose weights are rounded to bf16, by AVX-512 and AVX512-BF16. See
// scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// A sum with `to_sixteenths` is rounded to these. 2^r = factor (centred^2 + rest) for centred = r +
// centre, |r| <= 1/32, within 4.3e-7; 1 where r is 0, rounding included. So it takes a sum, a
// multiply-add and, with the factor in the table of powers, a product.
struct PowerOfRest {
  static constexpr float to_sixteenths = 12582912.f / 16;
  static constexpr float factor = 0.2402195f, centre = 1.442822f, rest = 2.081124f;
};

struct SixteenthPowers {
  std::uint32_t bits[16];
};
// Of factor 2^(k/16).
constexpr SixteenthPowers sixteenth_powers(float factor) {
  using C = ExpConstants<double, 16>;
  SixteenthPowers powers = {};
  for (std::uint32_t k = 0; k < 16; ++k) {
    const double power = std::bit_cast<double>(C::powers[k] + (std::uint64_t(k) << C::shift));
    powers.bits[k] = std::bit_cast<std::uint32_t>(static_cast<float>(double(factor) * power));
  }
  return powers;
}

struct BinaryPowerConstants {
  __m512 magic = _mm512_set1_ps(PowerOfRest::to_sixteenths),
         centre = _mm512_set1_ps(PowerOfRest::centre), rest = _mm512_set1_ps(PowerOfRest::rest);
  __m512i powers = table();

 private:
  static IOATTN_INLINE __m512i table() {
    static constexpr SixteenthPowers powers = sixteenth_powers(PowerOfRest::factor);
    return _mm512_loadu_si512(powers.bits);
  }
};

// 2^t = 2^(n/16) 2^r, n = round(16 t), |r| <= 1/32, within 6.2e-7; 0 below 2^-126, which would be
// slow. What is made of it has 8 bits, or is a sum of such. Powers of 2^(1/16) are looked up in a
// register, as in exponential.hpp; vscalef does the rest, infinite where t is too large.
struct BinaryPower {
  __m512 root, n;  // root 2^floor(n)
  explicit IOATTN_INLINE BinaryPower(__m512 t, const BinaryPowerConstants& c = {}) {
    const __m512 n_bits = _mm512_add_ps(t, c.magic);
    n = _mm512_sub_ps(n_bits, c.magic);
    const __m512 centred = _mm512_add_ps(_mm512_sub_ps(t, n), c.centre);
    const __m512 power =
        _mm512_castsi512_ps(_mm512_permutexvar_epi32(_mm512_castps_si512(n_bits), c.powers));
    root = _mm512_mul_ps(power, _mm512_fmadd_ps(centred, centred, c.rest));
  }
};
IOATTN_INLINE __m512 power_of_2(__m512 t) {
  const BinaryPower power(t);
  // NaN is not less.
  const __mmask16 is_normal = _mm512_cmp_ps_mask(t, _mm512_set1_ps(-126), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(is_normal, power.root, power.n);
}
// The same where denormal results are flushed to 0, without a mask. Of -inf the root is NaN, which
// vscalef takes for 0 then.
IOATTN_INLINE __m512 flushed_power_of_2(__m512 t, const BinaryPowerConstants& constants = {}) {
  const BinaryPower power(t, constants);
  return _mm512_scalef_ps(power.root, power.n);
}
// Either, for what does not know where it is.
struct Power {
  IOATTN_INLINE __m512 operator()(__m512 t) const { return power_of_2(t); }
};
struct FlushedPower {
  const BinaryPowerConstants& constants;
  IOATTN_INLINE __m512 operator()(__m512 t) const { return flushed_power_of_2(t, constants); }
};

// power_of_2 where denormal results are flushed to 0, in three stages, of which fewer operations
// take a multiply-add's place: the same bits. Its constants are read each time, because beside
// a product there are no registers for them. It is made of t/4, whose squares are 1/16 of t's, and
// of powers that are 16 times as large, lest these be denormals where the result is none.
struct alignas(64) PowerConstants {
  std::uint32_t powers[16];                // less k as it is in a sum with magic << shift
  float magic, least, most, centre, rest;  // most: of the exponents of softmax weights
};
constexpr int power_shift = 23 - 4;
constexpr PowerConstants power_constants() {
  using P = PowerOfRest;
  const SixteenthPowers powers = sixteenth_powers(16 * P::factor);
  PowerConstants x = {{}, P::to_sixteenths / 4, -127.f / 4, 126.f / 4, P::centre / 4, P::rest / 16};
  for (std::uint32_t k = 0; k < 16; ++k) x.powers[k] = powers.bits[k] - (k << power_shift);
  return x;
}
IOATTN_INLINE const PowerConstants& power_constants_in_memory() {
  static constexpr PowerConstants constants = power_constants();
  const PowerConstants* c = &constants;
  __asm__ volatile("" : "+r"(c));
  return *c;
}
struct StagedPower {
  static constexpr float of_exponent = 0.25f;
  __m512 t, n_bits, power;  // t - n from the second stage on; power: 2^n

  // 2^(4 quarter), at most 2^(4 most).
  IOATTN_INLINE void begin(__m512 quarter, __m512 most, const PowerConstants& c) {
    // NaN is the second operand, which is what comes of it.
    t = _mm512_min_ps(most, _mm512_max_ps(_mm512_set1_ps(c.least), quarter));
    n_bits = _mm512_add_ps(t, _mm512_set1_ps(c.magic));
  }
  IOATTN_INLINE void go_on(const PowerConstants& c) {
    const __m512i n = _mm512_castps_si512(n_bits);
    t = _mm512_sub_ps(t, _mm512_sub_ps(n_bits, _mm512_set1_ps(c.magic)));
    power = _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_permutexvar_epi32(n, _mm512_load_si512(c.powers)),
                         _mm512_slli_epi32(n, power_shift)));
  }
  IOATTN_INLINE __m512 end(const PowerConstants& c) const {
    const __m512 centred = _mm512_add_ps(t, _mm512_set1_ps(c.centre));
    return _mm512_mul_ps(power, _mm512_fmadd_ps(centred, centred, _mm512_set1_ps(c.rest)));
  }
};
inline constexpr float log2_of_e = 1.44269504f;

// unit log2(e) (scale s - lse). Rounded as rows' maxima are: it is 0 where lse is that of one
// score, however large.
IOATTN_INLINE __m512 exponents_of_gradients(__m512 s, __m512 scale, __m512 lse, float unit = 1) {
  const __m512 exponent = _mm512_sub_ps(_mm512_mul_ps(s, scale), lse);
  return _mm512_mul_ps(exponent, _mm512_set1_ps(unit * log2_of_e));
}
// Weights that gradients are made of are 1 at most; NaN stays.
IOATTN_INLINE __m512 not_above_zero(__m512 exponent) {
  return _mm512_min_ps(_mm512_setzero_ps(), exponent);
}

// log2(e) (scale s - row_max) of scores s, in one operation. It is off by 2^-24 of row_max log2(e),
// for all weights of a row alike: where that is large, by so much that they overflow.
struct Exponents {
  __m512 binary_scale, binary_max;
  static IOATTN_INLINE Exponents of_rows(float scale, __m512 row_max) {
    return {_mm512_set1_ps(scale * log2_of_e), _mm512_mul_ps(row_max, _mm512_set1_ps(log2_of_e))};
  }
  IOATTN_INLINE __m512 of(__m512 s) const { return _mm512_fmsub_ps(s, binary_scale, binary_max); }
};
// The same of an ordinary row_max; of a larger one, 0 for the score that it is of.
struct AnyExponents {
  static constexpr float most_ordinary = 0x1p12f;  // weights are off by 2^-11 there
  Exponents ordinary;
  __m512 scale, row_max;
  __mmask16 are_ordinary;
  static IOATTN_INLINE AnyExponents of_rows(float scale, __m512 row_max) {
    return {Exponents::of_rows(scale, row_max), _mm512_set1_ps(scale), row_max,
            ordinary_rows(row_max)};
  }
  static IOATTN_INLINE __mmask16 ordinary_rows(__m512 row_max) {
    return _mm512_cmp_ps_mask(_mm512_abs_ps(row_max), _mm512_set1_ps(most_ordinary), _CMP_LT_OQ);
  }
  IOATTN_INLINE __m512 of(__m512 s) const {
    const __m512 exponent = _mm512_sub_ps(_mm512_mul_ps(s, scale), row_max);
    const __m512 large = _mm512_mul_ps(exponent, _mm512_set1_ps(log2_of_e));
    return _mm512_mask_mov_ps(large, are_ordinary, ordinary.of(s));
  }
};

struct X86Bf16Softmax {
  static constexpr index_t lanes = 16, part_lanes = lanes;

  // The lower `count` of 32 bits, none if it is negative.
  static IOATTN_INLINE __mmask32 first_of_32(index_t count) {
    return count >= 32 ? ~__mmask32(0) : count <= 0 ? 0 : (__mmask32(1) << count) - 1;
  }
  static IOATTN_INLINE __mmask16 first_of_16(index_t count) {
    return static_cast<__mmask16>(first_of_32(count));
  }
  // {low, high} of pairs, from what cvtne2ps_pbh and loads leave in halves of a vector.
  static IOATTN_INLINE __m512i interleaved(__m512i halves) {
    return _mm512_permutexvar_epi16(interleaving_of_halves(), halves);
  }
  static IOATTN_INLINE __m512i interleaving_of_halves() {
    return _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                            6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  }
  static IOATTN_INLINE __m512i narrow(__m512 low, __m512 high) {
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
  }

  // exp(before - after), exactly 1 where the maximum stays: rows take no notice of keys that a mask
  // hides.
  static IOATTN_INLINE __m512 rescaling(__m512 before, __m512 after, __mmask16 has_seen) {
    const __m512 exponent = _mm512_mul_ps(_mm512_sub_ps(before, after), _mm512_set1_ps(log2_of_e));
    return _mm512_maskz_mov_ps(has_seen, power_of_2(exponent));
  }

  static IOATTN_INLINE bool are_ordinary(__m512 row_max) {
    return AnyExponents::ordinary_rows(row_max) == 0xffff;
  }
  static IOATTN_INLINE bool is_ordinary(float row_max) {
    return __builtin_fabsf(row_max) < AnyExponents::most_ordinary;
  }

  // Of queries from `scores` on: weights and their sums.
  template <int columns, class RowExponents>
  static IOATTN_INLINE void weigh_columns(const ScoreTile<float>& tile, const float* scores,
                                          float scale, const __m512 (&shift)[columns],
                                          __m512 (&total)[columns], bf16x2* dst, index_t dst_stride,
                                          __mmask16 exist) {
    for (index_t first = 0; first < tile.keys; first += terms_per_accumulator) {
      const index_t left = tile.keys - first;
      const index_t last = first + (left < terms_per_accumulator ? left : terms_per_accumulator);
      __m512 part[columns];
      for (int v = 0; v < columns; ++v) part[v] = _mm512_setzero_ps();
      for (index_t j = first; j < last; j += 2) {
        const float* row = scores + j * tile.stride;
#pragma GCC unroll 4
        for (int v = 0; v < columns; ++v) {
          const RowExponents exponents = RowExponents::of_rows(scale, shift[v]);
          const auto weights_of = [&](const float* p) {
            return power_of_2(exponents.of(_mm512_maskz_loadu_ps(exist, p + v * lanes)));
          };
          const __m512 one = weights_of(row);
          const __m512 two = j + 1 < last ? weights_of(row + tile.stride) : _mm512_setzero_ps();
          _mm512_mask_storeu_epi32(dst + j / 2 * dst_stride + v * lanes, exist,
                                   interleaved(narrow(one, two)));
          part[v] = _mm512_add_ps(part[v], _mm512_add_ps(one, two));
        }
      }
      for (int v = 0; v < columns; ++v) total[v] = _mm512_add_ps(total[v], part[v]);
    }
  }

  // Queries [i, i + 16 columns): sums run down the keys, so several columns hide their latency.
  template <int columns>
  static IOATTN_INLINE void update(const ScoreTile<float>& tile, float scale, float* row_max,
                                   float* row_sum, float* rescale, bf16x2* dst, index_t dst_stride,
                                   index_t i, __mmask16 exist) {
    const __m512 least = _mm512_set1_ps(-__builtin_inff());
    const auto load = [&](const float* p, int v) {
      return _mm512_maskz_loadu_ps(exist, p + v * lanes);
    };
    const auto store = [&](float* p, int v, __m512 x) {
      _mm512_mask_storeu_ps(p + v * lanes, exist, x);
    };
    __m512 largest[columns], shift[columns], total[columns];
    const float* scores = tile.data + i;
    for (int v = 0; v < columns; ++v) largest[v] = least;
    for (index_t j = 0; j < tile.keys; ++j)
#pragma GCC unroll 4
      for (int v = 0; v < columns; ++v)
        largest[v] = _mm512_max_ps(largest[v], load(scores + j * tile.stride, v));
    bool ordinary = true;
    for (int v = 0; v < columns; ++v) {
      const __m512 before = load(row_max + i, v);
      const __m512 after = _mm512_max_ps(before, _mm512_mul_ps(largest[v], _mm512_set1_ps(scale)));
      // Rows that have seen only -inf: shifted by 0, so that exp(-inf - shift) is 0 and not NaN.
      const __mmask16 has_seen = _mm512_cmp_ps_mask(least, after, _CMP_LT_OQ);
      shift[v] = _mm512_maskz_mov_ps(has_seen, after);
      ordinary = ordinary && are_ordinary(shift[v]);
      const __m512 factor = rescaling(before, after, has_seen);
      total[v] = _mm512_mul_ps(load(row_sum + i, v), factor);
      store(row_max + i, v, after);
      if (rescale != nullptr) store(rescale + i, v, factor);
    }
    bf16x2* to = dst + i;
    if (ordinary) {
      weigh_columns<columns, Exponents>(tile, scores, scale, shift, total, to, dst_stride, exist);
    } else {
      weigh_columns<columns, AnyExponents>(tile, scores, scale, shift, total, to, dst_stride,
                                           exist);
    }
    for (int v = 0; v < columns; ++v) store(row_sum + i, v, total[v]);
  }
  static IOATTN_KERNEL void softmax_update(const ScoreTile<float>& tile, float scale,
                                           float* row_max, float* row_sum, float* rescale,
                                           bf16x2* dst, index_t dst_stride) {
    const ScoreTile<float> x = tile;
    index_t i = 0;
    for (; i + 4 * lanes <= x.queries; i += 4 * lanes)
      update<4>(x, scale, row_max, row_sum, rescale, dst, dst_stride, i, first_of_16(lanes));
    for (; i < x.queries; i += lanes)
      update<1>(x, scale, row_max, row_sum, rescale, dst, dst_stride, i,
                first_of_16(x.queries - i));
  }

  // The lanes of each vector reduced to one: vector i to lane i.
  template <class Reduce>
  static IOATTN_INLINE __m512 reduced(__m512 (&x)[lanes], const Reduce& reduce) {
    transpose(x);
#pragma GCC unroll 4
    for (index_t width = lanes / 2; width > 0; width /= 2)
#pragma GCC unroll 8
      for (index_t k = 0; k < width; ++k) x[k] = reduce(x[k], x[k + width]);
    return x[0];
  }

  // Whether a weight, 2^exponent, would be too large.
  static IOATTN_INLINE __mmask16 exceeds(__m512 exponent) {
    return _mm512_cmp_ps_mask(exponent, _mm512_set1_ps(8), _CMP_GT_OQ);
  }
  // Parts of sums of weights, whose exponents then are below 8: 2^8 itself may be rounded.
  static IOATTN_INLINE __mmask16 are_small(__m512 parts) {
    return _mm512_cmp_ps_mask(parts, _mm512_set1_ps(255), _CMP_LT_OQ);
  }
  // Weights of 32 scores, or of the first ones, added to the parts of their sum.
  template <bool whole, class RowExponents, class AnyPower = Power>
  static IOATTN_INLINE void weigh_scores(__m512 one, __m512 two, index_t count,
                                         const RowExponents& exponents, __m512* part, bf16x2* to,
                                         const AnyPower& power = {}) {
    __m512 x = power(exponents.of(one));
    __m512 y = power(exponents.of(two));
    if (whole) {
      _mm512_storeu_si512(to, narrow(x, y));
    } else {
      x = _mm512_maskz_mov_ps(first_of_16(count), x);
      y = _mm512_maskz_mov_ps(first_of_16(count - lanes), y);
      _mm512_mask_storeu_epi32(to, first_of_16((count + 1) / 2), narrow(x, y));
    }
    *part = _mm512_add_ps(*part, _mm512_add_ps(x, y));
  }
  template <class RowExponents>
  static IOATTN_INLINE void weigh_whole(const float* scores, const RowExponents& exponents,
                                        __m512* part, bf16x2* to) {
    weigh_scores<true>(_mm512_loadu_ps(scores), _mm512_loadu_ps(scores + lanes), 2 * lanes,
                       exponents, part, to);
  }
  template <class RowExponents>
  static IOATTN_INLINE void weigh_some(const float* scores, index_t count,
                                       const RowExponents& exponents, __m512* part, bf16x2* to) {
    weigh_scores<false>(_mm512_maskz_loadu_ps(first_of_16(count), scores),
                        _mm512_maskz_loadu_ps(first_of_16(count - lanes), scores + lanes), count,
                        exponents, part, to);
  }

  // What TileWeights makes of a row, without denormals; a whole one has 32 scores.
  static IOATTN_INLINE float binary(float x) { return x * log2_of_e; }
  struct WeightConstants {
    __m512 binary_scale;
    BinaryPowerConstants power;
    explicit IOATTN_INLINE WeightConstants(float scale)
        : binary_scale(_mm512_set1_ps(binary(scale))) {}
    // As of GradientConstants.
    IOATTN_INLINE void hold() {
      __asm__(""
              : "+v"(binary_scale), "+v"(power.magic), "+v"(power.centre), "+v"(power.rest),
                "+v"(power.powers));
    }
  };
  template <bool whole>
  static IOATTN_INLINE void weigh(const float* scores, index_t count, const WeightConstants& c,
                                  float binary_max, float* part, bf16x2* to) {
    const Exponents exponents = {c.binary_scale, _mm512_set1_ps(binary_max)};
    __m512 sum = _mm512_load_ps(part);
    weigh_scores<whole>(_mm512_load_ps(scores), _mm512_load_ps(scores + lanes), count, exponents,
                        &sum, to, FlushedPower{c.power});
    _mm512_store_ps(part, sum);
  }
  // False, and nothing is added, if a weight may be too large: none is if no part is.
  static IOATTN_INLINE bool add_parts(const float* parts, index_t rows, float* row_sum) {
    __mmask16 small = 0xffff;
    for (index_t i = 0; i < rows; ++i) small &= are_small(_mm512_load_ps(parts + i * lanes));
    if (small != 0xffff) return false;
    for (index_t i = 0; i < rows; i += lanes) {
      __m512 of_row[lanes];
#pragma GCC unroll 16
      for (index_t k = 0; k < lanes; ++k) of_row[k] = _mm512_load_ps(parts + (i + k) * lanes);
      const __m512 total = reduced(of_row, [](__m512 x, __m512 y) { return _mm512_add_ps(x, y); });
      const __mmask16 exist = first_of_16(rows - i);
      const __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(exist, row_sum + i), total);
      _mm512_mask_storeu_ps(row_sum + i, exist, sum);
    }
    return true;
  }

  // At most 16 queries, their scores in rows.
  struct ScoreRows {
    const float* scores;
    index_t stride, rows, keys;
    bf16x2* dst;
    index_t dst_stride;
    float scale;
  };
  // The sums of their weights. False if one may exceed 2^8 or be NaN: none does if no part of a sum
  // does.
  template <class RowExponents>
  static IOATTN_INLINE bool weigh_rows_by(const ScoreRows& of, __m512 row_max, __m512* sums) {
    const index_t whole = of.keys / (2 * lanes) * 2 * lanes, left = of.keys - whole;
    alignas(64) float maxima[lanes];
    _mm512_store_ps(maxima, row_max);
    __mmask16 small = 0xffff;
    __m512 of_row[lanes];
    for (auto& each : of_row) each = _mm512_setzero_ps();
    for (index_t k = 0; k < of.rows; ++k) {
      const float* row = of.scores + k * of.stride;
      bf16x2* to = of.dst + k * of.dst_stride;
      const RowExponents exponents = RowExponents::of_rows(of.scale, _mm512_set1_ps(maxima[k]));
      __m512 part = _mm512_setzero_ps();
      for (index_t j = 0; j < whole; j += 2 * lanes)
        weigh_whole(row + j, exponents, &part, to + j / 2);
      if (left > 0) weigh_some(row + whole, left, exponents, &part, to + whole / 2);
      small &= are_small(part);
      of_row[k] = part;
    }
    *sums = reduced(of_row, [](__m512 x, __m512 y) { return _mm512_add_ps(x, y); });
    return small == 0xffff;
  }
  static IOATTN_INLINE bool weigh_rows(const ScoreRows& of, __m512 row_max, __m512* sums) {
    return are_ordinary(row_max) ? weigh_rows_by<Exponents>(of, row_max, sums)
                                 : weigh_rows_by<AnyExponents>(of, row_max, sums);
  }
  static IOATTN_INLINE __m512 largest_of_rows(const ScoreRows& of) {
    const __m512 least = _mm512_set1_ps(-__builtin_inff());
    const index_t whole = of.keys / (2 * lanes) * 2 * lanes, left = of.keys - whole;
    const __mmask16 first_left = first_of_16(left), second_left = first_of_16(left - lanes);
    __m512 of_row[lanes];
    for (auto& each : of_row) each = least;
    for (index_t k = 0; k < of.rows; ++k) {
      const float* row = of.scores + k * of.stride;
      __m512 one = _mm512_mask_loadu_ps(least, first_left, row + whole);
      __m512 two = _mm512_mask_loadu_ps(least, second_left, row + whole + lanes);
      for (index_t j = 0; j < whole; j += 2 * lanes) {
        one = _mm512_max_ps(one, _mm512_loadu_ps(row + j));
        two = _mm512_max_ps(two, _mm512_loadu_ps(row + j + lanes));
      }
      of_row[k] = _mm512_max_ps(one, two);
    }
    return reduced(of_row, [](__m512 x, __m512 y) { return _mm512_max_ps(x, y); });
  }
  // Most blocks of keys change no maximum: their scores are read once.
  static IOATTN_INLINE void update_rows(const ScoreRows& of, float margin, float* row_max,
                                        float* row_sum, float* rescale) {
    const __m512 least = _mm512_set1_ps(-__builtin_inff());
    const __mmask16 exist = first_of_16(of.rows);
    const __m512 before = _mm512_maskz_loadu_ps(exist, row_max);
    __m512 after = before, factor = _mm512_set1_ps(1), total;
    const bool all_have_seen = _mm512_cmp_ps_mask(least, before, _CMP_LT_OQ) == 0xffff;
    if (!all_have_seen || !weigh_rows(of, before, &total)) {
      const __m512 largest = largest_of_rows(of);
      const __mmask16 grows = exceeds(AnyExponents::of_rows(of.scale, before).of(largest));
      const __m512 largest_scaled = _mm512_mul_ps(largest, _mm512_set1_ps(of.scale));
      after = _mm512_mask_add_ps(before, grows, largest_scaled, _mm512_set1_ps(margin));
      // As in update().
      const __mmask16 has_seen = _mm512_cmp_ps_mask(least, after, _CMP_LT_OQ);
      factor = rescaling(before, after, has_seen);
      weigh_rows(of, _mm512_maskz_mov_ps(has_seen, after), &total);
    }
    _mm512_mask_storeu_ps(row_max, exist, after);
    if (rescale != nullptr) _mm512_mask_storeu_ps(rescale, exist, factor);
    const __m512 sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(exist, row_sum), factor, total);
    _mm512_mask_storeu_ps(row_sum, exist, sum);
  }
  static IOATTN_KERNEL void softmax_rows(const ScoreTile<float>& tile, float scale, float* row_max,
                                         float* row_sum, float* rescale, bf16x2* dst,
                                         index_t dst_stride, float margin) {
    const ScoreTile<float> x = tile;
    for (index_t i = 0; i < x.queries; i += lanes) {
      const index_t rows = x.queries - i < lanes ? x.queries - i : lanes;
      update_rows(
          {x.data + i * x.stride, x.stride, rows, x.keys, dst + i * dst_stride, dst_stride, scale},
          margin, row_max + i, row_sum + i, rescale != nullptr ? rescale + i : nullptr);
    }
  }
};

}  // namespace
}  // namespace ioattn::kernels
