#pragma once

#include <xsimd/xsimd.hpp>

// Squares of numbers in registers, transposed in place; xsimd 8 has nothing for it. Rows that share
// a 128-bit lane are transposed within the lanes first, then the lanes among the registers. See
// scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

#if defined(__AVX512F__)

// Four registers as 4 x 4 lanes of 128 bits.
template <class Register, class Even, class Odd>
inline void transpose_lanes(Register x[4], Even even, Odd odd) {
  const Register a = even(x[0], x[1]), b = odd(x[0], x[1]);
  const Register c = even(x[2], x[3]), d = odd(x[2], x[3]);
  x[0] = even(a, c);
  x[1] = even(b, d);
  x[2] = odd(a, c);
  x[3] = odd(b, d);
}

inline void transpose(__m512 (&x)[16]) {
  __m512 column[4][4];  // [column of a lane][group of 4 rows]
  for (index_t group = 0; group < 4; ++group) {
    const __m512* row = x + 4 * group;
    const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(row[0], row[1]));
    const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(row[0], row[1]));
    const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(row[2], row[3]));
    const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(row[2], row[3]));
    column[0][group] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
    column[1][group] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
    column[2][group] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
    column[3][group] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
  }
  for (index_t c = 0; c < 4; ++c) {
    transpose_lanes(
        column[c], [](__m512 a, __m512 b) { return _mm512_shuffle_f32x4(a, b, 0x88); },
        [](__m512 a, __m512 b) { return _mm512_shuffle_f32x4(a, b, 0xdd); });
    for (index_t lane = 0; lane < 4; ++lane) x[4 * lane + c] = column[c][lane];
  }
}

inline void transpose(__m512d (&x)[8]) {
  __m512d column[2][4];
  for (index_t group = 0; group < 4; ++group) {
    column[0][group] = _mm512_unpacklo_pd(x[2 * group], x[2 * group + 1]);
    column[1][group] = _mm512_unpackhi_pd(x[2 * group], x[2 * group + 1]);
  }
  for (index_t c = 0; c < 2; ++c) {
    transpose_lanes(
        column[c], [](__m512d a, __m512d b) { return _mm512_shuffle_f64x2(a, b, 0x88); },
        [](__m512d a, __m512d b) { return _mm512_shuffle_f64x2(a, b, 0xdd); });
    for (index_t lane = 0; lane < 4; ++lane) x[2 * lane + c] = column[c][lane];
  }
}

#elif defined(__AVX__)

inline void transpose(__m256 (&x)[8]) {
  __m256 column[4][2];  // [column of a lane][group of 4 rows]
  for (index_t group = 0; group < 2; ++group) {
    const __m256* row = x + 4 * group;
    const __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(row[0], row[1]));
    const __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(row[0], row[1]));
    const __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(row[2], row[3]));
    const __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(row[2], row[3]));
    column[0][group] = _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23));
    column[1][group] = _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23));
    column[2][group] = _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23));
    column[3][group] = _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23));
  }
  for (index_t c = 0; c < 4; ++c) {
    x[c] = _mm256_permute2f128_ps(column[c][0], column[c][1], 0x20);
    x[4 + c] = _mm256_permute2f128_ps(column[c][0], column[c][1], 0x31);
  }
}

inline void transpose(__m256d (&x)[4]) {
  const __m256d low01 = _mm256_unpacklo_pd(x[0], x[1]), high01 = _mm256_unpackhi_pd(x[0], x[1]);
  const __m256d low23 = _mm256_unpacklo_pd(x[2], x[3]), high23 = _mm256_unpackhi_pd(x[2], x[3]);
  x[0] = _mm256_permute2f128_pd(low01, low23, 0x20);
  x[1] = _mm256_permute2f128_pd(high01, high23, 0x20);
  x[2] = _mm256_permute2f128_pd(low01, low23, 0x31);
  x[3] = _mm256_permute2f128_pd(high01, high23, 0x31);
}

#endif

}  // namespace
}  // namespace ioattn::kernels
