#pragma once

#include <cstdint>
#include <iterator>

#include "base/types.hpp"

namespace ioattn::kernels {
namespace {

// e^x = 2^(n/N) e^r with n = round(x N log2 e), r = x - n ln(2)/N in two pieces, |r| <= ln(2)/2N,
// and e^r = 1 + r + r^2 q(r). N is the number of powers that a vector can look up in a register, 1
// if it can look up none. q makes the relative error on that interval as small as its degree
// allows: below 3.1e-9 (f32) and 1.7e-17 (f64), so that the result is within 2 ulp. Below `lowest`
// the result is 0, which also keeps 2^(n/N) normal; NaN stays NaN.
template <class T>
struct ExpRange;

template <>
struct ExpRange<float> {
  static constexpr float lowest = -86.9f;
  static constexpr float highest = 88.0f;
};

template <>
struct ExpRange<double> {
  static constexpr double lowest = -707.0;
  static constexpr double highest = 709.0;
};

// 1.5 * 2^(bits of the mantissa) rounds what is added to it to an integer n; with the exponent's
// bias the low bits of the sum are those of the exponent of 2^n.
template <class T, int powers>
struct ExpConstants;

template <>
struct ExpConstants<float, 1> {
  static constexpr float round_magic = 12582912.0f + 127;
  static constexpr float log2e = 1.44269504f;
  static constexpr float ln2_high = 0.693359375f;
  static constexpr float ln2_low = -2.12194440e-4f;
  static constexpr float q[] = {4.9999993449e-1f, 1.6666520631e-1f, 4.1668387729e-2f,
                                8.3687170210e-3f, 1.3814616743e-3f};
};

template <>
struct ExpConstants<double, 1> {
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

// `powers` are the bits of 2^(k/N) less those of k as the sum with n << shift has them.
template <>
struct ExpConstants<float, 16> {
  static constexpr float round_magic = 12582912.0f;
  static constexpr float log2e = 16 * 1.44269504f;
  static constexpr float ln2_high = 0.693359375f / 16;
  static constexpr float ln2_low = -2.12194440e-4f / 16;
  static constexpr float q[] = {5.0001618077e-1f, 1.6666718589e-1f};
  static constexpr int shift = 23 - 4;
  static constexpr std::uint32_t powers[] = {0x3f800000u, 0x3f7daac3u, 0x3f7b95c2u, 0x3f79c3d3u,
                                             0x3f7837f0u, 0x3f76f532u, 0x3f75fed7u, 0x3f75583fu,
                                             0x3f7504f3u, 0x3f7508a4u, 0x3f75672au, 0x3f76248cu,
                                             0x3f7744fdu, 0x3f78ccdfu, 0x3f7ac0c7u, 0x3f7d257du};
};

template <>
struct ExpConstants<double, 8> {
  static constexpr double round_magic = 6755399441055744.0;
  static constexpr double log2e = 8 * 1.4426950408889634;
  static constexpr double ln2_high = 6.93145751953125e-1 / 8;
  static constexpr double ln2_low = 1.42860682030941723212e-6 / 8;
  static constexpr double q[] = {5.0000000000002955193e-1, 1.6666666666663718290e-1,
                                 4.1666666570075371776e-2, 8.3333333711873976249e-3,
                                 1.3889781021999647709e-3, 1.9840565489217141313e-4};
  static constexpr int shift = 52 - 3;
  static constexpr std::uint64_t powers[] = {
      0x3ff0000000000000u, 0x3fef72b83c7d517bu, 0x3fef06fe0a31b715u, 0x3feebfdad5362a27u,
      0x3feea09e667f3bcdu, 0x3feeace5422aa0dbu, 0x3feee89f995ad3adu, 0x3fef5818dcfba487u};
};

// 2^t = 2^(n/N) 2^r with n = round(N t) and r = t - n/N, and 2^r = 1 + r q(r), within 3.4e-9 (f32)
// and 3.4e-18 (f64).
template <class T, int powers>
struct Exp2Constants;

template <>
struct Exp2Constants<float, 1> {
  static constexpr float q[] = {6.93147202857e-1f, 2.40226479133e-1f, 5.55033246787e-2f,
                                9.61843737700e-3f, 1.33988754414e-3f, 1.53533591439e-4f};
};

template <>
struct Exp2Constants<double, 1> {
  static constexpr double q[] = {
      6.9314718055994532581e-1, 2.4022650695910131268e-1, 5.5504108664820082969e-2,
      9.6181291075941173987e-3, 1.3333558146774671942e-3, 1.5403530457114978608e-4,
      1.5252733493084638237e-5, 1.3215435281044027972e-6, 1.0178199587774837146e-7,
      7.0737834434187440823e-9, 4.4347691132199041829e-10};
};

template <>
struct Exp2Constants<float, 16> {
  static constexpr float q[] = {6.93147182667e-1f, 2.40234288094e-1f, 5.55021362635e-2f};
};

template <>
struct Exp2Constants<double, 8> {
  static constexpr double q[] = {6.9314718055994531811e-1, 2.4022650695911516188e-1,
                                 5.5504108664802350856e-2, 9.6181290851777503087e-3,
                                 1.3333558238962766659e-3, 1.5404521962683275483e-4,
                                 1.5251844150120783489e-5};
};

// q(r) by powers of r^2, so that less of it waits for what is before.
template <class V, class C, int first = 0>
inline V exponential_tail(V r, V r2) {
  constexpr int last = static_cast<int>(std::size(C::q)) - 1;
  if constexpr (first == last) {
    return V::splat(C::q[last]);
  } else {
    const V pair = V::fma(r, V::splat(C::q[first + 1]), V::splat(C::q[first]));
    if constexpr (first + 1 == last) {
      return pair;
    } else {
      return V::fma(r2, exponential_tail<V, C, first + 2>(r, r2), pair);
    }
  }
}

// 2^(n/N) of the sum of n/N and a magic number.
template <class V>
inline V power_of_bits(V n_bits) {
  using C = ExpConstants<typename V::value_type, V::powers>;
  if constexpr (V::powers == 1) {
    return V::from_exponent_bits(n_bits);
  } else {
    return V::template lookup<C::shift>(C::powers, n_bits);
  }
}

// For x at most `highest`.
template <class V>
inline V exponential_below(V x) {
  using T = typename V::value_type;
  using C = ExpConstants<T, V::powers>;
  const V n_bits = V::fma(x, V::splat(C::log2e), V::splat(C::round_magic));
  const V n = n_bits - V::splat(C::round_magic);
  V r = V::fma(n, V::splat(-C::ln2_high), x);
  r = V::fma(n, V::splat(-C::ln2_low), r);
  const V r2 = r * r;
  const V tail = V::fma(r2, exponential_tail<V, C>(r, r2), r);
  // 2^(n/N) apart: adding n to the bits of e^r itself would turn some NaNs into numbers.
  const V power = power_of_bits(n_bits);
  return V::zero_where_less(x, V::splat(ExpRange<T>::lowest), V::fma(power, tail, power));
}

// 2^t for t below 128 (f32) or 1024 (f64); from -127 or -1023 down it is 0, and next to it
// denormal, off by as much as that. In steps, so that they can be done apart.
template <class V>
struct Exp2 {
  using T = typename V::value_type;
  using Powers = ExpConstants<T, V::powers>;
  using Polynomial = Exp2Constants<T, V::powers>;
  static constexpr int degree = static_cast<int>(std::size(Polynomial::q));

