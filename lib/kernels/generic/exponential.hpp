#pragma once

#include <cstdint>
#include <iterator>

#include "base/types.hpp"

namespace ioattn::kernels {
namespace {

// e^x = 2^(n/N) e^r with n = round(x N log2 e), r = x - n ln(2)/N, |r| <= ln(2)/2N, and e^r = 1 + r
// + r^2 q(r). N is the number of powers that a vector can look up in registers, 1 if it can look up
// none. q makes the relative error on that interval as small as its degree allows: below 3.1e-9
// (f32; of 8 powers 2.7e-8) and 1.7e-17 (f64). With N = 32 e^r = 1 + r (a + r/2) is within 5.3e-8,
// which leaves 1.81 ulp for all of e^x. NaN stays NaN.
template <class T>
struct ExpRange {
  // There 2^(n/N) is 0; down to ln(2) above it and less it is denormal, off by as much as that.
  static constexpr T least = sizeof(T) == 4 ? T(-88.0296919) : T(-709.0895657128241);
  static constexpr T highest = sizeof(T) == 4 ? T(88) : T(709);
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

// `powers` are the bits of 2^(k/N) less those of k as the sum with n << shift has them. Of floats
// ln2_high has all its digits, as a multiply-add rounds its sum alone, which needs no more.
template <>
struct ExpConstants<float, 8> {
  static constexpr float round_magic = 12582912.0f;
  static constexpr float log2e = 8 * 1.44269504f;
  static constexpr float ln2_high = 0.693147182f / 8;
  static constexpr float ln2_low = -1.90465430e-9f / 8;
  static constexpr float q[] = {5.0006485e-1f, 1.6664332e-1f};
  static constexpr int shift = 23 - 3;
  static constexpr std::uint32_t powers[] = {0x3f800000u, 0x3f7b95c2u, 0x3f7837f0u, 0x3f75fed7u,
                                             0x3f7504f3u, 0x3f75672au, 0x3f7744fdu, 0x3f7ac0c7u};
};

template <>
struct ExpConstants<float, 32> {
  static constexpr float round_magic = 12582912.0f;
  static constexpr float log2e = 32 * 1.44269504f;
  static constexpr float ln2_high = 0.693147182f / 32;  // what is left is within 2.3 % of 2^-34
  static constexpr int halvings_of_low = 34;
  static constexpr float ln2_low = -0x1p-34f;
  static constexpr float slope = 1.00001466f;
  static constexpr int shift = 23 - 5;
  static constexpr std::uint32_t powers[] = {
      0x3f800000u, 0x3f7ecd87u, 0x3f7daac3u, 0x3f7c980fu, 0x3f7b95c2u, 0x3f7aa43au, 0x3f79c3d3u,
      0x3f78f4f0u, 0x3f7837f0u, 0x3f778d3au, 0x3f76f532u, 0x3f767043u, 0x3f75fed7u, 0x3f75a15bu,
      0x3f75583fu, 0x3f7523f6u, 0x3f7504f3u, 0x3f74fbafu, 0x3f7508a4u, 0x3f752c4du, 0x3f75672au,
      0x3f75b9beu, 0x3f76248cu, 0x3f76a81eu, 0x3f7744fdu, 0x3f77fbb8u, 0x3f78ccdfu, 0x3f79b907u,
      0x3f7ac0c7u, 0x3f7be4bau, 0x3f7d257du, 0x3f7e83b3u};
};

template <>
struct ExpConstants<double, 16> {
  static constexpr double round_magic = 6755399441055744.0;
  static constexpr double log2e = 16 * 1.4426950408889634;
  static constexpr double ln2_high = 6.93145751953125e-1 / 16;
  static constexpr double ln2_low = 1.42860682030941723212e-6 / 16;
  static constexpr double q[] = {4.9999999999999604364e-1, 1.6666666664417970816e-1,
                                 4.1666666693249906281e-2, 8.3334719207570246015e-3,
                                 1.3888594066415051024e-3};
  static constexpr int shift = 52 - 4;
  static constexpr std::uint64_t powers[] = {
      0x3ff0000000000000u, 0x3fefb5586cf9890fu, 0x3fef72b83c7d517bu, 0x3fef387a6e756238u,
      0x3fef06fe0a31b715u, 0x3feedea64c123422u, 0x3feebfdad5362a27u, 0x3feeab07dd485429u,
      0x3feea09e667f3bcdu, 0x3feea11473eb0187u, 0x3feeace5422aa0dbu, 0x3feec49182a3f090u,
      0x3feee89f995ad3adu, 0x3fef199bdd85529cu, 0x3fef5818dcfba487u, 0x3fefa4afa2a490dau};
};

// 2^(n/N) of the sum of n and a magic number.
template <class V>
inline V power_of_bits(V n_bits) {
  using C = ExpConstants<typename V::value_type, V::powers>;
  if constexpr (V::powers == 1) {
    return V::from_exponent_bits(n_bits);
  } else {
    return V::template lookup<C::shift>(C::powers, n_bits);
  }
}

// What the stages below share.
template <class V>
struct ExponentialStages {
  V x, power, tail;  // x is r from the second stage on

