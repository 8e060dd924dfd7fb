#pragma once

#include <immintrin.h>

#include <type_traits>

#include "base/types.hpp"

// Half of a vector of AVX-512, for columns that do not fill one. See scalar_vector.hpp about the
// anonymous namespace and the meaning of the functions.
namespace ioattn::kernels {
namespace {

template <class T>
struct X86HalfVector;

template <>
struct X86HalfVector<float> {
  using value_type = float;
  static constexpr int lanes = 8;
  static constexpr int registers = 32;

  __m256 value;

  static X86HalfVector load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static X86HalfVector splat(float x) { return {_mm256_set1_ps(x)}; }
  static X86HalfVector load_first(const float* p, index_t count) {
    return {_mm256_maskz_loadu_ps(first_lanes(count), p)};
  }
  void store_first(float* p, index_t count) const {
    _mm256_mask_storeu_ps(p, first_lanes(count), value);
  }
  friend X86HalfVector operator+(X86HalfVector a, X86HalfVector b) {
    return {_mm256_add_ps(a.value, b.value)};
  }
  friend X86HalfVector operator*(X86HalfVector a, X86HalfVector b) {
    return {_mm256_mul_ps(a.value, b.value)};
  }
  static X86HalfVector fma(X86HalfVector a, X86HalfVector b, X86HalfVector c) {
    return {_mm256_fmadd_ps(a.value, b.value, c.value)};
  }

 private:
  static __mmask8 first_lanes(index_t count) {
    return static_cast<__mmask8>(count < lanes ? (1 << count) - 1 : 0xff);
  }
};

template <>
struct X86HalfVector<double> {
  using value_type = double;
  static constexpr int lanes = 4;
  static constexpr int registers = 32;

  __m256d value;

  static X86HalfVector load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static X86HalfVector splat(double x) { return {_mm256_set1_pd(x)}; }
  static X86HalfVector load_first(const double* p, index_t count) {
    return {_mm256_maskz_loadu_pd(first_lanes(count), p)};
  }
  void store_first(double* p, index_t count) const {
    _mm256_mask_storeu_pd(p, first_lanes(count), value);
  }
  friend X86HalfVector operator+(X86HalfVector a, X86HalfVector b) {
    return {_mm256_add_pd(a.value, b.value)};
  }
  friend X86HalfVector operator*(X86HalfVector a, X86HalfVector b) {
    return {_mm256_mul_pd(a.value, b.value)};
  }
  static X86HalfVector fma(X86HalfVector a, X86HalfVector b, X86HalfVector c) {
    return {_mm256_fmadd_pd(a.value, b.value, c.value)};
  }

 private:
  static __mmask8 first_lanes(index_t count) {
    return static_cast<__mmask8>(count < lanes ? (1 << count) - 1 : 0xf);
  }
};

}  // namespace
}  // namespace ioattn::kernels
