#pragma once

#include "base/gradients.hpp"
#include "base/status.hpp"
#include "schedules/task.hpp"

namespace ioattn::schedules {

// A set of gradients, validated, sizes at least 1. An observer makes it sequential.
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

// The phases of base/gradients.hpp, one after the other; what several need, S, delta, h or G and U,
// is computed once and passes through memory. dX alone is left to a backward schedule. The only
// failures are of memory; outputs are untouched then. Cost: theory::gradients_cost.
template <class T>
Status layer_gradients(const GradientTask<T>& task);

}  // namespace ioattn::schedules
