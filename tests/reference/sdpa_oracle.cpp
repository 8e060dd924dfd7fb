#include "reference/sdpa_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/cases.hpp"

namespace ioattn_reference {
namespace {

// One query head: rows of the n x m matrices one after the other.
template <class T>
class Head {
 public:
  Head(const SdpaInputs<T>& in, double floor, std::size_t b, std::size_t h, SdpaResults<T>* out)
      : in_(in), floor_(floor), b_(b), h_(h), kv_(h / (in.Q.heads / in.K.heads)), out_(*out) {}

  void run() {
    for (std::size_t i = 0; i < in_.Q.rows; ++i) row(i);
  }

 private:
  bool has_bias() const { return !in_.bias.values.empty(); }
  std::size_t bias_index(std::size_t i, std::size_t j) const {
    return in_.bias.index(in_.bias.batch == 1 ? 0 : b_, in_.bias.heads == 1 ? 0 : h_, i, j);
  }
  T bias(std::size_t i, std::size_t j) const {
    return has_bias() ? in_.bias.values[bias_index(i, j)] : T(0);
  }
  static double size(T x) { return static_cast<double>(std::fabs(x)); }
  // A weight that exp makes 0 is lost in every product, however large its other factors are.
  double f_unit(T f) const { return static_cast<double>(f) + floor_; }

  void row(std::size_t i) {
    const std::size_t m = in_.K.rows, d = in_.Q.cols, e = in_.V.cols;
    const T scale = static_cast<T>(in_.scale), infinity = std::numeric_limits<T>::infinity();
    std::vector<std::size_t> seen;
    for (std::size_t j = 0; j < m; ++j)
      if (in_.sees(i, j) && bias(i, j) > -infinity) seen.push_back(j);

    // s = scale Q K^T, L = log sum e^s
    std::vector<T> f;
    T max = -infinity;
    double S = 0;
    for (const std::size_t j : seen) {
      T s = 0;
      double unit = floor_;
      for (std::size_t k = 0; k < d; ++k) {
        s += in_.Q(b_, h_, i, k) * in_.K(b_, kv_, j, k);
        unit += size(scale * in_.Q(b_, h_, i, k) * in_.K(b_, kv_, j, k));
      }
      f.push_back(scale * s + bias(i, j));
      unit += size(bias(i, j));
      max = std::max(max, f.back());
      S = std::max(S, unit);
    }
    T sum = 0;
    for (const T s : f) sum += std::exp(s - max);
    T& L = out_.L(b_, h_, i, 0);
    L = seen.empty() ? -infinity : max + std::log(sum);
    out_.L_unit(b_, h_, i, 0) = 1 + S + size(L);
    for (T& s : f) s = std::exp(s - max) / sum;
    const double weight = 4 + 2 * S;

    // O = f V, delta = rowsum(O o dO)
    T delta = 0;
    double delta_unit = floor_;
    for (std::size_t k = 0; k < e; ++k) {
      T& o = out_.O(b_, h_, i, k);
      double unit = floor_;
      for (std::size_t t = 0; t < seen.size(); ++t) {
        o += f[t] * in_.V(b_, kv_, seen[t], k);
        unit += f_unit(f[t]) * size(in_.V(b_, kv_, seen[t], k));
      }
      out_.O_unit(b_, h_, i, k) = weight * unit;
      delta += o * in_.dO(b_, h_, i, k);
      delta_unit += unit * size(in_.dO(b_, h_, i, k));
    }

    // p = f o (dO V^T - delta); dQ = scale p K, dK = scale p^T Q, dV = f^T dO
    for (std::size_t k = 0; k < d; ++k) out_.dQ_unit(b_, h_, i, k) = floor_;
    for (std::size_t t = 0; t < seen.size(); ++t) {
      const std::size_t j = seen[t];
      T q = 0;
      double q_unit = floor_;
      for (std::size_t k = 0; k < e; ++k) {
        q += in_.dO(b_, h_, i, k) * in_.V(b_, kv_, j, k);
        q_unit += size(in_.dO(b_, h_, i, k) * in_.V(b_, kv_, j, k));
      }
      if (has_bias()) {
        const std::size_t at = bias_index(i, j);
        out_.dBias.values[at] += f[t] * (q - delta);
        out_.dBias_unit.values[at] += weight * (size(f[t]) * (q_unit + delta_unit) + floor_);
      }
      const T p = scale * f[t] * (q - delta);
      const double p_unit = weight * (size(scale) * f_unit(f[t]) * (q_unit + delta_unit) + floor_);
      for (std::size_t k = 0; k < d; ++k) {
        out_.dQ(b_, h_, i, k) += p * in_.K(b_, kv_, j, k);
        out_.dQ_unit(b_, h_, i, k) += p_unit * size(in_.K(b_, kv_, j, k));
        out_.dK(b_, kv_, j, k) += p * in_.Q(b_, h_, i, k);
        out_.dK_unit(b_, kv_, j, k) += p_unit * size(in_.Q(b_, h_, i, k)) + floor_;
      }
      for (std::size_t k = 0; k < e; ++k) {
        out_.dV(b_, kv_, j, k) += f[t] * in_.dO(b_, h_, i, k);
        out_.dV_unit(b_, kv_, j, k) += weight * f_unit(f[t]) * size(in_.dO(b_, h_, i, k)) + floor_;
      }
    }
  }

