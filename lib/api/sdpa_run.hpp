#pragma once

#include "api/sdpa.hpp"
#include "api/tensor_check.hpp"

// Passes of SDPA whose problem, plan and operands have been checked. They do not throw, fail only
// for want of memory or of the plan's ISA, and leave the outputs untouched then.
namespace ioattn::api {

struct SdpaRun {
  const SdpaProblem& problem;
  const plan::SdpaPlan& plan;
  int threads = 1;
  Observer* observer = nullptr;
  schedules::CallerMemory* memory = nullptr;  // null: the heap

  bool only_tells() const { return memory != nullptr && memory->only_tells(); }
};

template <class T>
Status run_forward(const SdpaRun& run, const SdpaInputs<T>& inputs, TensorView<T> o,
                   TensorView<T> lse);
template <class T>
Status run_backward(const SdpaRun& run, const SdpaInputs<T>& inputs,
                    const SdpaForwardResults<T>& forward, SdpaGradients<T> out);

// Pointers, strides and overlaps.
template <class T>
Status check_forward(const SdpaInputs<T>& inputs, const TensorView<T>& o,
                     const TensorView<T>& lse) {
  TensorCheck check;
  check.input<T>("Q", inputs.q);
  check.input<T>("K", inputs.k);
  check.input<T>("V", inputs.v);
  check.input<T>("bias", inputs.bias);
  if (o.data != nullptr) check.output<T>("O", o);
  if (lse.data != nullptr) check.output<T>("LSE", lse);
  return check.status();
}

template <class T>
Status check_backward(const SdpaInputs<T>& inputs, const SdpaForwardResults<T>& forward,
                      const SdpaGradients<T>& gradients) {
  const SdpaSet set = gradients.set();
  TensorCheck check;
  check.input<T>("Q", inputs.q);
  check.input<T>("K", inputs.k);
  check.input<T>("V", inputs.v);
  check.input<T>("bias", inputs.bias);
  check.input<T>("dO", forward.d_o);
  if (forward.o.data != nullptr || set.delta()) check.input<T>("O", forward.o);
  if (forward.lse.data != nullptr || !set.is_empty()) check.input<T>("LSE", forward.lse);
  if (set.dQ) check.output<T>("dQ", gradients.dq);
  if (set.dK) check.output<T>("dK", gradients.dk);
  if (set.dV) check.output<T>("dV", gradients.dv);
  if (set.dBias) check.output<T>("dBias", gradients.d_bias);
  return check.status();
}

}  // namespace ioattn::api
