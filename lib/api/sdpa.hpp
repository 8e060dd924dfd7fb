#pragma once

#include "api/session.hpp"
#include "base/observer.hpp"
#include "base/sdpa.hpp"
#include "plan/sdpa_planner.hpp"
#include "schedules/workspace.hpp"

// The SDPA problem for C++ callers inside the project: the C functions, the command, tests, bench.
namespace ioattn::api {

// Sizes are not negative, heads fit, the scale is finite, and products of sizes fit in 64 bits.
Status validate_problem(const SdpaProblem& problem);

// Multiply-adds of the forward pass, whatever the mask hides; and the threads that a call of so
// much work takes: those granted, but none for so little that it would start later than others
// could have ended.
index_t work_of(const SdpaShape& shape);
int threads_for(index_t work, const RunOptions& options);

// Sizes of 0 cost nothing: blocks are chosen, and costs told, for at least 1.
SdpaShape shape_to_plan(SdpaShape shape);

// The blocks are positive where the forward pass, or a set of gradients, takes them.
Status validate_plan(const plan::SdpaPlan& plan);
Status validate_plan(const plan::SdpaPlan& plan, const SdpaSet& set);

// Bytes of workspace that the forward pass, or a set of gradients, takes, exactly; 0 for empty
// problems.
Status workspace_of(const SdpaProblem& problem, const plan::SdpaPlan& plan, int threads,
                    index_t* bytes);
Status workspace_of(const SdpaProblem& problem, const plan::SdpaPlan& plan, const SdpaSet& set,
                    int threads, index_t* bytes);

// Plans the forward pass, or a set of gradients, for a valid problem.
Status plan_sdpa(const SdpaProblem& problem, const RunOptions& options, plan::SdpaPlan* plan,
                 plan::SdpaEstimate* estimate = nullptr);
Status plan_sdpa(const SdpaProblem& problem, const SdpaSet& set, const RunOptions& options,
                 plan::SdpaPlan* plan, plan::SdpaEstimate* estimate = nullptr);

// Runs a pass as planned. Checks pointers, strides and overlaps first; on any failure the outputs
// are untouched. An observer makes the run sequential. o [batch, heads, n, dv] or lse [batch,
// heads, 1, n] may be null: not wanted. The result does not depend on the number of threads. Null
// memory: the workspace is from the heap.
template <class T>
Status sdpa_forward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                    const plan::SdpaPlan& plan, int threads, Observer* observer, TensorView<T> o,
                    TensorView<T> lse, schedules::CallerMemory* memory = nullptr);

// o and lse are those of the forward pass; o is not read for dV alone.
template <class T>
struct SdpaForwardResults {
  TensorView<const T> d_o, o, lse;
};
template <class T>
Status sdpa_backward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                     const SdpaForwardResults<T>& forward, const plan::SdpaPlan& plan, int threads,
                     Observer* observer, const SdpaGradients<T>& gradients,
                     schedules::CallerMemory* memory = nullptr);

}  // namespace ioattn::api
