#pragma once

#include <vector>

#include "api/array_types.hpp"
#include "api/c/c_boundary.hpp"
#include "api/run/sdpa_sequences.hpp"

// c_boundary.hpp for the structures of SDPA.
namespace ioattn::api {

// The stride given, or count * inner for 0.
index_t stride_or(index_t given, index_t count, index_t inner);

// Heads of rows x cols in C order, where strides are null or 0.
template <class T>
TensorView<T> tensor(T* data, index_t batch, index_t heads, index_t rows, index_t cols,
                     const int64_t* stride) {
  TensorView<T> view = {data, batch, heads, rows, cols, 0, 0, 0};
  // Of a dimension of 1 they lead nowhere, whatever they are.
  const auto given = [&](int i, index_t count) {
    return stride != nullptr && count != 1 ? stride[i] : 0;
  };
  view.row_stride = stride_or(given(2, rows), 1, cols);
  view.head_stride = stride_or(given(1, heads), rows, view.row_stride);
  view.batch_stride = stride_or(given(0, batch), heads, view.head_stride);
  return view;
}

// LSE: a head is one row.
template <class T>
TensorView<T> vectors(T* data, index_t batch, index_t heads, index_t n, const int64_t* stride) {
  const int64_t strides[3] = {stride != nullptr ? stride[0] : 0, stride != nullptr ? stride[1] : 0,
                              n};
  return tensor(data, batch, heads, 1, n, strides);
}

// Of the arrays of SDPA.

Status problem_of(const ioattn_sdpa_problem* p, SdpaProblem* problem);

// A packed batch: false for anything that is no problem. Its arrays are those of a problem with one
// batch entry.
bool is_packed(const ioattn_sdpa_problem* p);
ioattn_sdpa_problem unpacked(const ioattn_sdpa_problem& p);
// What arrays are those of.
inline ioattn_sdpa_problem arrays_of(const ioattn_sdpa_problem& p) {
  return is_packed(&p) ? unpacked(p) : p;
}
// Of a packed batch that problem, without a mask, which is that of each sequence; starts are
// checked.
Status packed_problem_of(const ioattn_sdpa_problem& p, SdpaProblem* problem);
// Sequence b of a packed batch that has been checked.
Status sequence_of(const ioattn_sdpa_problem& p, int64_t b, Sequence* sequence);
// Both, of all sequences.
Status sequences_of(const ioattn_sdpa_problem& p, SdpaProblem* problem,
                    std::vector<Sequence>* sequences);

// dbias needs a bias, in_f32 a problem that f32 is not too short for.
Status check_gradients(const SdpaProblem& problem, const ioattn_sdpa_gradients* gradients);

template <class T>
SdpaInputs<T> inputs_of(const ioattn_sdpa_problem& p) {
  const auto head = [&](const void* data, index_t heads, index_t rows, index_t cols,
                        const int64_t* stride) {
    return tensor(static_cast<const T*>(data), p.batch, heads, rows, cols, stride);
  };
  return {
      head(p.q, p.heads, p.n, p.d, p.q_stride), head(p.k, p.kv_heads, p.m, p.d, p.k_stride),
      head(p.v, p.kv_heads, p.m, p.dv, p.v_stride),
      tensor(static_cast<const T*>(p.bias), p.bias_batch, p.bias_heads, p.n, p.m, p.bias_stride)};
}

// Arrays of the caller's.
struct StridedInput {
  const void* data;
  const int64_t* stride;
};
struct StridedOutput {
  void* data;
  const int64_t* stride;
};
struct BackwardInputs {
  StridedInput d_o, o, lse;
};

template <class T>
TensorView<T> o_of(const ioattn_sdpa_problem& p, StridedOutput o) {
  return tensor(static_cast<T*>(o.data), p.batch, p.heads, p.n, p.dv, o.stride);
}
template <class T>
TensorView<Compute<T>> lse_of(const ioattn_sdpa_problem& p, StridedOutput lse) {
  return vectors(static_cast<Compute<T>*>(lse.data), p.batch, p.heads, p.n, lse.stride);
}

template <class T>
SdpaForwardResults<T> results_of(const ioattn_sdpa_problem& p, const BackwardInputs& in) {
  const auto rows = [&](const StridedInput& input) {
    return tensor(static_cast<const T*>(input.data), p.batch, p.heads, p.n, p.dv, input.stride);
  };
  return {
      rows(in.d_o), rows(in.o),
      vectors(static_cast<const Compute<T>*>(in.lse.data), p.batch, p.heads, p.n, in.lse.stride)};
}

// Which gradients there is memory for: gradients_of(...).set() without the types.
inline SdpaSet set_of(const ioattn_sdpa_gradients& g, DType dtype) {
  return {g.dq != nullptr,   g.dk != nullptr,    g.dv != nullptr,
          g.accumulate != 0, g.dbias != nullptr, is_half(dtype) && g.in_f32 != 0};
}
template <class T>
SdpaGradients<T> gradients_of(const ioattn_sdpa_problem& p, const ioattn_sdpa_gradients& g) {
  SdpaGradients<T> out;
  out.dq = tensor(static_cast<T*>(g.dq), p.batch, p.heads, p.n, p.d, g.dq_stride);
  out.dk = tensor(static_cast<T*>(g.dk), p.batch, p.kv_heads, p.m, p.d, g.dk_stride);
  out.dv = tensor(static_cast<T*>(g.dv), p.batch, p.kv_heads, p.m, p.dv, g.dv_stride);
  out.accumulate = g.accumulate != 0;
  out.d_bias =
      tensor(static_cast<T*>(g.dbias), p.bias_batch, p.bias_heads, p.n, p.m, g.dbias_stride);
  return out;
}

}  // namespace ioattn::api
