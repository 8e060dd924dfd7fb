#pragma once

#include <array>
#include <cmath>

#include "reference/oracle.hpp"
#include "schedules/layer_half_case.hpp"

// Of every result of the layer problem the sum of the absolute values of its terms: however many of
// them cancel, or whatever the scores, an error is a few units of it.
namespace ioattn_test {

using AbsoluteSum = ioattn_reference::Matrix<double>;

// O, then the gradients in the order of LayerHalfCase; an entry of a batch after the other.
using AbsoluteSums = std::array<AbsoluteSum, 9>;

inline AbsoluteSum dense_rows(const GapTensor<float>& tensor, ioattn::index_t first,
                              ioattn::index_t rows, ioattn::index_t cols) {
  AbsoluteSum matrix(static_cast<std::size_t>(rows), static_cast<std::size_t>(cols));
  for (ioattn::index_t i = 0; i < rows; ++i)
    for (ioattn::index_t j = 0; j < cols; ++j)
      matrix(std::size_t(i), std::size_t(j)) =
          double(tensor.values()[std::size_t((first + i) * (cols + 3) + j)]);
  return matrix;
}

inline AbsoluteSums absolute_sums(const LayerHalfCase<float>& layer, ioattn::index_t dk) {
  namespace ref = ioattn_reference;
  using ref::multiply, ref::transpose;
  const auto absolute = [](AbsoluteSum matrix) {
    for (double& x : matrix.values) x = std::fabs(x);
    return matrix;
  };
  const auto plus = [](AbsoluteSum a, const AbsoluteSum& b) {
    for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
    return a;
  };
  const auto [n, m, d, e, tie, mask] = layer.problem.shape;
  AbsoluteSums sums;
  for (ioattn::index_t b = 0; b < layer.problem.batch; ++b) {
    ref::LayerInputs<double> in;
    in.A1 = dense_rows(layer.a1, b * n, n, d);
    in.A2 = tie == ioattn::Tie::all ? in.A1 : dense_rows(layer.a2, b * m, m, d);
    in.A3 = tie != ioattn::Tie::none ? in.A2 : dense_rows(layer.a3, b * m, m, d);
    in.X = dense_rows(layer.x, 0, d, d);
    in.Y = dense_rows(layer.y, 0, d, e);
    in.dO = dense_rows(layer.d_o, b * n, n, e);
    in.scale = layer.problem.scale;
    if (mask.first > -ioattn::Mask::unbounded) in.first_key = mask.first;
    if (mask.last < ioattn::Mask::unbounded) in.last_key = mask.last;
    const AbsoluteSum f = ref::forward(in).f;
    const double scale = std::fabs(in.scale);
    for (AbsoluteSum ref::LayerInputs<double>::*each :
         {&ref::LayerInputs<double>::A1, &ref::LayerInputs<double>::A2,
          &ref::LayerInputs<double>::A3, &ref::LayerInputs<double>::X, &ref::LayerInputs<double>::Y,
          &ref::LayerInputs<double>::dO})
      in.*each = absolute(in.*each);
    const AbsoluteSum h = multiply(in.A3, in.Y), o = multiply(f, h);
    // p = f (q - v): of both, for their difference is what may cancel.
    AbsoluteSum p = multiply(in.dO, transpose(h));
    for (std::size_t i = 0; i < p.rows; ++i) {
      double v = 0;
      for (std::size_t k = 0; k < o.cols; ++k) v += o(i, k) * in.dO(i, k);
      for (std::size_t j = 0; j < p.cols; ++j) p(i, j) = scale * f(i, j) * (p(i, j) + v);
    }
    const AbsoluteSum w = multiply(transpose(f), in.dO);
    const AbsoluteSum dx = multiply(transpose(in.A1), multiply(p, in.A2));
    const AbsoluteSum da1 = multiply(multiply(p, in.A2), transpose(in.X));
    const AbsoluteSum da2 = multiply(transpose(p), multiply(in.A1, in.X));
    const AbsoluteSum da3 = multiply(w, transpose(in.Y));
    AbsoluteSum da = plus(da2, da3);
    if (tie == ioattn::Tie::all) da = plus(da, da1);
    const AbsoluteSum dw_q = multiply(dx, absolute(dense_rows(layer.w_k, 0, d, dk)));
    const AbsoluteSum dw_k = multiply(transpose(dx), absolute(dense_rows(layer.w_q, 0, d, dk)));
    const AbsoluteSums entry = {o,    dx,  multiply(transpose(in.A3), w), da1, da2, da3, da,
                                dw_q, dw_k};
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const bool of_all = k == 1 || k == 2 || k > 6;  // one for all entries
      AbsoluteSum& sum = sums[k];
      if (b == 0) {
        sum = entry[k];
      } else if (of_all) {
        sum = plus(sum, entry[k]);
      } else {
        sum.values.insert(sum.values.end(), entry[k].values.begin(), entry[k].values.end());
        sum.rows += entry[k].rows;
      }
    }
  }
  return sums;
}

// The largest error of a number, as a part of its sum; gaps are NaN in both.
template <class A>
double error_of_sums(const std::vector<A>& out, const std::vector<float>& expected,
                     const AbsoluteSum& sums) {
  double worst = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double x = double(ioattn::to_compute(out[i])), y = double(expected[i]);
    if (std::isnan(x) && std::isnan(y)) continue;
    const std::size_t row = i / (sums.cols + 3), col = i % (sums.cols + 3);
    if (std::isnan(x) || std::isnan(y) || col >= sums.cols) return HUGE_VAL;
    if (x == y) continue;
    const double error = std::fabs(x - y) / sums(row, col);
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace ioattn_test
