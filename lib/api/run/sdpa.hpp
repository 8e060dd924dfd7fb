#pragma once

#include "api/checks/validate_sdpa.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/run/execution.hpp"
#include "base/sdpa.hpp"
#include "plan/sdpa/sdpa_plan.hpp"

// The SDPA problem for C++ callers inside the project: the C functions, the command, tests, bench.
namespace ioattn::api {

// Bytes of workspace that a set of gradients takes, exactly; 0 for empty problems.
Status workspace_of(const SdpaProblem& problem, const plan::SdpaPlan& plan,
                    const std::optional<SdpaSet>& set, int threads, index_t* bytes);

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
