#pragma once

#include <immintrin.h>

#include "base/types.hpp"
#include "kernels/generic/inlining.hpp"

// Conversions between 16-bit storage and f32 by F16C, or AVX-512F, and integer instructions, 8 or
// 16 at a time. Neither looks at MXCSR: vcvtph2ps and vcvtps2ph ignore flushing to zero, and the
// rounding is in the instruction. Floats that denormals-are-zero would zero are 0 in f16 anyway.
namespace ioattn::kernels {
namespace {

#if defined(__AVX512F__)
struct X86Conversion {
  static constexpr int lanes = 16;

  static IOATTN_INLINE __m256i load(const void* src) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(src));
  }
  static IOATTN_INLINE void store(void* dst, __m256i x) {
    _mm256_storeu_si256(static_cast<__m256i*>(dst), x);
  }
  template <bool scales>
  static IOATTN_INLINE __m512 scaled(const float* src, float scale) {
    const __m512 x = _mm512_loadu_ps(src);
    return !scales ? x : _mm512_mul_ps(_mm512_set1_ps(scale), x);
  }
  static IOATTN_INLINE __mmask16 is_nan(__m512i x) {
    constexpr int quiet = 0x01, signaling = 0x80;
    return _mm512_fpclass_ps_mask(_mm512_castsi512_ps(x), quiet | signaling);
  }

  static IOATTN_INLINE __m512i words(const bf16* src) {
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(load(src)), 16);
  }
  static IOATTN_INLINE void widen(const bf16* src, float* dst) {
    const __m512i x = words(src);
    const __m512i quiet = _mm512_mask_or_epi32(x, is_nan(x), x, _mm512_set1_epi32(0x400000));
    _mm512_storeu_ps(dst, _mm512_castsi512_ps(quiet));
  }
  // For arithmetic, which makes a NaN quiet.
  static IOATTN_INLINE void widen_operands(const bf16* src, float* dst) {
    _mm512_storeu_ps(dst, _mm512_castsi512_ps(words(src)));
  }
  template <bool scales>
  static IOATTN_INLINE void narrow(const float* src, float scale, bf16* dst) {
    const __m512i x = _mm512_castps_si512(scaled<scales>(src, scale));
    const __mmask16 is_odd = _mm512_test_epi32_mask(x, _mm512_set1_epi32(0x10000));
    const __m512i half = _mm512_add_epi32(x, _mm512_set1_epi32(0x7fff));
    const __m512i sum = _mm512_mask_add_epi32(half, is_odd, half, _mm512_set1_epi32(1));
    const __m512i result = _mm512_mask_or_epi32(sum, is_nan(x), x, _mm512_set1_epi32(0x400000));
    store(dst, _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16)));
  }
  static IOATTN_INLINE void widen(const f16* src, float* dst) {
    _mm512_storeu_ps(dst, _mm512_cvtph_ps(load(src)));
  }
  static IOATTN_INLINE void widen_operands(const f16* src, float* dst) { widen(src, dst); }
  template <bool scales>
  static IOATTN_INLINE void narrow(const float* src, float scale, f16* dst) {
    store(dst, _mm512_cvtps_ph(scaled<scales>(src, scale),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};
#else
struct X86Conversion {
  static constexpr int lanes = 8;

  static IOATTN_INLINE __m128i load(const void* src) {
    return _mm_loadu_si128(static_cast<const __m128i*>(src));
  }
  static IOATTN_INLINE void store(void* dst, __m128i x) {
    _mm_storeu_si128(static_cast<__m128i*>(dst), x);
  }
  template <bool scales>
  static IOATTN_INLINE __m256 scaled(const float* src, float scale) {
    const __m256 x = _mm256_loadu_ps(src);
    return !scales ? x : _mm256_mul_ps(_mm256_set1_ps(scale), x);
  }
  static IOATTN_INLINE __m256i is_nan(__m256i x) {
    return _mm256_cmpgt_epi32(_mm256_and_si256(x, _mm256_set1_epi32(0x7fffffff)),
                              _mm256_set1_epi32(0x7f800000));
  }

  static IOATTN_INLINE __m256i words(const bf16* src) {
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(load(src)), 16);
  }
  static IOATTN_INLINE void widen(const bf16* src, float* dst) {
    const __m256i x = words(src);
    const __m256i quiet = _mm256_and_si256(is_nan(x), _mm256_set1_epi32(0x400000));
    _mm256_storeu_ps(dst, _mm256_castsi256_ps(_mm256_or_si256(x, quiet)));
  }
  // For arithmetic, which makes a NaN quiet.
  static IOATTN_INLINE void widen_operands(const bf16* src, float* dst) {
    _mm256_storeu_ps(dst, _mm256_castsi256_ps(words(src)));
  }
  template <bool scales>
  static IOATTN_INLINE void narrow(const float* src, float scale, bf16* dst) {
    const __m256i x = _mm256_castps_si256(scaled<scales>(src, scale));
    const __m256i upper = _mm256_srli_epi32(x, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    const __m256i result = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, is_nan(x));
    // 4 numbers of each half, twice; the first and the third quarter are those of the 8.
    const __m256i packed = _mm256_packus_epi32(result, result);
    store(dst, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
  }
  static IOATTN_INLINE void widen(const f16* src, float* dst) {
    _mm256_storeu_ps(dst, _mm256_cvtph_ps(load(src)));
  }
  static IOATTN_INLINE void widen_operands(const f16* src, float* dst) { widen(src, dst); }
  template <bool scales>
  static IOATTN_INLINE void narrow(const float* src, float scale, f16* dst) {
    store(dst, _mm256_cvtps_ph(scaled<scales>(src, scale), _MM_FROUND_TO_NEAREST_INT));
  }
};
#endif

}  // namespace
}  // namespace ioattn::kernels
