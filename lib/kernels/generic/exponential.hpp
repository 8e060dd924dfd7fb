#pragma once

#include "base/types.hpp"

namespace ioattn::kernels {
namespace {

// e^x = 2^n e^r with n = round(x log2 e), r = x - n ln 2 in two pieces, |r| <= ln(2)/2, and
// e^r = 1 + r + r^2 q(r). q makes the relative error on that interval as small as its degree
// allows: 3.1e-9 (f32) and 1.7e-17 (f64), so that the result is within 2 ulp. Below `lowest` the
// result is 0, which also keeps 2^n normal; NaN stays NaN.
template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  static constexpr float lowest = -86.9f;
  static constexpr float highest = 88.0f;
  static constexpr float round_magic = 12582912.0f + 127;  // see exponential_below()
  static constexpr float log2e = 1.44269504f;
  static constexpr float ln2_high = 0.693359375f;
  static constexpr float ln2_low = -2.12194440e-4f;
  static constexpr float q[] = {4.9999993449e-1f, 1.6666520631e-1f, 4.1668387729e-2f,
                                8.3687170210e-3f, 1.3814616743e-3f};
};

template <>
struct ExpConstants<double> {
  static constexpr double lowest = -707.0;
  static constexpr double highest = 709.0;
  static constexpr double round_magic = 6755399441055744.0 + 1023;
  static constexpr double log2e = 1.4426950408889634;
  static constexpr double ln2_high = 6.93145751953125e-1;
  static constexpr double ln2_low = 1.42860682030941723212e-6;
  static constexpr double q[] = {5.0000000000000010221e-1, 1.6666666666666667453e-1,
                                 4.1666666666624127873e-2, 8.3333333333300618325e-3,
                                 1.3888888917213716901e-3, 1.9841269863053616878e-4,
                                 2.4801521295954375131e-5, 2.7557268459997064772e-6,
                                 2.7620088445409748161e-7, 2.5100385495510319078e-8};
};

// q(r) by powers of r^2, so that less of it waits for what is before.
template <class V, int first = 0>
inline V exponential_tail(V r, V r2) {
  using T = typename V::value_type;
  using C = ExpConstants<T>;
  constexpr int last = static_cast<int>(sizeof(C::q) / sizeof(T)) - 1;
  if constexpr (first == last) {
    return V::splat(C::q[last]);
  } else {
    const V pair = V::fma(r, V::splat(C::q[first + 1]), V::splat(C::q[first]));
    if constexpr (first + 1 == last) {
      return pair;
    } else {
      return V::fma(r2, exponential_tail<V, first + 2>(r, r2), pair);
    }
  }
}

// For x at most `highest`.
template <class V>
inline V exponential_below(V x) {
  using T = typename V::value_type;
  using C = ExpConstants<T>;
  // 1.5 * 2^(bits of the mantissa) rounds what is added to it to an integer n; with the exponent's
  // bias the low bits of the sum are those of the exponent of 2^n.
  const V magic = V::splat(C::round_magic);
  const V n_bits = V::fma(x, V::splat(C::log2e), magic);
  const V n = n_bits - magic;
  V r = V::fma(n, V::splat(-C::ln2_high), x);
  r = V::fma(n, V::splat(-C::ln2_low), r);
  const V r2 = r * r;
  // 2^n apart: adding n to the bits of e^r itself would turn some NaNs into numbers.
  const V power = V::from_exponent_bits(n_bits);
  const V y = V::fma(power, V::fma(r2, exponential_tail(r, r2), r), power);
  return V::zero_where_less(x, V::splat(C::lowest), y);
}

// Above `highest` it is e^highest.
template <class V>
inline V exponential(V x) {
  using T = typename V::value_type;
  return exponential_below(V::min(V::splat(ExpConstants<T>::highest), x));
}

}  // namespace
}  // namespace ioattn::kernels
