#pragma once

#include "base/sdpa.hpp"
#include "base/status.hpp"
#include "schedules/task.hpp"

// The SDPA problem by the passes of the layer problem: S := scale Q, A2 := K, h := V. Heads, and
// rows or keys within a head, are shared out to the threads.
namespace ioattn::schedules {

// Validated, sizes at least 1 but d. Operands stored in 16 bits are computed with in f32, in which
// LSE is: sums are f32 from the first term to the last, and results are rounded once.
template <class S>
struct SdpaForwardTask : Execution<Compute<S>> {
  using T = Compute<S>;
  SdpaShape shape;
  SdpaInputs<S> in;
  T scale = 1;
  TensorView<S> o;    // null data: not wanted
  TensorView<T> lse;  // a head is a row of n; null data: not wanted
  Blocks blocks;      // row_stream, form h, stored, or tile_fused (forward_schedule)
};

template <class S>
struct SdpaBackwardTask : Execution<Compute<S>> {
  using T = Compute<S>;
  SdpaShape shape;
  SdpaInputs<S> in;
  T scale = 1;
  TensorView<const S> d_o, o;  // o is not read for dV alone
  TensorView<const T> lse;
  SdpaGradients<T> out;
  SdpaGradients<S> rounded;  // in 16 bits, instead of `out`
  SdpaBlocks blocks;
};

// Phase "row_stream" or "tile_fused". The only failures are of memory; outputs are untouched then.
// Cost: theory::sdpa_forward_cost. Workspace: O(1) in n and m per thread.
template <class S>
Status sdpa_forward(const SdpaForwardTask<S>& task);

// Phases "delta", "row_stream" for dQ and dBias, "col_stream" or "tile_fused" for dK and dV, and
// for dQ on the way, of tiles also alone. dK and dV sum over the query heads of a group in
// ascending order, as dBias does over the heads that share a bias. Cost:
// theory::sdpa_backward_cost. Workspace: delta besides; for gradients in 16 bits, where dQ is made
// on the way, its sums in f32, which phase "round" rounds. Where workers take heads of keys whole
// all phases of one follow each other, and both are kept of those in work alone.
template <class S>
Status sdpa_backward(const SdpaBackwardTask<S>& task);

}  // namespace ioattn::schedules
