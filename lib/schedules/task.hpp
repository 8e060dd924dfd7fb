#pragma once

#include "base/layer_inputs.hpp"
#include "base/observer.hpp"
#include "base/overflow_counts.hpp"
#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"

namespace ioattn::schedules {

class CallerMemory;  // memory/workspace.hpp

// How a task is executed, on which its results do not depend.
template <class T>
struct Execution {
  const kernels::KernelTable<T>* kernels = nullptr;
  int threads = 1;
  Observer* observer = nullptr;         // if not null, makes it sequential
  CallerMemory* memory = nullptr;       // for the workspace; null: the heap
  OverflowCounts* overflows = nullptr;  // of results that are rounded; null: nobody counts

  int workers() const { return observer != nullptr ? 1 : threads; }
};

// One forward or backward pass, validated, sizes at least 1. S: of the operands (storage.hpp).
template <class S>
struct ForwardTask : Execution<Compute<S>> {
  using T = Compute<S>;
  LayerShape shape;
  LayerInputs<S> in;
  MatrixView<S> o;   // [n, dv]
  T* lse = nullptr;  // [n]
  Blocks blocks;
};

template <class S>
struct BackwardTask : Execution<Compute<S>> {
  using T = Compute<S>;
  LayerShape shape;
  LayerInputs<S> in;
  MatrixView<const S> d_o;  // [n, dv]
  MatrixView<const S> o;    // [n, dv], of the forward pass
  const T* lse = nullptr;   // [n], of the forward pass
  MatrixView<T> dx;         // [d, d]
  Blocks blocks;
};

}  // namespace ioattn::schedules
