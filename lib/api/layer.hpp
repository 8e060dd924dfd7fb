#pragma once

#include <optional>

#include "base/layer_inputs.hpp"
#include "base/overflow_counts.hpp"
#include "base/status.hpp"
#include "kernels/registry.hpp"
#include "plan/gradient_planner.hpp"
#include "plan/plan.hpp"
#include "schedules/workspace.hpp"

// The layer problem for C++ callers inside the project: the C functions, the command, tests, bench.
namespace ioattn::api {

using ioattn::LayerInputs;
using ioattn::shape_of;

// What a prepared plan adds to a run: memory for the workspace (null: the heap), the operands that
// it treats as one memory (by default those that are), kernels with the plan's tile in place of
// those of its ISA, and who counts results that overflow as they are rounded (null: nobody).
struct Prepared {
  schedules::CallerMemory* memory = nullptr;
  std::optional<Tie> tie = std::nullopt;
  const kernels::Kernels* kernels = nullptr;
  OverflowCounts* overflows = nullptr;
};

// Runs one pass as planned. Checks pointers, sizes, strides and overlaps first; on any failure the
// outputs are untouched. An observer makes the run sequential. o [n, dv] or lse [n] may be null:
// not wanted. At most `threads` run; the result does not depend on how many.
template <class S>
Status layer_forward(const LayerInputs<S>& inputs, const plan::Plan& plan, int threads,
                     Observer* observer, MatrixView<S> o, Compute<S>* lse,
                     const Prepared& prepared = {});

// o and lse are those of the forward pass; schedules that compute them themselves (naive,
// paper_small, resident) accept null for both and ignore the values. G: S or, in f32, Compute<S>.
template <class S, class G = S>
Status layer_backward(const LayerInputs<S>& inputs, MatrixView<const S> d_o, MatrixView<const S> o,
                      const Compute<S>* lse, const plan::Plan& plan, int threads,
                      Observer* observer, MatrixView<G> dx, const Prepared& prepared = {});

// Bytes of workspace that the forward pass, or a set of gradients, takes, exactly; 0 for empty
// problems.
Status workspace_of(const LayerProblem& problem, const plan::Plan& forward, int threads,
                    index_t* bytes);
Status workspace_of(const LayerProblem& problem, const plan::GradientPlan& plan,
                    const GradientSet& set, int threads, index_t* bytes);

// A set of gradients as planned: those whose data are not null. W_K and W_Q are read for dW_Q and
// dW_K alone. o and lse as for layer_backward.
template <class S, class G = S>
Status layer_gradients(const LayerInputs<S>& inputs, MatrixView<const S> d_o, MatrixView<const S> o,
                       const Compute<S>* lse, const plan::GradientPlan& plan, int threads,
                       Observer* observer, const LayerGradients<G, S>& gradients,
                       const Prepared& prepared = {});
// Which they are, for a plan.
template <class S, class G>
GradientSet set_of(const LayerGradients<G, S>& gradients) {
  GradientSet set = gradients.set();
  set.in_f32 = !std::is_same_v<S, G>;
  return set;
}
bool takes_forward_results(const plan::GradientPlan& plan, const GradientSet& set);

// Whether the schedule's backward pass takes O and LSE as inputs.
bool takes_forward_results(Schedule schedule);

}  // namespace ioattn::api
