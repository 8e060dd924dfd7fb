#pragma once

#include "api/execution.hpp"
#include "api/session.hpp"
#include "base/sdpa.hpp"
#include "plan/sdpa_planner.hpp"

// The SDPA problem for C++ callers inside the project: the C functions, the command, tests, bench.
namespace ioattn::api {

// Sizes are not negative, heads fit, the scale is finite, and products of sizes fit in 64 bits.
Status validate_problem(const SdpaProblem& problem);

// Multiply-adds of the forward pass, whatever the mask hides; and the threads that a call of so
// much work takes: those granted, but none for so little that it would start later than others
// could have ended.
index_t work_of(const SdpaShape& shape);
int threads_for(index_t work, const RunOptions& options);

// A backward pass has nothing to multiply: gradients are 0.
bool is_trivial(const SdpaShape& shape);

// Sizes of 0 cost nothing: blocks are chosen, and costs told, for at least 1.
SdpaShape shape_to_plan(SdpaShape shape);

// The blocks are positive where a set of gradients takes them. No set, here and below: the forward
// pass.
Status validate_plan(const plan::SdpaPlan& plan, const std::optional<SdpaSet>& set);

// Bytes of workspace that a set of gradients takes, exactly; 0 for empty problems.
Status workspace_of(const SdpaProblem& problem, const plan::SdpaPlan& plan,
                    const std::optional<SdpaSet>& set, int threads, index_t* bytes);

// Plans a set of gradients of a valid problem: as wisdom says where there is some, else, unless it
// alone was asked for, as is estimated. Nothing is timed (sdpa_search.hpp).
Status plan_sdpa(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                 const RunOptions& options, plan::SdpaPlan* plan,
                 plan::Estimate* estimate = nullptr, PlanOrigin* origin = nullptr);

// What the planner is asked for a valid problem.
Status sdpa_request(const SdpaProblem& problem, const RunOptions& options,
                    plan::SdpaRequest* request);

// Runs a pass as planned. Checks pointers, strides and overlaps first; on any failure the outputs
// are untouched. o [batch, heads, n, dv] or lse [batch, heads, 1, n] may be null: not wanted.
template <class S>
Status sdpa_forward(const SdpaProblem& problem, const SdpaInputs<S>& inputs,
                    const plan::SdpaPlan& plan, const Execution& execution, TensorView<S> o,
                    TensorView<Compute<S>> lse);

// o and lse are those of the forward pass; o is not read for dV alone.
template <class S>
struct SdpaForwardResults {
  TensorView<const S> d_o, o;
  TensorView<const Compute<S>> lse;
};
// G: S or, in f32, Compute<S>.
template <class S, class G>
SdpaSet set_of(const SdpaGradients<G>& gradients) {
  SdpaSet set = gradients.set();
  set.in_f32 = !std::is_same_v<S, G>;
  return set;
}
template <class S, class G>
Status sdpa_backward(const SdpaProblem& problem, const SdpaInputs<S>& inputs,
                     const SdpaForwardResults<S>& forward, const plan::SdpaPlan& plan,
                     const Execution& execution, const SdpaGradients<G>& gradients);

}  // namespace ioattn::api
