#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <type_traits>

#include "plan/layer/gradient_planner.hpp"
#include "reference/cases.hpp"
#include "reference/gauge.hpp"
#include "schedules/layer/layer_gradients.hpp"
#include "schedules/padded.hpp"
#include "schedules/rounding_limit.hpp"
#include "status_ok.hpp"

namespace ioattn_test {

// Outputs of a set of gradients by name, filled with NaN.
template <class T>
using Gradients = std::map<std::string, Padded<T>>;

inline std::string describe(const ioattn::GradientSet& set) {
  std::string names;
  for (const auto& [wanted, name] : {std::pair(set.dX, "dX"),
                                     {set.dY, "dY"},
                                     {set.dA1, "dA1"},
                                     {set.dA2, "dA2"},
                                     {set.dA3, "dA3"},
                                     {set.dA, "dA"},
                                     {set.dW_Q, "dW_Q"},
                                     {set.dW_K, "dW_K"}}) {
    if (wanted) names += (names.empty() ? "" : ",") + std::string(name);
  }
  return names;
}

// The granted ratio: short blocks of long sums are granted their longer chains of additions.
inline double limit(const ioattn::LayerShape& shape, const ioattn::GradientSet& set,
                    const ioattn::LayerBlocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const ioattn::GradientSteps steps = steps_of(set, tie, blocks.rows.form);
  double most = ioattn_reference::pass_ratio;
  // Blocks that the phases do not use are 0.
  const auto include = [&](bool runs, ioattn::index_t terms, ioattn::index_t block) {
    if (runs && block > 0) most = std::max(most, limit(terms, block));
  };
  const ioattn::Blocks& rows = blocks.rows;
  include(steps.alone || steps.rows, m, blocks.keys.one_pass ? blocks.keys.c : rows.c);
  include(steps.alone, n, rows.rho);
  include(steps.alone || steps.values, d, rows.h.depth);
  include(true, e, rows.g.depth);
  include(true, d, rows.s.depth);
  include(steps.dx, n, rows.x.depth);
  include(steps.rows, e, rows.q.depth);
  include(steps.rows, d, rows.f.depth);
  include(steps.rows, m, rows.u.depth);
  include(steps.delta, e, rows.w);
  include(steps.keys, n, blocks.keys.rho);
  include(has_key_pass(steps, blocks), std::max(d, e), blocks.keys.w);
  include(steps.alone && blocks.schedule == ioattn::Schedule::tile_fused, std::max(d, e), rows.w);
  include(steps.da3, e, blocks.da3.depth);
  include(steps.dy, m, blocks.dy.depth);
  include(steps.da1, d, blocks.da1.depth);
  include(steps.dw_q || steps.dw_k, d, blocks.dw.depth);
  return most;
}

// A case of the layer problem in T with the oracle's results, and the calls on it.
template <class T>
class GradientCase {
 public:
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  using Reference = ioattn_reference::Matrix<Wide>;
  using Unit = ioattn_reference::Matrix<double>;

  GradientCase(const ioattn_reference::LayerInputs<double>& inputs, ioattn_reference::Ties ties,
               ioattn::index_t dk, ioattn::index_t padding)
      : inputs_(inputs),
        padding_(padding),
        a1_(inputs.A1, padding),
        a2_(inputs.A2, padding),
        a3_(inputs.A3, padding),
        x_(inputs.X, padding),
        y_(inputs.Y, padding),
        d_o_(inputs.dO, padding),
        o_(0, 0, 0),
        lse_(0, 0, 0),
        w_q_(ioattn_reference::random_matrix(inputs.X.rows, std::size_t(dk), 91), padding),
        w_k_(ioattn_reference::random_matrix(inputs.X.rows, std::size_t(dk), 92), padding) {
    namespace ref = ioattn_reference;
    in_ = {view(a1_), view(a2_), view(a3_), view(x_), view(y_), {}, inputs.scale};
    if (inputs.first_key > -ref::LayerInputs<double>::unlimited) in_.mask.first = inputs.first_key;
    if (inputs.last_key < ref::LayerInputs<double>::unlimited) in_.mask.last = inputs.last_key;
    if (ties != ref::Ties::none) in_.a3 = in_.a2;
    if (ties == ref::Ties::all) in_.a2 = in_.a3 = in_.a1;
    shape_ = shape_of(in_);
    const ref::LayerInputs<Wide> wide = ref::convert<Wide>(inputs);
    const ref::Forward<Wide> fwd = ref::forward(wide);
    const ref::Backward<Wide> bwd = ref::backward(wide, fwd);
    const ref::Gauge gauge = ref::make_gauge<T>(wide, fwd);
    o_ = Padded<T>(ref::convert<double>(fwd.O), padding);
    lse_ = Padded<T>(ref::convert<double>(fwd.L), 0);
    const Reference w_q =
        ref::convert<Wide>(ref::random_matrix(inputs.X.rows, std::size_t(dk), 91));
    const Reference w_k =
        ref::convert<Wide>(ref::random_matrix(inputs.X.rows, std::size_t(dk), 92));
    wanted_ = {{"dX", bwd.dX},
               {"dY", bwd.dY},
               {"dA1", bwd.dA1},
               {"dA2", bwd.dA2},
               {"dA3", bwd.dA3},
               {"dW_Q", ref::multiply(bwd.dX, w_k)},
               {"dW_K", ref::multiply(ref::transpose(bwd.dX), w_q)}};
    units_ = {{"dX", gauge.dX},
              {"dY", gauge.dY},
              {"dA1", gauge.dA1},
              {"dA2", gauge.dA2},
              {"dA3", gauge.dA3},
              {"dW_Q", weight_unit(gauge.dX, w_k)},
              {"dW_K", weight_unit(ref::transpose(gauge.dX), w_q)}};
    if (ties == ref::Ties::none) return;
    wanted_["dA"] = plus(bwd.dA2, bwd.dA3);
    units_["dA"] = plus(gauge.dA2, gauge.dA3);
    if (ties != ref::Ties::all) return;
    wanted_["dA"] = plus(wanted_["dA"], bwd.dA1);
    units_["dA"] = plus(units_["dA"], gauge.dA1);
  }

