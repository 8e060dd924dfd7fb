#pragma once

#include "api/checks/tensor_check.hpp"
#include "api/run/sdpa.hpp"

// Passes of SDPA whose problem, plan and operands have been checked. They do not throw, fail only
// for want of memory or of the plan's ISA, and leave the outputs untouched then.
namespace ioattn::api {

struct SdpaRun {
  const SdpaProblem& problem;
  const plan::SdpaPlan& plan;
  Execution execution;
  bool groups_heads = true;  // forward, where shape and strides allow
};

template <class S>
Status run_forward(const SdpaRun& run, const SdpaInputs<S>& inputs, TensorView<S> o,
                   TensorView<Compute<S>> lse);
template <class S, class G>
Status run_backward(const SdpaRun& run, const SdpaInputs<S>& inputs,
                    const SdpaForwardResults<S>& forward, SdpaGradients<G> out);

// Pointers, strides and overlaps.
template <class S>
Status check_forward(const SdpaInputs<S>& inputs, const TensorView<S>& o,
                     const TensorView<Compute<S>>& lse) {
  TensorCheck check;
  check.input<S>("Q", inputs.q);
  check.input<S>("K", inputs.k);
  check.input<S>("V", inputs.v);
  check.input<S>("bias", inputs.bias);
  if (o.data != nullptr) check.output<S>("O", o);
  if (lse.data != nullptr) check.output<Compute<S>>("LSE", lse);
  return check.status();
}

template <class S, class G>
Status check_backward(const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                      const SdpaGradients<G>& gradients) {
  const SdpaSet set = gradients.set();
  TensorCheck check;
  check.input<S>("Q", inputs.q);
  check.input<S>("K", inputs.k);
  check.input<S>("V", inputs.v);
  check.input<S>("bias", inputs.bias);
  check.input<S>("dO", forward.d_o);
  if (forward.o.data != nullptr || set.delta()) check.input<S>("O", forward.o);
  if (forward.lse.data != nullptr || !set.is_empty()) check.input<Compute<S>>("LSE", forward.lse);
  if (set.dQ) check.output<G>("dQ", gradients.dq);
  if (set.dK) check.output<G>("dK", gradients.dk);
  if (set.dV) check.output<G>("dV", gradients.dv);
  if (set.dBias) check.output<G>("dBias", gradients.d_bias);
  return check.status();
}

}  // namespace ioattn::api
