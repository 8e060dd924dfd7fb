#pragma once

#include "base/types.hpp"

namespace ioattn::kernels {
namespace {

// e^x = 2^n e^r with n = round(x log2 e), r = x - n ln 2 in two pieces, |r| <= ln(2)/2, and the
// Taylor polynomial of e^r: its remainder is below 6e-9 (degree 7) and 5e-18 (degree 13), so the
// result is within 2 ulp. Below `lowest` the result is 0, which also keeps 2^n normal; NaN stays
// NaN.
template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  static constexpr float lowest = -86.9f;
  static constexpr float highest = 88.0f;
  static constexpr float round_magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float log2e = 1.44269504f;
  static constexpr float ln2_high = 0.693359375f;
  static constexpr float ln2_low = -2.12194440e-4f;
  static constexpr int degree = 7;
};

template <>
struct ExpConstants<double> {
  static constexpr double lowest = -707.0;
  static constexpr double highest = 709.0;
  static constexpr double round_magic = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double log2e = 1.4426950408889634;
  static constexpr double ln2_high = 6.93145751953125e-1;
  static constexpr double ln2_low = 1.42860682030941723212e-6;
  static constexpr int degree = 13;
};

template <class T>
constexpr T inverse_factorial(int k) {
  double product = 1;
  for (int i = 2; i <= k; ++i) product *= i;
  return static_cast<T>(1 / product);
}

template <class V>
inline V exponential(V x) {
  using T = typename V::value_type;
  using C = ExpConstants<T>;
  const V lowest = V::splat(C::lowest);
  const V highest = V::splat(C::highest);
  const V magic = V::splat(C::round_magic);
  const V clamped = V::select_less(highest, x, highest, x);
  const V n_bits = V::fma(clamped, V::splat(C::log2e), magic);
  const V n = n_bits - magic;
  V r = V::fma(n, V::splat(-C::ln2_high), clamped);
  r = V::fma(n, V::splat(-C::ln2_low), r);
  V y = V::splat(inverse_factorial<T>(C::degree));
#pragma GCC unroll 16
  for (int k = C::degree - 1; k >= 0; --k) y = V::fma(y, r, V::splat(inverse_factorial<T>(k)));
  // 2^n apart, then a product: adding n to the bits of y itself would turn some NaNs into numbers.
  const V power = V::scale_by_bits(V::splat(T(1)), n_bits);
  return V::select_less(x, lowest, V::splat(T(0)), y * power);
}

}  // namespace
}  // namespace ioattn::kernels
