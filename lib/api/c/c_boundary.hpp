#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "api/checks/validate.hpp"
#include "api/run_options.hpp"
#include "base/gradients.hpp"
#include "base/layer_inputs.hpp"
#include "ioattn/ioattn.h"
#include "parallel/floating_point.hpp"
#include "parallel/uncancelled.hpp"

// Between the C functions and the library: statuses, exceptions, and what callers may get wrong.
namespace ioattn::api {

// Keeps the message of a failure for ioattn_last_error().
ioattn_status report(const Status& status);
const char* last_error_message();

// Runs the body of a C function: nothing is thrown to the caller, whose floating-point environment
// neither changes nor has a say in plans and results.
template <class Body>
ioattn_status guarded(Body&& body) noexcept {
  const parallel::Uncancelled to_the_end;
  const parallel::DefaultFloatingPoint environment;
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(Status::error(StatusCode::out_of_memory, "out of memory"));
  } catch (...) {
    return report(Status::error(StatusCode::internal, "unexpected exception"));
  }
}

// Callers in C may pass any number; in C++ one outside an enumeration's range must not be loaded.
template <class Enum>
int number_of(const Enum& value) {
  static_assert(sizeof value == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

// An argument that the caller's version of the header describes as this one does.
template <class S>
Status check_struct(const S* argument, const char* name, const char* type) {
  if (argument == nullptr) {
    return Status::error(StatusCode::invalid_argument, "%s is null", name);
  }
  if (argument->struct_size == sizeof(S)) return Status::ok();
  return Status::error(StatusCode::invalid_argument, "%s: struct_size is not sizeof(%s)", name,
                       type);
}

template <class T>
MatrixView<const T> input(const void* data, int64_t rows, int64_t cols, int64_t stride) {
  return {static_cast<const T*>(data), rows, cols, stride == 0 ? cols : stride};
}
template <class T>
MatrixView<T> output(void* data, int64_t rows, int64_t cols, int64_t stride) {
  return {static_cast<T*>(data), rows, cols, stride == 0 ? cols : stride};
}

constexpr int64_t widest_window = int64_t(1) << 60;

// The mask of a problem or a shape, which check_mask has found valid.
template <class Described>
Mask mask_of(const Described& p) {
  const int kind = number_of(p.mask);
  if (kind == IOATTN_MASK_NONE) return {};
  const bool bottom_right =
      kind == IOATTN_MASK_CAUSAL_BOTTOM_RIGHT || kind == IOATTN_MASK_WINDOW_BOTTOM_RIGHT;
  // Sizes beyond the widest window are refused later; until then nothing may overflow.
  const index_t diagonal =
      bottom_right ? std::clamp<index_t>(p.m - p.n, -widest_window, widest_window) : 0;
  const bool causal =
      kind == IOATTN_MASK_CAUSAL_TOP_LEFT || kind == IOATTN_MASK_CAUSAL_BOTTOM_RIGHT;
  return causal ? window(diagonal, -1, 0) : window(diagonal, p.window_left, p.window_right);
}
template <class Described>
Status check_mask(const Described& p) {
  const int kind = number_of(p.mask);
  if (kind < IOATTN_MASK_NONE || kind > IOATTN_MASK_WINDOW_BOTTOM_RIGHT) {
    return invalid("mask is unknown");
  }
  if (kind < IOATTN_MASK_WINDOW_TOP_LEFT) return Status::ok();
  if (p.window_left < -1 || p.window_right < -1 || p.window_left > widest_window ||
      p.window_right > widest_window) {
    return invalid("window_left and window_right are -1 or at most 2^60");
  }
  return Status::ok();
}

template <class T>
LayerInputs<T> inputs_of(const ioattn_layer_problem& p) {
  return {input<T>(p.a1, p.n, p.d, p.a1_stride),
          input<T>(p.a2, p.m, p.d, p.a2_stride),
          input<T>(p.a3, p.m, p.d, p.a3_stride),
          input<T>(p.x, p.d, p.d, p.x_stride),
          input<T>(p.y, p.d, p.dv, p.y_stride),
          mask_of(p),
          p.scale == 0 ? 1 : p.scale,
          p.batch == 0 ? 1 : p.batch};
}

// Which gradients there is memory for: gradients_of(...).set() without the types.
inline GradientSet set_of(const ioattn_layer_gradients& g, DType dtype) {
  GradientSet set;
  set.dX = g.dx != nullptr;
  set.dY = g.dy != nullptr;
  set.dA1 = g.da1 != nullptr;
  set.dA2 = g.da2 != nullptr;
  set.dA3 = g.da3 != nullptr;
  set.dA = g.da != nullptr;
  set.dW_Q = g.dk != 0 && g.dw_q != nullptr;
  set.dW_K = g.dk != 0 && g.dw_k != nullptr;
  set.dk = set.dW_Q || set.dW_K ? g.dk : 0;
  set.in_f32 = is_half(dtype) && g.in_f32 != 0;
  return set;
}

template <class G, class S>
LayerGradients<G, S> gradients_of(const ioattn_layer_problem& p, const ioattn_layer_gradients& g) {
  LayerGradients<G, S> out;
  out.dx = output<G>(g.dx, p.d, p.d, g.dx_stride);
  out.dy = output<G>(g.dy, p.d, p.dv, g.dy_stride);
  out.da1 = output<G>(g.da1, p.n, p.d, g.da1_stride);
  out.da2 = output<G>(g.da2, p.m, p.d, g.da2_stride);
  out.da3 = output<G>(g.da3, p.m, p.d, g.da3_stride);
  out.da = output<G>(g.da, p.m, p.d, g.da_stride);
  if (g.dk == 0) return out;
  out.dw_q = output<G>(g.dw_q, p.d, g.dk, g.dw_q_stride);
  out.dw_k = output<G>(g.dw_k, p.d, g.dk, g.dw_k_stride);
  out.w_q = input<S>(g.w_q, p.d, g.dk, g.w_q_stride);
  out.w_k = input<S>(g.w_k, p.d, g.dk, g.w_k_stride);
  return out;
}

// Known by its number alone, which in C may be any.
Status pass_of(const ioattn_pass& given, Pass* pass);
// Of n queries and m keys.
Status tie_of(const ioattn_tie& given, int64_t n, int64_t m, Tie* tie);
Status check_dtype(const ioattn_dtype& dtype);
DType dtype_of_number(const ioattn_dtype& dtype);  // that check_dtype has found valid
Status check_problem(const ioattn_layer_problem* problem);
Status check_gradients(const ioattn_layer_gradients* gradients, DType dtype, int64_t d);
Status run_options(const ioattn_options* options, RunOptions* run);

}  // namespace ioattn::api
