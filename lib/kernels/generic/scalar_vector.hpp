#pragma once

#include <cstdint>

#include "base/types.hpp"

// One lane. An anonymous namespace on purpose: this header is compiled with different flags in
// several objects, and none of them may provide code to another.
namespace ioattn::kernels {
namespace {

template <class T>
struct ScalarVector {
  using value_type = T;
  static constexpr int lanes = 1;

  T value;

  static ScalarVector load(const T* p) { return {*p}; }
  static ScalarVector splat(T x) { return {x}; }
  void store(T* p) const { *p = value; }

  friend ScalarVector operator+(ScalarVector a, ScalarVector b) { return {a.value + b.value}; }
  friend ScalarVector operator-(ScalarVector a, ScalarVector b) { return {a.value - b.value}; }
  friend ScalarVector operator*(ScalarVector a, ScalarVector b) { return {a.value * b.value}; }
  static ScalarVector fma(ScalarVector a, ScalarVector b, ScalarVector c) {
    return {a.value * b.value + c.value};
  }
  static ScalarVector max(ScalarVector a, ScalarVector b) {
    return {a.value > b.value ? a.value : b.value};
  }
  // a < b ? x : y, lane by lane
  static ScalarVector select_less(ScalarVector a, ScalarVector b, ScalarVector x, ScalarVector y) {
    return {a.value < b.value ? x.value : y.value};
  }
  // x * 2^n, where the low bits of `n_bits` hold n as an integer and the result is normal
  static ScalarVector scale_by_bits(ScalarVector x, ScalarVector n_bits) {
    if constexpr (sizeof(T) == 4) {
      std::uint32_t n, bits;
      __builtin_memcpy(&n, &n_bits.value, sizeof n);
      __builtin_memcpy(&bits, &x.value, sizeof bits);
      bits += n << 23;
      __builtin_memcpy(&x.value, &bits, sizeof bits);
    } else {
      std::uint64_t n, bits;
      __builtin_memcpy(&n, &n_bits.value, sizeof n);
      __builtin_memcpy(&bits, &x.value, sizeof bits);
      bits += n << 52;
      __builtin_memcpy(&x.value, &bits, sizeof bits);
    }
    return x;
  }
};

}  // namespace
}  // namespace ioattn::kernels
