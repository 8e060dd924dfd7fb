#pragma once

#include "base/gradients.hpp"
#include "base/status.hpp"
#include "schedules/task.hpp"

namespace ioattn::schedules {

// A set of gradients, validated, sizes at least 1. Views are of the first entry of a batch, the
// others follow row by row.
template <class S>
struct GradientTask : Execution<Compute<S>> {
  using T = Compute<S>;
  LayerShape shape;
  LayerInputs<S> in;
  MatrixView<const S> d_o;  // [n, dv]
  MatrixView<const S> o;    // [n, dv], of the forward pass
  const T* lse = nullptr;   // [n], of the forward pass
  LayerGradients<T, S> out;
  // Of operands in 16 bits, instead of those of `out`, of which the weights are taken.
  LayerGradients<S> rounded;
  LayerBlocks blocks;
};

// Entry by entry; dX and dY are summed in ascending order of the entries, in phase "batch", dW_Q
// and dW_K are products of the sum. A scale is taken into a copy of X and, at the end, into dX, in
// phase "scale". Results that are rounded are made in f32 and become 16 bits at the end, in phase
// "round". The only failures are of memory; outputs are untouched then. Cost:
// theory::gradients_cost.
template <class S>
Status layer_gradients(const GradientTask<S>& task);

}  // namespace ioattn::schedules
