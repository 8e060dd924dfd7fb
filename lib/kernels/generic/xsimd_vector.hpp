#pragma once

#include <xsimd/xsimd.hpp>

#include "base/types.hpp"

// The widest vector of the ISA that this object is compiled for. See scalar_vector.hpp about the
// anonymous namespace.
namespace ioattn::kernels {
namespace {

template <class T>
struct XsimdVector {
  using value_type = T;
  using batch = xsimd::batch<T>;
  using bits = xsimd::batch<xsimd::as_unsigned_integer_t<T>>;
  static constexpr int lanes = static_cast<int>(batch::size);

  batch value;

  static XsimdVector load(const T* p) { return {batch::load_unaligned(p)}; }
  static XsimdVector splat(T x) { return {batch(x)}; }
  void store(T* p) const { value.store_unaligned(p); }

  friend XsimdVector operator+(XsimdVector a, XsimdVector b) { return {a.value + b.value}; }
  friend XsimdVector operator-(XsimdVector a, XsimdVector b) { return {a.value - b.value}; }
  friend XsimdVector operator*(XsimdVector a, XsimdVector b) { return {a.value * b.value}; }
  static XsimdVector fma(XsimdVector a, XsimdVector b, XsimdVector c) {
    return {xsimd::fma(a.value, b.value, c.value)};
  }
  static XsimdVector max(XsimdVector a, XsimdVector b) { return {xsimd::max(a.value, b.value)}; }
  static XsimdVector select_less(XsimdVector a, XsimdVector b, XsimdVector x, XsimdVector y) {
    return {xsimd::select(a.value < b.value, x.value, y.value)};
  }
  static XsimdVector scale_by_bits(XsimdVector x, XsimdVector n_bits) {
    constexpr int mantissa_bits = sizeof(T) == 4 ? 23 : 52;
    const bits n = xsimd::bitwise_cast<bits>(n_bits.value) << mantissa_bits;
    return {xsimd::bitwise_cast<batch>(xsimd::bitwise_cast<bits>(x.value) + n)};
  }
};

}  // namespace
}  // namespace ioattn::kernels
