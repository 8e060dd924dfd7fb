#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace ioattn {

// Sizes, strides and word counts. Signed, as differences of indices are taken everywhere.
using index_t = std::int64_t;

// Numbers in 16 bits, as integers: the compiler need not know them. base/half.hpp converts.
struct bf16 {
  std::uint16_t bits;  // the upper half of a float: 1 sign, 8 exponent, 7 mantissa bits
};
struct f16 {
  std::uint16_t bits;  // IEEE 754 binary16: 1 sign, 5 exponent, 10 mantissa bits
};

enum class DType : std::uint8_t { f32, f64, bf16, f16 };

constexpr bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }
constexpr index_t size_of(DType dtype) { return is_half(dtype) ? 2 : dtype == DType::f32 ? 4 : 8; }
const char* name_of(DType dtype);
bool parse_dtype(std::string_view name, DType* dtype);

// What is stored in 16 bits is computed in f32.
template <class S>
struct compute_type {
  using type = S;
};
template <>
struct compute_type<bf16> {
  using type = float;
};
template <>
struct compute_type<f16> {
  using type = float;
};
template <class S>
using Compute = typename compute_type<S>::type;
template <class S>
constexpr bool is_half_storage = !std::is_same_v<S, Compute<S>>;

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
template <>
struct dtype_of<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of<f16> {
  static constexpr DType value = DType::f16;
};

// f(a value of the type), for the type of SDPA's arrays.
template <class F>
auto with_dtype(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f64: return f(double());
    case DType::bf16: return f(bf16());
    case DType::f16: return f(f16());
    default: return f(float());
  }
}

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