  struct alignas(64) Constants {
    T least, magic;
    T q[degree];
  };
  static constexpr Constants make_constants() {
    Constants c = {sizeof(T) == 4 ? T(-127) : T(-1023), Powers::round_magic / V::powers, {}};
    for (int k = 0; k < degree; ++k) c.q[k] = Polynomial::q[k];
    return c;
  }
  static constexpr Constants constants = make_constants();

  V t, power, tail;

  static V limited(V x, const Constants& c) {
    return V::max(V::splat(c.least), x);  // of NaN the second, which is NaN
  }
  void split(const Constants& c) {
    power = t + V::splat(c.magic);
    t = t - (power - V::splat(c.magic));
  }
  void begin_tail(const Constants& c) {
    tail = V::fma(t, V::splat(c.q[degree - 1]), V::splat(c.q[degree - 2]));
#pragma GCC unroll 16
    for (int k = degree - 3; k > 0; --k) tail = V::fma(t, tail, V::splat(c.q[k]));
    power = power_of_bits(power);
  }
  V result(const Constants& c) const {
    return V::fma(power, t * V::fma(t, tail, V::splat(c.q[0])), power);
  }
};
template <class V>
inline V exp2_below(V x) {
  constexpr const auto& c = Exp2<V>::constants;
  Exp2<V> power = {Exp2<V>::limited(x, c), {}, {}};
  power.split(c);
  power.begin_tail(c);
  return power.result(c);
}

// Above `highest` it is e^highest.
template <class V>
inline V exponential(V x) {
  using T = typename V::value_type;
  return exponential_below(V::min(V::splat(ExpRange<T>::highest), x));
}

}  // namespace
}  // namespace ioattn::kernels
