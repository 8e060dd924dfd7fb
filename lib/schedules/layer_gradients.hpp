#pragma once

#include "base/gradients.hpp"
#include "base/status.hpp"
#include "schedules/task.hpp"

namespace ioattn::schedules {

// A set of gradients, validated, sizes at least 1. Views are of the first entry of a batch, the
// others follow row by row. An observer makes it sequential.
template <class T>
struct GradientTask {
  LayerShape shape;
  LayerInputs<T> in;
  MatrixView<const T> d_o;  // [n, dv]
  MatrixView<const T> o;    // [n, dv], of the forward pass
  const T* lse = nullptr;   // [n], of the forward pass
  LayerGradients<T> out;
  GradientBlocks blocks;
  const kernels::KernelTable<T>* kernels = nullptr;
  int threads = 1;
  Observer* observer = nullptr;
  CallerMemory* memory = nullptr;  // for the workspace; null: the heap
};

// Entry by entry; dX and dY are summed in ascending order of the entries, in phase "batch", dW_Q
// and dW_K are products of the sum. A scale is taken into a copy of X and, at the end, into dX, in
// phase "scale". The only failures are of memory; outputs are untouched then. Cost:
// theory::gradients_cost.
template <class T>
Status layer_gradients(const GradientTask<T>& task);

}  // namespace ioattn::schedules
