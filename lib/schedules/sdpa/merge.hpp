#pragma once

#include <span>

#include "base/tensor_view.hpp"

namespace ioattn::schedules {

// O and LSE over some of the keys: o [batch, heads, n, dv], lse [batch, heads, 1, n].
template <class S>
struct Partial {
  TensorView<const S> o;
  TensorView<const Compute<S>> lse;
};

// LSE = log sum_k e^LSE_k and O = sum_k e^(LSE_k - LSE) O_k, in the order of the parts; of O in 16
// bits in f32, rounded once. A part that saw no key of a row (LSE = -inf) is not read there. Null
// data of o or lse: not wanted. Needs no memory; results do not depend on the number of threads.
template <class S>
void merge(std::span<const Partial<S>> parts, int threads, const TensorView<S>& o,
           const TensorView<Compute<S>>& lse);

}  // namespace ioattn::schedules
