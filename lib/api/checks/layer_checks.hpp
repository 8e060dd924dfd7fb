#pragma once

#include <algorithm>

#include "api/checks/matrix_check.hpp"
#include "api/checks/validate.hpp"

// What the calls on a layer have in common.
namespace ioattn::api {

inline Status no_memory(index_t bytes) {
  return Status::error(StatusCode::out_of_memory, "no memory for %lld bytes",
                       static_cast<long long>(bytes));
}

// All rows of a batch whose first entry is given.
template <class T>
MatrixView<T> of_batch(MatrixView<T> entry, index_t batch) {
  entry.rows *= batch;
  return entry;
}

template <class T>
Status check_inputs(const LayerInputs<T>& inputs, const LayerShape& shape, MatrixCheck* check) {
  const Status valid = validate_problem({shape, dtype_of<T>::value, inputs.batch, inputs.scale});
  if (!valid.is_ok()) return valid;
  const index_t batch = inputs.batch;
  check->input<T>("A1", of_batch(inputs.a1, batch), batch * shape.n, shape.d);
  check->input<T>("A2", of_batch(inputs.a2, batch), batch * shape.m, shape.d);
  check->input<T>("A3", of_batch(inputs.a3, batch), batch * shape.m, shape.d);
  check->input<T>("X", inputs.x, shape.d, shape.d);
  check->input<T>("Y", inputs.y, shape.d, shape.dv);
  return Status::ok();
}

// O and LSE of the forward pass: those that are given have to be valid, whether or not the plan
// takes them.
template <class S>
void check_forward_results(bool taken, MatrixView<const S> o, const Compute<S>* lse,
                           const LayerShape& shape, index_t batch, MatrixCheck* check) {
  if (!taken && o.data == nullptr && lse == nullptr) return;
  const index_t rows = batch * shape.n;
  check->input<S>("O", of_batch(o, batch), rows, shape.dv);
  check->input<Compute<S>>("LSE", {lse, 1, rows, rows}, 1, rows);
}

template <class T>
void fill(const MatrixView<T>& view, T value) {
  for (index_t i = 0; i < view.rows; ++i) std::fill_n(view.row(i), view.cols, value);
}

}  // namespace ioattn::api