  const SdpaInputs<T>& in_;
  double floor_;
  std::size_t b_, h_, kv_;
  SdpaResults<T>& out_;
};

template <class T, class From>
Tensor<T> zeros_like(const Tensor<From>& like, std::size_t cols) {
  return Tensor<T>(like.batch, like.heads, like.rows, cols);
}

}  // namespace

template <class T>
SdpaResults<T> sdpa(const SdpaInputs<T>& in, double floor) {
  SdpaResults<T> out;
  const std::size_t d = in.Q.cols, e = in.V.cols;
  out.O = zeros_like<T>(in.Q, e);
  out.L = zeros_like<T>(in.Q, 1);
  out.dQ = zeros_like<T>(in.Q, d);
  out.dK = zeros_like<T>(in.K, d);
  out.dV = zeros_like<T>(in.K, e);
  out.O_unit = zeros_like<double>(in.Q, e);
  out.L_unit = zeros_like<double>(in.Q, 1);
  out.dQ_unit = zeros_like<double>(in.Q, d);
  out.dK_unit = zeros_like<double>(in.K, d);
  out.dV_unit = zeros_like<double>(in.K, e);
  out.dBias = Tensor<T>(in.bias.batch, in.bias.heads, in.bias.rows, in.bias.cols);
  out.dBias_unit = Tensor<double>(in.bias.batch, in.bias.heads, in.bias.rows, in.bias.cols);
  for (double& unit : out.dBias_unit.values) unit = floor;
  for (std::size_t b = 0; b < in.Q.batch; ++b)
    for (std::size_t h = 0; h < in.Q.heads; ++h) Head<T>(in, floor, b, h, &out).run();
  return out;
}

template SdpaResults<double> sdpa(const SdpaInputs<double>&, double);
template SdpaResults<long double> sdpa(const SdpaInputs<long double>&, double);

SdpaInputs<double> random_sdpa(std::size_t batch, std::size_t heads, std::size_t kv_heads,
                               std::size_t n, std::size_t m, std::size_t d, std::size_t dv,
                               std::uint64_t seed) {
  const auto tensor = [&](std::size_t h, std::size_t rows, std::size_t cols, std::uint64_t salt) {
    Tensor<double> result(batch, h, rows, cols);
    result.values = random_matrix(batch * h * rows, cols, 4 * seed + salt).values;
    return result;
  };
  SdpaInputs<double> in;
  in.Q = tensor(heads, n, d, 0);
  in.K = tensor(kv_heads, m, d, 1);
  in.V = tensor(kv_heads, m, dv, 2);
  in.dO = tensor(heads, n, dv, 3);
  in.scale = 1 / std::sqrt(static_cast<double>(std::max<std::size_t>(d, 1)));
  return in;
}

}  // namespace ioattn_reference
