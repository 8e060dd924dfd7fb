#pragma once

#include <optional>

#include "api/run/execution.hpp"
#include "base/layer_inputs.hpp"
#include "base/status.hpp"
#include "plan/layer/gradient_planner.hpp"
#include "plan/plan.hpp"

// The layer problem for C++ callers inside the project: the C functions, the command, tests, bench.
namespace ioattn::api {

using ioattn::LayerInputs;
using ioattn::shape_of;

// Runs one pass as planned. Checks pointers, sizes, strides and overlaps first; on any failure the
// outputs are untouched. o [n, dv] or lse [n] may be null: not wanted. `tie`: the operands that the
// plan treats as one memory, by default those that are.
template <class S>
Status layer_forward(const LayerInputs<S>& inputs, const plan::Plan& plan,
                     const Execution& execution, MatrixView<S> o, Compute<S>* lse,
                     std::optional<Tie> tie = std::nullopt);

// o and lse are those of the forward pass; schedules that compute them themselves (naive,
// paper_small, resident) accept null for both and ignore the values. G: S or, in f32, Compute<S>.
template <class S, class G = S>
Status layer_backward(const LayerInputs<S>& inputs, MatrixView<const S> d_o, MatrixView<const S> o,
                      const Compute<S>* lse, const plan::Plan& plan, const Execution& execution,
                      MatrixView<G> dx, std::optional<Tie> tie = std::nullopt);

// Bytes of workspace that the forward pass, or a set of gradients, takes, exactly; 0 for empty
// problems.
Status workspace_of(const LayerProblem& problem, const plan::Plan& forward, int threads,
                    index_t* bytes);
Status workspace_of(const LayerProblem& problem, const plan::LayerPlan& plan,
                    const GradientSet& set, int threads, index_t* bytes);

// A set of gradients as planned: those whose data are not null. W_K and W_Q are read for dW_Q and
// dW_K alone. o and lse as for layer_backward.
template <class S, class G = S>
Status layer_gradients(const LayerInputs<S>& inputs, MatrixView<const S> d_o, MatrixView<const S> o,
                       const Compute<S>* lse, const plan::LayerPlan& plan,
                       const Execution& execution, const LayerGradients<G, S>& gradients,
                       std::optional<Tie> tie = std::nullopt);
// Which they are, for a plan.
template <class S, class G>
GradientSet set_of(const LayerGradients<G, S>& gradients) {
  GradientSet set = gradients.set();
  set.in_f32 = !std::is_same_v<S, G>;
  return set;
}
bool takes_forward_results(const plan::LayerPlan& plan, const GradientSet& set);

}  // namespace ioattn::api
