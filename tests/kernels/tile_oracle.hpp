#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/types.hpp"

// What Intel's manual says of TDPBF16PS, number by number and independent of lib: multiply-adds
// that round once, to nearest even; denormals are 0 where they go in and where they come out.
namespace ioattn_test {

inline float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline float without_denormal(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.f, x) : x;
}
inline float first_term(std::uint32_t pair) { return without_denormal(float_of(pair << 16)); }
inline float second_term(std::uint32_t pair) {
  return without_denormal(float_of(pair >> 16 << 16));
}

// Near 0 in numbers 2^48 times as large: none that is to be kept is a denormal then.
inline float oracle_fma(float x, float y, float sum) {
  const float plain = std::fma(x, y, sum);
  if (!(std::fabs(plain) < 0x1p-100f)) return plain;
  (std::fabs(x) < std::fabs(y) ? x : y) *= 0x1p48f;
  const float larger = std::fma(x, y, sum * 0x1p48f);
  if (std::fabs(larger) < 0x1p-78f) return std::copysign(0.f, larger);
  return larger * 0x1p-48f;
}
inline float oracle_add(float x, float y) { return without_denormal(x + y); }

// C + the sum over up to 16 pairs, pair q of A and B at a[q * a_step] and b[q * b_step].
inline float oracle_sum(const std::uint32_t* a, ioattn::index_t a_step, const std::uint32_t* b,
                        ioattn::index_t b_step, ioattn::index_t pairs, float c) {
  float first = 0, second = 0;
  for (ioattn::index_t q = 0; q < pairs; ++q) {
    const std::uint32_t x = a[q * a_step], y = b[q * b_step];
    first = oracle_fma(first_term(x), first_term(y), first);
    second = oracle_fma(second_term(x), second_term(y), second);
  }
  return oracle_add(without_denormal(c), oracle_add(first, second));
}

}  // namespace ioattn_test
