#pragma once

#include "base/matrix_view.hpp"
#include "base/problem.hpp"

namespace ioattn {

template <class S>
struct LayerInputs {
  MatrixView<const S> a1;  // [n, d]
  MatrixView<const S> a2;  // [m, d]
  MatrixView<const S> a3;  // [m, d]
  MatrixView<const S> x;   // [d, d]
  MatrixView<const S> y;   // [d, dv]
  Mask mask = {};
  double scale = 1;   // s = scale * A1 X A2^T
  index_t batch = 1;  // entries in A1, A2 and A3: the views are of the first, others follow
  // Of operands in 16 bits: scale * X, which takes the place of X and of the scale; null data:
  // none.
  MatrixView<const Compute<S>> scaled_x = {};
};

template <class T>
bool same_memory(const MatrixView<const T>& p, const MatrixView<const T>& q) {
  return p.data == q.data && p.stride == q.stride && p.rows == q.rows && p.cols == q.cols;
}

// Sizes of the inputs, and which of A1, A2, A3 are the same memory.
template <class T>
LayerShape shape_of(const LayerInputs<T>& inputs) {
  LayerShape shape = {inputs.a1.rows, inputs.a2.rows, inputs.a1.cols,
                      inputs.y.cols,  Tie::none,      inputs.mask};
  if (same_memory(inputs.a2, inputs.a3)) {
    shape.tie = same_memory(inputs.a1, inputs.a2) ? Tie::all : Tie::kv;
  }
  return shape;
}

}  // namespace ioattn
