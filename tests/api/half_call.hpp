#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <type_traits>
#include <vector>

#include "api/options.hpp"
#include "base/half.hpp"
#include "ioattn/ioattn.h"
#include "normal_numbers.hpp"

// Calls of the C functions of SDPA with arrays in 16 bits.
namespace ioattn_test {

template <class S>
using Internal = std::conditional_t<std::is_same_v<S, ioattn_bf16>, ioattn::bf16, ioattn::f16>;

template <class S>
inline constexpr ioattn_dtype dtype_of = std::is_same_v<S, float>         ? IOATTN_F32
                                         : std::is_same_v<S, ioattn_bf16> ? IOATTN_BF16
                                                                          : IOATTN_F16;

inline float number(float x) { return x; }
inline float number(ioattn_bf16 x) { return ioattn::to_float(ioattn::bf16{x.bits}); }
inline float number(ioattn_f16 x) { return ioattn::to_float(ioattn::f16{x.bits}); }
template <class S>
S element(float x) {
  if constexpr (std::is_same_v<S, float>) {
    return x;
  } else {
    return {ioattn::from_float<Internal<S>>(x).bits};
  }
}
template <class S>
std::vector<double> numbers(const std::vector<S>& all) {
  std::vector<double> to;
  for (const S x : all) to.push_back(double(number(x)));
  return to;
}
template <class S>
bool same_numbers(const std::vector<S>& a, const std::vector<S>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float x = number(a[i]), y = number(b[i]);
    if (std::bit_cast<std::uint32_t>(x) != std::bit_cast<std::uint32_t>(y)) return false;
  }
  return true;
}

struct HalfSizes {
  std::int64_t batch, heads, kv_heads, n, m, d, dv;
};

// Arrays in C order, batch and heads first. S: of inputs and O; G: of the gradients.
template <class S, class G = S>
struct HalfCall {
  using Sizes = HalfSizes;

  explicit HalfCall(const Sizes& s, unsigned seed = 1, float deviation = 1)
      : q(count(s.batch, s.heads, s.n, s.d)),
        k(count(s.batch, s.kv_heads, s.m, s.d)),
        v(count(s.batch, s.kv_heads, s.m, s.dv)),
        d_o(count(s.batch, s.heads, s.n, s.dv)),
        o(d_o.size(), nan<S>()),
        lse(count(s.batch, s.heads, s.n, 1), nan<float>()),
        dq(q.size(), nan<G>()),
        dk(k.size(), nan<G>()),
        dv(v.size(), nan<G>()) {
    std::mt19937 random(seed);
    NormalNumbers<float> normal(0, deviation);
    for (std::vector<S>* each : {&q, &k, &v, &d_o})
      for (S& x : *each) x = element<S>(normal(random));
    problem.struct_size = sizeof problem;
    problem.batch = s.batch;
    problem.heads = s.heads;
    problem.kv_heads = s.kv_heads;
    problem.n = s.n;
    problem.m = s.m;
    problem.d = s.d;
    problem.dv = s.dv;
    problem.dtype = dtype_of<S>;
    gradients.struct_size = sizeof gradients;
    gradients.in_f32 = !std::is_same_v<S, G>;
    point();
  }
  HalfCall(const HalfCall& other)
      : q(other.q),
        k(other.k),
        v(other.v),
        d_o(other.d_o),
        o(other.o),
        lse(other.lse),
        dq(other.dq),
        dk(other.dk),
        dv(other.dv),
        problem(other.problem),
        gradients(other.gradients) {
    point();
  }
  HalfCall& operator=(const HalfCall&) = delete;

  ioattn_status forward(const ioattn_options* options = nullptr) {
    return ioattn_sdpa_forward(&problem, options, o.data(), nullptr, lse.data(), nullptr);
  }
  ioattn_status backward(const ioattn_options* options = nullptr) {
    return ioattn_sdpa_backward(&problem, options, d_o.data(), nullptr, o.data(), nullptr,
                                lse.data(), nullptr, &gradients);
  }
  template <class Other>
  bool same_results(const Other& other) const {
    return same_numbers(o, other.o) && same_numbers(lse, other.lse) && same_gradients(other);
  }
  template <class Other>
  bool same_gradients(const Other& other) const {
    return same_numbers(dq, other.dq) && same_numbers(dk, other.dk) && same_numbers(dv, other.dv);
  }

  template <class T>
  static T nan() {
    return element<T>(std::nanf(""));
  }
  static std::size_t count(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return static_cast<std::size_t>(a * b * c * d);
  }

  std::vector<S> q, k, v, d_o, o;
  std::vector<float> lse;
  std::vector<G> dq, dk, dv;
  ioattn_sdpa_problem problem = {};
  ioattn_sdpa_gradients gradients = {};

 private:
  void point() {
    problem.q = q.data();
    problem.k = k.data();
    problem.v = v.data();
    gradients.dq = dq.data();
    gradients.dk = dk.data();
    gradients.dv = dv.data();
  }
};

}  // namespace ioattn_test
