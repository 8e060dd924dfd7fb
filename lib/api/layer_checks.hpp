#pragma once

#include <algorithm>

#include "api/validate.hpp"
#include "kernels/registry.hpp"
#include "machine/machine.hpp"

// What the calls on a layer have in common.
namespace ioattn::api {

inline Status kernels_of(Isa isa, const kernels::Kernels** kernels) {
  *kernels = kernels::find_kernels(isa);
  if (*kernels == nullptr || !machine::this_machine().isa.has(isa)) {
    return Status::error(StatusCode::unsupported, "the plan's ISA %s is not available here",
                         name_of(isa));
  }
  return Status::ok();
}

template <class T>
Status check_inputs(const LayerInputs<T>& inputs, const LayerShape& shape, ArgumentCheck* check) {
  const Status valid = validate_shape(shape);
  if (!valid.is_ok()) return valid;
  check->input<T>("A1", inputs.a1, shape.n, shape.d);
  check->input<T>("A2", inputs.a2, shape.m, shape.d);
  check->input<T>("A3", inputs.a3, shape.m, shape.d);
  check->input<T>("X", inputs.x, shape.d, shape.d);
  check->input<T>("Y", inputs.y, shape.d, shape.dv);
  return Status::ok();
}

// O and LSE of the forward pass: those that are given have to be valid, whether or not the plan
// takes them.
template <class T>
void check_forward_results(bool taken, MatrixView<const T> o, const T* lse, const LayerShape& shape,
                           ArgumentCheck* check) {
  if (!taken && o.data == nullptr && lse == nullptr) return;
  check->input<T>("O", o, shape.n, shape.dv);
  check->input<T>("LSE", {lse, 1, shape.n, shape.n}, 1, shape.n);
}

template <class T>
void fill(MatrixView<T> view, T value) {
  for (index_t i = 0; i < view.rows; ++i) std::fill_n(view.row(i), view.cols, value);
}

}  // namespace ioattn::api
