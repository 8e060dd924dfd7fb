#pragma once

#include "base/sdpa.hpp"
#include "base/status.hpp"
#include "schedules/task.hpp"

// The SDPA problem by the passes of the layer problem: S := scale Q, A2 := K, h := V. Heads, and
// rows or keys within a head, are shared out to the threads.
namespace ioattn::schedules {

// Validated, sizes at least 1 but d. An observer makes it sequential.
template <class T>
struct SdpaForwardTask {
  SdpaShape shape;
  SdpaInputs<T> in;
  T scale = 1;
  TensorView<T> o;    // null data: not wanted
  TensorView<T> lse;  // a head is a row of n; null data: not wanted
  Blocks blocks;      // row_stream, form h, stored
  const kernels::KernelTable<T>* kernels = nullptr;
  int threads = 1;
  Observer* observer = nullptr;
  CallerMemory* memory = nullptr;  // for the workspace; null: the heap
};

template <class T>
struct SdpaBackwardTask {
  SdpaShape shape;
  SdpaInputs<T> in;
  T scale = 1;
  TensorView<const T> d_o, o, lse;  // o is not read for dV alone
  SdpaGradients<T> out;
  SdpaBlocks blocks;
  const kernels::KernelTable<T>* kernels = nullptr;
  int threads = 1;
  Observer* observer = nullptr;
  CallerMemory* memory = nullptr;
};

// Phase "row_stream". The only failures are of memory; outputs are untouched then. Cost:
// theory::sdpa_forward_cost. Workspace: O(1) in n and m per thread.
template <class T>
Status sdpa_forward(const SdpaForwardTask<T>& task);

// Phases "delta", "row_stream" for dQ and dBias, "col_stream" for dK and dV, which sum over the
// query heads of a group in ascending order, as dBias does over the heads that share a bias. Cost:
// theory::sdpa_backward_cost. Workspace: delta besides.
template <class T>
Status sdpa_backward(const SdpaBackwardTask<T>& task);

}  // namespace ioattn::schedules