  const ioattn::LayerShape& shape() const { return shape_; }
  const ioattn::LayerInputs<T>& inputs() const { return in_; }
  const Padded<T>& d_o() const { return d_o_; }
  const Padded<T>& o() const { return o_; }
  const Padded<T>& lse() const { return lse_; }
  const Reference& wanted(const std::string& name) const { return wanted_.at(name); }

  Gradients<T> outputs(const ioattn::GradientSet& set) const {
    const auto [n, m, d, e, tie, mask] = shape_;
    Gradients<T> out;
    const auto add = [&](bool wanted, const char* name, ioattn::index_t rows,
                         ioattn::index_t cols) {
      if (wanted) out.emplace(name, Padded<T>(rows, cols, padding_));
    };
    add(set.dX, "dX", d, d);
    add(set.dY, "dY", d, e);
    add(set.dA1, "dA1", n, d);
    add(set.dA2, "dA2", m, d);
    add(set.dA3, "dA3", m, d);
    add(set.dA, "dA", m, d);
    add(set.dW_Q, "dW_Q", d, w_q_.cols);
    add(set.dW_K, "dW_K", d, w_q_.cols);
    return out;
  }

  ioattn::LayerGradients<T> views(Gradients<T>* out) const {
    const auto of = [&](const char* name) {
      const auto found = out->find(name);
      return found == out->end() ? ioattn::MatrixView<T>{} : found->second.view();
    };
    return {of("dX"), of("dY"),   of("dA1"),  of("dA2"),  of("dA3"),
            of("dA"), of("dW_Q"), of("dW_K"), view(w_q_), view(w_k_)};
  }

  Gradients<T> run(const ioattn::GradientSet& set, const ioattn::LayerBlocks& blocks,
                   const ioattn::kernels::KernelTable<T>& kernels, int threads,
                   ioattn::Observer* observer) const {
    Gradients<T> out = outputs(set);
    ioattn::schedules::GradientTask<T> task;
    task.shape = shape_;
    task.in = in_;
    task.d_o = view(d_o_);
    task.o = view(o_);
    task.lse = lse_.values.data();
    task.out = views(&out);
    task.blocks = blocks;
    task.kernels = &kernels;
    task.threads = threads;
    task.observer = observer;
    EXPECT_OK(ioattn::schedules::layer_gradients(task));
    return out;
  }

  void check(const Gradients<T>& out, double allowed) const {
    for (const auto& [name, matrix] : out) {
      const ioattn_reference::Worst worst = ioattn_reference::worst_ratio(
          matrix.values.data(), static_cast<std::size_t>(matrix.stride), wanted_.at(name),
          units_.at(name));
      EXPECT_TRUE(worst.passes(allowed))
          << name << ": " << to_string(worst) << ", allowed " << allowed;
      EXPECT_TRUE(matrix.untouched_between_rows()) << name << " was written between its rows";
    }
  }

  // Against the largest entry: where the reference is no remainder of a cancellation.
  double worst_relative_error(const Gradients<T>& out) const {
    double worst = 0;
    for (const auto& [name, matrix] : out) {
      worst = std::max(worst, ioattn_reference::max_relative_error(
                                  matrix.values.data(), static_cast<std::size_t>(matrix.stride),
                                  wanted_.at(name)));
    }
    return worst;
  }

 private:
  static ioattn::MatrixView<const T> view(const Padded<T>& m) { return m.view(); }
  template <class Matrix>
  static Matrix plus(Matrix a, const Matrix& b) {
    for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
    return a;
  }
  // The unit of a product with an exact factor.
  static Unit weight_unit(const Unit& unit, const Reference& weights) {
    Unit absolute = ioattn_reference::convert<double>(weights);
    for (double& value : absolute.values) value = std::abs(value);
    Unit product = ioattn_reference::multiply(unit, absolute);
    for (double& value : product.values)
      value +=
          static_cast<double>(std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon());
    return product;
  }

  ioattn_reference::LayerInputs<double> inputs_;
  ioattn::index_t padding_;
  Padded<T> a1_, a2_, a3_, x_, y_, d_o_, o_, lse_, w_q_, w_k_;
  ioattn::LayerInputs<T> in_;
  ioattn::LayerShape shape_;
  std::map<std::string, Reference> wanted_;
  std::map<std::string, Unit> units_;
};

}  // namespace ioattn_test
