#pragma once

#include "base/layer_inputs.hpp"
#include "base/observer.hpp"
#include "base/status.hpp"
#include "plan/plan.hpp"

// The layer problem for C++ callers inside the project: the C functions, the command, tests, bench.
namespace ioattn::api {

using ioattn::LayerInputs;
using ioattn::shape_of;

// Runs one pass as planned. Checks pointers, sizes, strides and overlaps first; on any failure the
// outputs are untouched. An observer makes the run sequential. o [n, dv] or lse [n] may be null:
// not wanted. At most `threads` run; the result does not depend on how many.
template <class T>
Status layer_forward(const LayerInputs<T>& inputs, const plan::Plan& plan, int threads,
                     Observer* observer, MatrixView<T> o, T* lse);

// o and lse are those of the forward pass; schedules that compute them themselves (naive,
// paper_small, resident) accept null for both and ignore the values.
template <class T>
Status layer_backward(const LayerInputs<T>& inputs, MatrixView<const T> d_o, MatrixView<const T> o,
                      const T* lse, const plan::Plan& plan, int threads, Observer* observer,
                      MatrixView<T> dx);

// Whether the schedule's backward pass takes O and LSE as inputs.
bool takes_forward_results(Schedule schedule);

}  // namespace ioattn::api
