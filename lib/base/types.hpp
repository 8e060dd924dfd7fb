#pragma once

#include <cstdint>

namespace ioattn {

// Sizes, strides and word counts. Signed, as differences of indices are taken everywhere.
using index_t = std::int64_t;

enum class DType : std::uint8_t { f32, f64 };

constexpr index_t size_of(DType dtype) { return dtype == DType::f32 ? 4 : 8; }
constexpr const char* name_of(DType dtype) { return dtype == DType::f32 ? "f32" : "f64"; }

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::f64;
};

// Which of A1, A2, A3 are the same memory. A shared operand is moved once, so costs and bounds
// differ.
enum class Tie : std::uint8_t {
  none,  // A1, A2, A3 distinct
  kv,    // A2 = A3: cross-attention of the paper
  all,   // A1 = A2 = A3: self-attention
};

constexpr const char* name_of(Tie tie) {
  return tie == Tie::none ? "none" : tie == Tie::kv ? "kv" : "all";
}

constexpr index_t ceil_div(index_t a, index_t b) { return (a + b - 1) / b; }
constexpr index_t round_up(index_t a, index_t b) { return ceil_div(a, b) * b; }
constexpr index_t round_down(index_t a, index_t b) { return a / b * b; }

}  // namespace ioattn
