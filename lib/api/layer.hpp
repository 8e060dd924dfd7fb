#pragma once

#include "base/matrix_view.hpp"
#include "base/observer.hpp"
#include "base/problem.hpp"
#include "base/status.hpp"
#include "plan/plan.hpp"

// The layer problem for C++ callers inside the project (the C functions, the command, tests, bench).
namespace ioattn::api {

template <class T>
struct LayerInputs {
  MatrixView<const T> a1;  // [n, d]
  MatrixView<const T> a2;  // [m, d]
  MatrixView<const T> a3;  // [m, d]
  MatrixView<const T> x;   // [d, d]
  MatrixView<const T> y;   // [d, dv]
};

// Sizes and ties (same pointer and stride = same memory) of the inputs.
template <class T>
LayerShape shape_of(const LayerInputs<T>& inputs);

// Checks pointers, sizes, strides and overlaps; touches nothing.
template <class T>
Status validate_forward(const LayerInputs<T>& inputs, MatrixView<T> o, const T* lse);
template <class T>
Status validate_backward(const LayerInputs<T>& inputs, MatrixView<const T> d_o,
                         MatrixView<const T> o, const T* lse, MatrixView<T> dx);

// Runs one pass as planned. An observer makes the run sequential. o [n, dv] or lse [n] may be null
// (data == nullptr): not wanted. `threads` is what the caller grants; fewer may run.
template <class T>
Status layer_forward(const LayerInputs<T>& inputs, const plan::Plan& plan, int threads,
                     Observer* observer, MatrixView<T> o, T* lse);

// o and lse are those of the forward pass; schedules that compute them themselves (naive,
// paper_small) ignore them and accept null.
template <class T>
Status layer_backward(const LayerInputs<T>& inputs, MatrixView<const T> d_o, MatrixView<const T> o,
                      const T* lse, const plan::Plan& plan, int threads, Observer* observer,
                      MatrixView<T> dx);

}  // namespace ioattn::api
