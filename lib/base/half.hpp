#pragma once

#include <bit>

#include "base/types.hpp"

// 16-bit numbers and float, by integer arithmetic: the floating-point environment has no say.
// Rounding is to nearest, ties to even; a NaN becomes quiet and keeps the upper bits of its
// payload. Always inline: objects of several instruction sets include this.
namespace ioattn {

__attribute__((always_inline)) inline float to_float(bf16 x) {
  std::uint32_t bits = std::uint32_t(x.bits) << 16;
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits |= 0x400000u;
  return std::bit_cast<float>(bits);
}

__attribute__((always_inline)) inline float to_float(f16 x) {
  const std::uint32_t sign = std::uint32_t(x.bits & 0x8000u) << 16;
  std::uint32_t rest = std::uint32_t(x.bits & 0x7fffu);
  if (rest >= 0x7c00u) {
    rest = 0x7f800000u | (rest & 0x3ffu) << 13 | (rest > 0x7c00u ? 0x400000u : 0u);
  } else if (rest >= 0x400u) {
    rest = (rest << 13) + ((127u - 15u) << 23);
  } else if (rest != 0) {  // denormal: becomes normal
    const std::uint32_t shift = std::uint32_t(std::countl_zero(rest)) - 21u;
    rest = ((rest << shift & 0x3ffu) << 13) + ((113u - shift) << 23);
  }
  return std::bit_cast<float>(sign | rest);
}

namespace half_detail {
// bits / 2^shift, rounded to nearest even.
__attribute__((always_inline)) inline std::uint32_t rounded(std::uint32_t bits,
                                                            std::uint32_t shift) {
  const std::uint32_t odd = bits >> shift & 1u;
  return (bits + (1u << (shift - 1)) - 1u + odd) >> shift;
}
}  // namespace half_detail

// Beyond the largest finite number: infinity.
template <class S>
S from_float(float x) = delete;

template <>
__attribute__((always_inline)) inline bf16 from_float<bf16>(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {std::uint16_t(bits >> 16 | 0x40u)};
  return {std::uint16_t(half_detail::rounded(bits, 16))};
}

template <>
__attribute__((always_inline)) inline f16 from_float<f16>(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (rest > 0x7f800000u) {
    half = 0x7e00u | (rest >> 13 & 0x3ffu);
  } else if (rest >= 0x477ff000u) {  // 65520, half way beyond the largest
    half = 0x7c00u;
  } else if (rest >= 0x38800000u) {  // 2^-14: normal
    half = half_detail::rounded(rest - ((127u - 15u) << 23), 13);
  } else if (rest >= 0x33000000u) {  // 2^-25: half the smallest denormal
    const std::uint32_t mantissa = (rest & 0x7fffffu) | 0x800000u;
    half = half_detail::rounded(mantissa, 126u - (rest >> 23));
  }
  return {std::uint16_t(sign | half)};
}

// The same for storage of every type: f32 and f64 stay as they are.
template <class S>
__attribute__((always_inline)) inline Compute<S> to_compute(S x) {
  if constexpr (is_half_storage<S>) {
    return to_float(x);
  } else {
    return x;
  }
}
template <class S>
__attribute__((always_inline)) inline S to_storage(Compute<S> x) {
  if constexpr (is_half_storage<S>) {
    return from_float<S>(x);
  } else {
    return x;
  }
}

}  // namespace ioattn
