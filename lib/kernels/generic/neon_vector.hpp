#pragma once

#include <arm_neon.h>

#include "base/types.hpp"

// A register of AArch64's Advanced SIMD. Not xsimd: its version 8.1 reaches these instructions
// through tables of function pointers, and the functions end up as weak symbols. See
// scalar_vector.hpp about the anonymous namespace and the meaning of the functions.
namespace ioattn::kernels {
namespace {

template <class T>
struct NeonVector;

template <>
struct NeonVector<float> {
  using value_type = float;
  static constexpr int lanes = 4;
  static constexpr int registers = 32;
  static constexpr int powers = 1;  // that exponentials look up

  float32x4_t value;

  static NeonVector load(const float* p) { return {vld1q_f32(p)}; }
  static NeonVector splat(float x) { return {vdupq_n_f32(x)}; }
  void store(float* p) const { vst1q_f32(p, value); }
  static NeonVector load_first(const float* p, index_t count) {
    if (count >= lanes) return load(p);
    float x[lanes] = {};
    for (index_t j = 0; j < count; ++j) x[j] = p[j];
    return load(x);
  }
  void store_first(float* p, index_t count) const {
    if (count >= lanes) return store(p);
    float x[lanes];
    store(x);
    for (index_t j = 0; j < count; ++j) p[j] = x[j];
  }
  static void transpose(NeonVector (&x)[lanes]) {
    const float64x2_t low01 = vreinterpretq_f64_f32(vzip1q_f32(x[0].value, x[1].value));
    const float64x2_t high01 = vreinterpretq_f64_f32(vzip2q_f32(x[0].value, x[1].value));
    const float64x2_t low23 = vreinterpretq_f64_f32(vzip1q_f32(x[2].value, x[3].value));
    const float64x2_t high23 = vreinterpretq_f64_f32(vzip2q_f32(x[2].value, x[3].value));
    x[0] = {vreinterpretq_f32_f64(vzip1q_f64(low01, low23))};
    x[1] = {vreinterpretq_f32_f64(vzip2q_f64(low01, low23))};
    x[2] = {vreinterpretq_f32_f64(vzip1q_f64(high01, high23))};
    x[3] = {vreinterpretq_f32_f64(vzip2q_f64(high01, high23))};
  }

  friend NeonVector operator+(NeonVector a, NeonVector b) { return {vaddq_f32(a.value, b.value)}; }
  friend NeonVector operator-(NeonVector a, NeonVector b) { return {vsubq_f32(a.value, b.value)}; }
  friend NeonVector operator*(NeonVector a, NeonVector b) { return {vmulq_f32(a.value, b.value)}; }
  static NeonVector fma(NeonVector a, NeonVector b, NeonVector c) {
    return {vfmaq_f32(c.value, a.value, b.value)};
  }
  static NeonVector max(NeonVector a, NeonVector b) { return {vmaxq_f32(a.value, b.value)}; }
  static NeonVector min(NeonVector a, NeonVector b) { return {vminq_f32(a.value, b.value)}; }
  static NeonVector select_less(NeonVector a, NeonVector b, NeonVector x, NeonVector y) {
    return {vbslq_f32(vcltq_f32(a.value, b.value), x.value, y.value)};
  }
  static NeonVector from_exponent_bits(NeonVector x) {
    return {vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(x.value), 23))};
  }
};

template <>
struct NeonVector<double> {
  using value_type = double;
  static constexpr int lanes = 2;
  static constexpr int registers = 32;
  static constexpr int powers = 1;  // that exponentials look up

  float64x2_t value;

  static NeonVector load(const double* p) { return {vld1q_f64(p)}; }
  static NeonVector splat(double x) { return {vdupq_n_f64(x)}; }
  void store(double* p) const { vst1q_f64(p, value); }
  static NeonVector load_first(const double* p, index_t count) {
    if (count >= lanes) return load(p);
    double x[lanes] = {};
    for (index_t j = 0; j < count; ++j) x[j] = p[j];
    return load(x);
  }
  void store_first(double* p, index_t count) const {
    if (count >= lanes) return store(p);
    double x[lanes];
    store(x);
    for (index_t j = 0; j < count; ++j) p[j] = x[j];
  }
  static void transpose(NeonVector (&x)[lanes]) {
    const float64x2_t first = vzip1q_f64(x[0].value, x[1].value);
    x[1] = {vzip2q_f64(x[0].value, x[1].value)};
    x[0] = {first};
  }

  friend NeonVector operator+(NeonVector a, NeonVector b) { return {vaddq_f64(a.value, b.value)}; }
  friend NeonVector operator-(NeonVector a, NeonVector b) { return {vsubq_f64(a.value, b.value)}; }
  friend NeonVector operator*(NeonVector a, NeonVector b) { return {vmulq_f64(a.value, b.value)}; }
  static NeonVector fma(NeonVector a, NeonVector b, NeonVector c) {
    return {vfmaq_f64(c.value, a.value, b.value)};
  }
  static NeonVector max(NeonVector a, NeonVector b) { return {vmaxq_f64(a.value, b.value)}; }
  static NeonVector min(NeonVector a, NeonVector b) { return {vminq_f64(a.value, b.value)}; }
  static NeonVector select_less(NeonVector a, NeonVector b, NeonVector x, NeonVector y) {
    return {vbslq_f64(vcltq_f64(a.value, b.value), x.value, y.value)};
  }
  static NeonVector from_exponent_bits(NeonVector x) {
    return {vreinterpretq_f64_u64(vshlq_n_u64(vreinterpretq_u64_f64(x.value), 52))};
  }
};

}  // namespace
}  // namespace ioattn::kernels
