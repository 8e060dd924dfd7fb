#pragma once

#include "base/half.hpp"
#include "base/layer_inputs.hpp"
#include "base/problem.hpp"

// The types that calls are instantiated for: of its arrays, and of those and its gradients.
#define IOATTN_FOR_ARRAY_TYPES(INSTANTIATE) \
  INSTANTIATE(float);                       \
  INSTANTIATE(double);                      \
  INSTANTIATE(bf16);                        \
  INSTANTIATE(f16)
#define IOATTN_FOR_GRADIENT_TYPES(INSTANTIATE) \
  INSTANTIATE(float, float);                   \
  INSTANTIATE(double, double);                 \
  INSTANTIATE(bf16, bf16);                     \
  INSTANTIATE(bf16, float);                    \
  INSTANTIATE(f16, f16);                       \
  INSTANTIATE(f16, float)

namespace ioattn::api {

// f(S(), G()) for the types of a problem's arrays and of its gradients.
template <class F>
auto with_gradient_types(DType dtype, bool in_f32, const F& f) {
  return with_dtype(dtype, [&](auto zero) {
    using S = decltype(zero);
    if constexpr (is_half_storage<S>) {
      if (in_f32) return f(zero, float());
    }
    return f(zero, zero);
  });
}

template <class T>
LayerProblem problem_of(const LayerInputs<T>& inputs) {
  return {shape_of(inputs), dtype_of<T>::value, inputs.batch, inputs.scale};
}

}  // namespace ioattn::api
