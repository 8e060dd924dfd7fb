#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/oracle.hpp"

// SDPA by plain loops over heads, masks, offsets and groups. It includes nothing of lib.
namespace ioattn_reference {

// [batch, heads, rows, cols], dense.
template <class T>
struct Tensor {
  std::size_t batch = 0, heads = 0, rows = 0, cols = 0;
  std::vector<T> values;

  Tensor() = default;
  Tensor(std::size_t b, std::size_t h, std::size_t r, std::size_t c)
      : batch(b), heads(h), rows(r), cols(c), values(b * h * r * c) {}

  std::size_t index(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    return ((b * heads + h) * rows + i) * cols + j;
  }
  T& operator()(std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
    return values[index(b, h, i, j)];
  }
  const T& operator()(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    return values[index(b, h, i, j)];
  }
};

// Q [B, Hq, n, d], K [B, Hkv, m, d], V [B, Hkv, m, dv], dO [B, Hq, n, dv]; query head h sees the
// keys of head h / (Hq / Hkv).
template <class T>
struct SdpaInputs {
  Tensor<T> Q, K, V, dO;
  double scale = 1;
  // Query i sees key j if first_key <= (j + k_offset) - (i + q_offset) <= last_key.
  long long first_key = -LayerInputs<T>::unlimited, last_key = LayerInputs<T>::unlimited;
  long long q_offset = 0, k_offset = 0;
  Tensor<T> bias;  // [1 or B, 1 or Hq, n, m], added to the scores; no values: none

  bool sees(std::size_t i, std::size_t j) const {
    const long long key = static_cast<long long>(j) + k_offset;
    const long long query = static_cast<long long>(i) + q_offset;
    return first_key <= key - query && key - query <= last_key;
  }
};

// Beside each output the unit of its error (gauge.hpp): the same sums of absolute values, those
// that pass through scores weighed with 4 + 2 S_i.
template <class T>
struct SdpaResults {
  Tensor<T> O, L, dQ, dK, dV;  // L: [B, Hq, n, 1]
  Tensor<double> O_unit, L_unit, dQ_unit, dK_unit, dV_unit;
  Tensor<T> dBias;  // as the bias
  Tensor<double> dBias_unit;
};

// `floor` is what underflow may cost in each sum: min / eps of the type under test.
template <class T>
SdpaResults<T> sdpa(const SdpaInputs<T>& in, double floor);

// About standard normal values, exact in float; the scores have a standard deviation of about
// scale * sqrt(d).
SdpaInputs<double> random_sdpa(std::size_t batch, std::size_t heads, std::size_t kv_heads,
                               std::size_t n, std::size_t m, std::size_t d, std::size_t dv,
                               std::uint64_t seed);

template <class To, class From>
Tensor<To> convert(const Tensor<From>& from) {
  Tensor<To> to(from.batch, from.heads, from.rows, from.cols);
  for (std::size_t i = 0; i < from.values.size(); ++i)
    to.values[i] = static_cast<To>(from.values[i]);
  return to;
}

template <class To, class From>
SdpaInputs<To> convert(const SdpaInputs<From>& in) {
  return {convert<To>(in.Q), convert<To>(in.K),   convert<To>(in.V), convert<To>(in.dO),
          in.scale,          in.first_key,        in.last_key,       in.q_offset,
          in.k_offset,       convert<To>(in.bias)};
}

}  // namespace ioattn_reference
