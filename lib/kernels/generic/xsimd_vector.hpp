#pragma once

#include <xsimd/xsimd.hpp>

#include "base/types.hpp"
#include "kernels/generic/xsimd_transpose.hpp"

// The widest vector of the ISA that this object is compiled for. See scalar_vector.hpp about the
// anonymous namespace.
namespace ioattn::kernels {
namespace {

template <class T>
struct XsimdVector {
  using value_type = T;
  using batch = xsimd::batch<T>;
  using bits = xsimd::batch<xsimd::as_unsigned_integer_t<T>>;
  static constexpr int lanes = static_cast<int>(batch::size);
#ifdef __AVX512F__
  static constexpr int registers = 32;
  static constexpr int powers = sizeof(T) == 4 ? 32 : 16;  // that exponentials look up
#else
  static constexpr int registers = 16;
  static constexpr int powers = sizeof(T) == 4 ? 8 : 1;
#endif

  batch value;

  static XsimdVector load(const T* p) { return {batch::load_unaligned(p)}; }
  static XsimdVector splat(T x) { return {batch(x)}; }
  void store(T* p) const { value.store_unaligned(p); }
  static XsimdVector load_first(const T* p, index_t count) {
    const auto exist = first_lanes(count);
#ifdef __AVX512F__
    if constexpr (sizeof(T) == 4) return {batch(_mm512_maskz_loadu_ps(exist, p))};
    if constexpr (sizeof(T) == 8) return {batch(_mm512_maskz_loadu_pd(exist, p))};
#else
    if constexpr (sizeof(T) == 4) return {batch(_mm256_maskload_ps(p, exist))};
    if constexpr (sizeof(T) == 8) return {batch(_mm256_maskload_pd(p, exist))};
#endif
  }
  void store_first(T* p, index_t count) const {
    const auto exist = first_lanes(count);
#ifdef __AVX512F__
    if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, exist, value);
    if constexpr (sizeof(T) == 8) _mm512_mask_storeu_pd(p, exist, value);
#else
    if constexpr (sizeof(T) == 4) _mm256_maskstore_ps(p, exist, value);
    if constexpr (sizeof(T) == 8) _mm256_maskstore_pd(p, exist, value);
#endif
  }
  static void transpose(XsimdVector (&x)[lanes]) {
    typename batch::register_type rows[lanes];
    for (int i = 0; i < lanes; ++i) rows[i] = x[i].value;
    kernels::transpose(rows);
    for (int i = 0; i < lanes; ++i) x[i].value = batch(rows[i]);
  }

  friend XsimdVector operator+(XsimdVector a, XsimdVector b) { return {a.value + b.value}; }
  friend XsimdVector operator-(XsimdVector a, XsimdVector b) { return {a.value - b.value}; }
  friend XsimdVector operator*(XsimdVector a, XsimdVector b) { return {a.value * b.value}; }
  static XsimdVector fma(XsimdVector a, XsimdVector b, XsimdVector c) {
#ifdef __AVX512F__
    // xsimd 8.1 would leave these to contraction, and neither compiler contracts all of them.
    if constexpr (sizeof(T) == 4) {
      return {batch(_mm512_fmadd_ps(a.value, b.value, c.value))};
    } else {
      return {batch(_mm512_fmadd_pd(a.value, b.value, c.value))};
    }
#else
    return {xsimd::fma(a.value, b.value, c.value)};
#endif
  }
  static XsimdVector max(XsimdVector a, XsimdVector b) { return {xsimd::max(a.value, b.value)}; }
  static XsimdVector min(XsimdVector a, XsimdVector b) { return {xsimd::min(a.value, b.value)}; }
  static XsimdVector select_less(XsimdVector a, XsimdVector b, XsimdVector x, XsimdVector y) {
    return {xsimd::select(a.value < b.value, x.value, y.value)};
  }
  static XsimdVector from_exponent_bits(XsimdVector x) {
    constexpr int mantissa_bits = sizeof(T) == 4 ? 23 : 52;
    return {xsimd::bitwise_cast<batch>(xsimd::bitwise_cast<bits>(x.value) << mantissa_bits)};
  }
  // The numbers whose bits are table[k] + (those of x << shift), k the low bits of x.
  template <int shift>
  static XsimdVector lookup(const typename bits::value_type (&table)[powers], XsimdVector x) {
#ifdef __AVX512F__
    const __m512i entries = _mm512_loadu_si512(table);
    if constexpr (sizeof(T) == 4) {
      const __m512i n = _mm512_castps_si512(x.value);
      return {batch(_mm512_castsi512_ps(
          _mm512_add_epi32(_mm512_permutex2var_epi32(entries, n, _mm512_loadu_si512(table + 16)),
                           _mm512_slli_epi32(n, shift))))};
    } else {
      const __m512i n = _mm512_castpd_si512(x.value);
      return {batch(_mm512_castsi512_pd(
          _mm512_add_epi64(_mm512_permutex2var_epi64(entries, n, _mm512_loadu_si512(table + 8)),
                           _mm512_slli_epi64(n, shift))))};
    }
#else
    static_assert(sizeof(T) == 4);
    const __m256i n = _mm256_castps_si256(x.value);
    const auto* const entries = reinterpret_cast<const __m256i*>(table);
    return {batch(_mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_permutevar8x32_epi32(_mm256_loadu_si256(entries), n),
                         _mm256_slli_epi32(n, shift))))};
#endif
  }
#ifdef __AVX512F__
  // x / 2^times, by bits: of +0 it is 0, of NaN a number, of -0 and what is as small nothing
  // useful.
  template <int times>
  static XsimdVector halved(XsimdVector x) {
    static_assert(sizeof(T) == 4);
    return {batch(_mm512_castsi512_ps(
        _mm512_subs_epu16(_mm512_castps_si512(x.value), _mm512_set1_epi32(times << 23))))};
  }
#endif

 private:
#ifdef __AVX512F__
  static auto first_lanes(index_t count) {
    using Lanes = std::conditional_t<sizeof(T) == 4, __mmask16, __mmask8>;
    const index_t some = count < 0 ? 0 : count < lanes ? count : lanes;
    return static_cast<Lanes>((1 << some) - 1);
  }
#else
  static __m256i first_lanes(index_t count) {
    const int some = static_cast<int>(count < lanes ? count : lanes);
    if constexpr (sizeof(T) == 4) {
      return _mm256_cmpgt_epi32(_mm256_set1_epi32(some), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    } else {
      return _mm256_cmpgt_epi64(_mm256_set1_epi64x(some), _mm256_setr_epi64x(0, 1, 2, 3));
    }
  }
#endif
};

}  // namespace
}  // namespace ioattn::kernels