  template <class Constants>
  void begin(V argument, const Constants& c) {
    x = V::max(V::splat(c.least), argument);  // of NaN the second, which is NaN
  }
  // n; of n ln(2)/N the low part is left in x.
  template <class Constants>
  V split_high(const Constants& c) {
    power = V::fma(x, V::splat(c.log2e), V::splat(c.magic));
    const V n = power - V::splat(c.magic);
    x = V::fma(n, V::splat(c.minus_ln2_high), x);
    return n;
  }
};

// In stages, so that they can be done apart.
template <class V, int powers = V::powers>
struct Exponential : ExponentialStages<V> {
  using ExponentialStages<V>::x, ExponentialStages<V>::power, ExponentialStages<V>::tail;
  using T = typename V::value_type;
  using Of = ExpConstants<T, powers>;
  static constexpr int degree = static_cast<int>(std::size(Of::q));

  struct alignas(64) Constants {
    T least, log2e, magic, minus_ln2_high, minus_ln2_low;
    T q[degree];
  };
  static constexpr Constants make_constants() {
    Constants c = {ExpRange<T>::least, Of::log2e, Of::round_magic, -Of::ln2_high, -Of::ln2_low, {}};
    for (int k = 0; k < degree; ++k) c.q[k] = Of::q[k];
    return c;
  }
  static constexpr Constants constants = make_constants();

  template <bool by_sums = false>
  void split(const Constants& c) {
    const V n = this->split_high(c);
    x = V::fma(n, V::splat(c.minus_ln2_low), x);
  }
  template <bool by_sums = false>
  void begin_tail(const Constants& c) {
    if constexpr (powers == 1) {
      tail = quotient<0>(x * x, c);
    } else {
      tail = V::splat(c.q[degree - 1]);
#pragma GCC unroll 8
      for (int k = degree - 2; k >= 0; --k) tail = V::fma(x, tail, V::splat(c.q[k]));
    }
    power = power_of_bits(power);
  }
  // 2^(n/N) apart: adding n to the bits of e^r itself would turn some NaNs into numbers.
  V result() const { return V::fma(power, V::fma(x * x, tail, x), power); }

 private:
  // q(r) by powers of r^2: of many coefficients less waits for what is before.
  template <int first>
  V quotient(V square, const Constants& c) const {
    if constexpr (first + 1 == degree) {
      return V::splat(c.q[first]);
    } else {
      const V pair = V::fma(x, V::splat(c.q[first + 1]), V::splat(c.q[first]));
      if constexpr (first + 2 == degree) {
        return pair;
      } else {
        return V::fma(square, quotient<first + 2>(square, c), pair);
      }
    }
  }
};

// Of floats whose vectors look up 32 powers. `by_sums` it has the same bits by fewer multiply-adds
// and more operations: sums, and differences of exponents.
template <class V>
struct Exponential<V, 32> : ExponentialStages<V> {
  using ExponentialStages<V>::x, ExponentialStages<V>::power, ExponentialStages<V>::tail;
  using T = typename V::value_type;
  using Of = ExpConstants<T, 32>;

  struct alignas(64) Constants {
    T least, log2e, magic, minus_ln2_high, minus_ln2_low, half, slope, twice_slope;
  };
  static constexpr Constants constants = {ExpRange<T>::least, Of::log2e,    Of::round_magic,
                                          -Of::ln2_high,      -Of::ln2_low, T(0.5),
                                          Of::slope,          2 * Of::slope};

  template <bool by_sums = false>
  void split(const Constants& c) {
    const V n = this->split_high(c);
    if constexpr (by_sums) {
      x = x + V::template halved<Of::halvings_of_low>(n);
    } else {
      x = V::fma(n, V::splat(c.minus_ln2_low), x);
    }
  }
  // The tail is all of e^r - 1.
  template <bool by_sums = false>
  void begin_tail(const Constants& c) {
    if constexpr (by_sums) {
      tail = x * V::template halved<1>(x + V::splat(c.twice_slope));
    } else {
      tail = x * V::fma(x, V::splat(c.half), V::splat(c.slope));
    }
    power = power_of_bits(power);
  }
  V result() const { return V::fma(power, tail, power); }
};

// Within 2 ulp of e^x, for x up to `highest`: softmax weights of scores less a maximum.
template <class V>
inline V exponential_below(V x) {
  using Exp = Exponential<V>;
  constexpr const auto& c = Exp::constants;
  Exp e;
  e.begin(x, c);
  e.split(c);
  e.begin_tail(c);
  return e.result();
}

// Weights of scores less LSE, which are 1 at most, however LSE was rounded.
template <class V>
inline V exponential(V x) {
  return exponential_below(V::min(V::splat(0), x));
}

}  // namespace
}  // namespace ioattn::kernels
