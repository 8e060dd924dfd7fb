#pragma once

#include <immintrin.h>

#include "base/types.hpp"

// Half of a vector of AVX-512, for columns that do not fill one. See scalar_vector.hpp about the
// anonymous namespace and the meaning of the functions.
namespace ioattn::kernels {
namespace {

template <class T>
struct X86HalfVector {
  using value_type = T;
  static constexpr bool is_f32 = sizeof(T) == 4;
  static constexpr int lanes = 32 / static_cast<int>(sizeof(T));
  static constexpr int registers = 32;

  typedef T Register __attribute__((vector_size(32)));

  Register value;

  static X86HalfVector load(const T* p) {
    if constexpr (is_f32) return {_mm256_loadu_ps(p)};
    if constexpr (!is_f32) return {_mm256_loadu_pd(p)};
  }
  static X86HalfVector splat(T x) {
    if constexpr (is_f32) return {_mm256_set1_ps(x)};
    if constexpr (!is_f32) return {_mm256_set1_pd(x)};
  }
  static X86HalfVector load_first(const T* p, index_t count) {
    if constexpr (is_f32) return {_mm256_maskz_loadu_ps(first_lanes(count), p)};
    if constexpr (!is_f32) return {_mm256_maskz_loadu_pd(first_lanes(count), p)};
  }
  void store_first(T* p, index_t count) const {
    if constexpr (is_f32) _mm256_mask_storeu_ps(p, first_lanes(count), value);
    if constexpr (!is_f32) _mm256_mask_storeu_pd(p, first_lanes(count), value);
  }
  friend X86HalfVector operator+(X86HalfVector a, X86HalfVector b) { return {a.value + b.value}; }
  friend X86HalfVector operator*(X86HalfVector a, X86HalfVector b) { return {a.value * b.value}; }
  static X86HalfVector fma(X86HalfVector a, X86HalfVector b, X86HalfVector c) {
    if constexpr (is_f32) return {_mm256_fmadd_ps(a.value, b.value, c.value)};
    if constexpr (!is_f32) return {_mm256_fmadd_pd(a.value, b.value, c.value)};
  }

 private:
  static __mmask8 first_lanes(index_t count) {
    const index_t some = count < 0 ? 0 : count < lanes ? count : lanes;
    return static_cast<__mmask8>((1 << some) - 1);
  }
};

}  // namespace
}  // namespace ioattn::kernels
