#pragma once

#include <cstdint>
#include <type_traits>

#include "base/types.hpp"

// One lane. An anonymous namespace on purpose: this header is compiled with different flags in
// several objects, and none of them may provide code to another.
namespace ioattn::kernels {
namespace {

template <class T>
struct ScalarVector {
  using value_type = T;
  static constexpr int lanes = 1;
  static constexpr int registers = 16;
  static constexpr int powers = 1;  // that exponentials look up

  T value;

  static ScalarVector load(const T* p) { return {*p}; }
  static ScalarVector splat(T x) { return {x}; }
  void store(T* p) const { *p = value; }
  // The first `count` lanes, all where there are fewer, none if it is negative: of others nothing
  // is touched, and what is loaded is 0.
  static ScalarVector load_first(const T* p, index_t count) { return {count > 0 ? *p : T(0)}; }
  void store_first(T* p, index_t count) const {
    if (count > 0) *p = value;
  }
  static void transpose(ScalarVector (&)[lanes]) {}

  friend ScalarVector operator+(ScalarVector a, ScalarVector b) { return {a.value + b.value}; }
  friend ScalarVector operator-(ScalarVector a, ScalarVector b) { return {a.value - b.value}; }
  friend ScalarVector operator*(ScalarVector a, ScalarVector b) { return {a.value * b.value}; }
  static ScalarVector fma(ScalarVector a, ScalarVector b, ScalarVector c) {
    return {a.value * b.value + c.value};
  }
  static ScalarVector max(ScalarVector a, ScalarVector b) {
    return {a.value > b.value ? a.value : b.value};
  }
  // b if one of them is NaN
  static ScalarVector min(ScalarVector a, ScalarVector b) {
    return {a.value < b.value ? a.value : b.value};
  }
  // a < b ? x : y, lane by lane
  static ScalarVector select_less(ScalarVector a, ScalarVector b, ScalarVector x, ScalarVector y) {
    return {a.value < b.value ? x.value : y.value};
  }
  // The number whose sign and exponent are the low bits of x, and whose mantissa is 0.
  static ScalarVector from_exponent_bits(ScalarVector x) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    Bits bits;
    __builtin_memcpy(&bits, &x.value, sizeof bits);
    bits <<= sizeof(T) == 4 ? 23 : 52;
    __builtin_memcpy(&x.value, &bits, sizeof bits);
    return x;
  }
};

}  // namespace
}  // namespace ioattn::kernels
