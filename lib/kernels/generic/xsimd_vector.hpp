#pragma once

#include <xsimd/xsimd.hpp>

#include "base/types.hpp"
#include "kernels/generic/xsimd_transpose.hpp"

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
  static void transpose(XsimdVector (&x)[lanes]) {
    typename batch::register_type rows[lanes];
    for (int i = 0; i < lanes; ++i) rows[i] = x[i].value;
    kernels::transpose(rows);
    for (int i = 0; i < lanes; ++i) x[i].value = batch(rows[i]);
  }

  friend XsimdVector operator+(XsimdVector a, XsimdVector b) { return {a.value + b.value}; }
  friend XsimdVector operator-(XsimdVector a, XsimdVector b) { return {a.value - b.value}; }
  friend XsimdVector operator*(XsimdVector a, XsimdVector b) { return {a.value * b.value}; }
  static XsimdVector fma(XsimdVector a, XsimdVector b, XsimdVector c) {
#if defined(__AVX512F__) && defined(__clang__)
    // xsimd 8.1 leaves these to contraction, and clang contracts no product that it moved to
    // another basic block: a tile of one row then had other bits.
    if constexpr (sizeof(T) == 4) {
      return {batch(_mm512_fmadd_ps(a.value, b.value, c.value))};
    } else {
      return {batch(_mm512_fmadd_pd(a.value, b.value, c.value))};
    }
#else
    return {xsimd::fma(a.value, b.value, c.value)};
#endif
  }
  static XsimdVector max(XsimdVector a, XsimdVector b) { return {xsimd::max(a.value, b.value)}; }
  static XsimdVector min(XsimdVector a, XsimdVector b) { return {xsimd::min(a.value, b.value)}; }
  static XsimdVector select_less(XsimdVector a, XsimdVector b, XsimdVector x, XsimdVector y) {
    return {xsimd::select(a.value < b.value, x.value, y.value)};
  }
  static XsimdVector zero_where_less(XsimdVector a, XsimdVector b, XsimdVector x) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    // A blend takes a multiply-add's place in the pipes; masking does not.
    if constexpr (sizeof(T) == 4) {
      return {batch(_mm256_andnot_ps(_mm256_cmp_ps(a.value, b.value, _CMP_LT_OQ), x.value))};
    } else {
      return {batch(_mm256_andnot_pd(_mm256_cmp_pd(a.value, b.value, _CMP_LT_OQ), x.value))};
    }
#else
    return select_less(a, b, splat(T(0)), x);
#endif
  }
  static XsimdVector from_exponent_bits(XsimdVector x) {
    constexpr int mantissa_bits = sizeof(T) == 4 ? 23 : 52;
    return {xsimd::bitwise_cast<batch>(xsimd::bitwise_cast<bits>(x.value) << mantissa_bits)};
  }
};

}  // namespace
}  // namespace ioattn::kernels
