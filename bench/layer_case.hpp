#pragma once

#include <cmath>

#include "base/gradients.hpp"
#include "base/layer_inputs.hpp"
#include "bench/aligned_vector.hpp"
#include "bench/normal_values.hpp"

namespace ioattn::bench {

// Inputs and outputs of one layer problem without padding; softmax weights are neither flat nor one
// spike.
template <class T>
class LayerCase {
 public:
  explicit LayerCase(const LayerShape& shape) : shape_(shape) {
    const auto [n, m, d, e, tie, mask] = shape;
    NormalValues<T> random;
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    a1_ = random(n * d, 1);
    a2_ = random(m * d, 1);
    a3_ = random(m * d, 1);
    x_ = random(d * d, scale / 8);
    y_ = random(d * e, scale);
    d_o = random(n * e, 1);
    for (const auto& [values, size] : {std::pair{&o, n * e},
                                       {&lse, n},
                                       {&dx, d * d},
                                       {&dy, d * e},
                                       {&da1, n * d},
                                       {&da2, m * d},
                                       {&da3, m * d}}) {
      values->resize(static_cast<std::size_t>(size));
    }
  }

  LayerInputs<T> inputs() const {
    const auto [n, m, d, e, tie, mask] = shape_;
    LayerInputs<T> in = {{a1_.data(), n, d, d},
                         {a2_.data(), m, d, d},
                         {a3_.data(), m, d, d},
                         {x_.data(), d, d, d},
                         {y_.data(), d, e, e}};
    if (tie != Tie::none) in.a3 = in.a2;
    if (tie == Tie::all) in.a2 = in.a3 = in.a1;
    return in;
  }
  // dX alone, or with dY, dA1, dA2 and dA3.
  LayerGradients<T> gradients(bool all) {
    const auto [n, m, d, e, tie, mask] = shape_;
    LayerGradients<T> out;
    out.dx = {dx.data(), d, d, d};
    if (!all) return out;
    out.dy = {dy.data(), d, e, e};
    out.da1 = {da1.data(), n, d, d};
    out.da2 = {da2.data(), m, d, d};
    out.da3 = {da3.data(), m, d, d};
    return out;
  }

  AlignedVector<T> d_o, o, lse, dx, dy, da1, da2, da3;

 private:
  LayerShape shape_;
  AlignedVector<T> a1_, a2_, a3_, x_, y_;
};

}  // namespace ioattn::bench
