#pragma once

#include "base/status.hpp"
#include "schedules/task.hpp"

// The loop nests. Each file is one schedule; README.md says what stays in fast memory and where its
// exact costs are.
namespace ioattn::schedules {

// Runs a validated task (sizes at least 1, blocks positive); forward, all entries of a batch and
// any scale, backward one entry, unscaled (layer_gradients.hpp has the rest). The only failures are
// of memory; outputs are untouched then. Operands in 16 bits are for schedules that take them
// (takes_dtype).
template <class S>
Status run_forward(Schedule schedule, const ForwardTask<S>& task);
template <class S>
Status run_backward(Schedule schedule, const BackwardTask<S>& task);

template <class S>
Status row_stream_forward(const ForwardTask<S>& task);
// row_stream, q_stored, half_dim
template <class S>
Status rows_backward(Schedule schedule, const BackwardTask<S>& task);
// Also score_stored, which differs in its blocks alone.
template <class T>
Status stationary_forward(const ForwardTask<T>& task);
template <class T>
Status stationary_backward(const BackwardTask<T>& task);
template <class T>
Status weight_resident_backward(const BackwardTask<T>& task);
// Also of bf16, by pairs.
template <class S>
Status tile_fused_forward(const ForwardTask<S>& task);
template <class S>
Status tile_fused_backward(const BackwardTask<S>& task);
template <class T>
Status resident_backward(const BackwardTask<T>& task);
template <class T>
Status paper_small_forward(const ForwardTask<T>& task);
template <class T>
Status paper_small_backward(const BackwardTask<T>& task);
template <class T>
Status paper_large_forward(const ForwardTask<T>& task);
template <class T>
Status paper_large_backward(const BackwardTask<T>& task);
template <class T>
Status naive_backward(const BackwardTask<T>& task);

}  // namespace ioattn::schedules
