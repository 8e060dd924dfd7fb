#include <vector>

#include "api/c_boundary.hpp"
#include "api/sdpa.hpp"
#include "api/tensor_check.hpp"
#include "base/checked_size.hpp"
#include "schedules/merge.hpp"

namespace {

using namespace ioattn;
using namespace ioattn::api;

// Heads of rows x cols in C order, where strides are null or 0. What overflows is no memory that a
// caller has; as the largest number it is refused.
index_t stride_or(index_t given, index_t count, index_t inner) {
  if (given != 0) return given;
  const CheckedSize product = CheckedSize(count) * CheckedSize(inner);
  return product.overflow() ? INT64_MAX : product.value();
}

template <class T>
TensorView<T> tensor(T* data, index_t batch, index_t heads, index_t rows, index_t cols,
                     const int64_t* stride) {
  TensorView<T> view = {data, batch, heads, rows, cols, 0, 0, 0};
  view.row_stride = stride_or(stride != nullptr ? stride[2] : 0, 1, cols);
  view.head_stride = stride_or(stride != nullptr ? stride[1] : 0, rows, view.row_stride);
  view.batch_stride = stride_or(stride != nullptr ? stride[0] : 0, heads, view.head_stride);
  return view;
}

// LSE: a head is one row.
template <class T>
TensorView<T> vectors(T* data, index_t batch, index_t heads, index_t n, const int64_t* stride) {
  const int64_t strides[3] = {stride != nullptr ? stride[0] : 0, stride != nullptr ? stride[1] : 0,
                              n};
  return tensor(data, batch, heads, 1, n, strides);
}

Status check_dtype(const ioattn_dtype& dtype) {
  const int number = number_of(dtype);
  if (number == IOATTN_F32 || number == IOATTN_F64) return Status::ok();
  return invalid("dtype is neither IOATTN_F32 nor IOATTN_F64");
}

DType dtype_of_number(const ioattn_dtype& dtype) {
  return number_of(dtype) == IOATTN_F32 ? DType::f32 : DType::f64;
}

// Query i is query i + q_offset of a longer sequence, key j is key j + k_offset.
Mask shifted(Mask mask, index_t offset) {
  if (mask.first > -Mask::unbounded) mask.first += offset;
  if (mask.last < Mask::unbounded) mask.last += offset;
  return mask;
}

Status problem_of(const ioattn_sdpa_problem* p, SdpaProblem* problem) {
  constexpr int64_t farthest = int64_t(1) << 59;
  if (p == nullptr) return invalid("problem is null");
  if (p->struct_size != sizeof *p) {
    return invalid("problem: struct_size is not sizeof(ioattn_sdpa_problem)");
  }
  if (const Status known = check_dtype(p->dtype); !known.is_ok()) return known;
  if (p->q_offset < -farthest || p->q_offset > farthest || p->k_offset < -farthest ||
      p->k_offset > farthest) {
    return invalid("q_offset and k_offset are from -2^59 to 2^59");
  }
  problem->shape = {p->batch, p->heads, p->kv_heads, p->n, p->m, p->d, p->dv, {}};
  problem->dtype = dtype_of_number(p->dtype);
  problem->scale = p->scale;
  Status status = validate_problem(*problem);
  if (status.is_ok()) status = check_mask(*p);
  if (status.is_ok()) problem->shape.mask = shifted(mask_of(*p), p->q_offset - p->k_offset);
  return status;
}

template <class T>
SdpaInputs<T> inputs_of(const ioattn_sdpa_problem& p) {
  const auto head = [&](const void* data, index_t heads, index_t rows, index_t cols,
                        const int64_t* stride) {
    return tensor(static_cast<const T*>(data), p.batch, heads, rows, cols, stride);
  };
  return {head(p.q, p.heads, p.n, p.d, p.q_stride), head(p.k, p.kv_heads, p.m, p.d, p.k_stride),
          head(p.v, p.kv_heads, p.m, p.dv, p.v_stride)};
}

Status check_gradients(const ioattn_sdpa_gradients* gradients) {
  if (gradients == nullptr) return invalid("gradients is null");
  if (gradients->struct_size == sizeof *gradients) return Status::ok();
  return invalid("gradients: struct_size is not sizeof(ioattn_sdpa_gradients)");
}

template <class T>
SdpaGradients<T> gradients_of(const ioattn_sdpa_problem& p, const ioattn_sdpa_gradients& g) {
  SdpaGradients<T> out;
  out.dq = tensor(static_cast<T*>(g.dq), p.batch, p.heads, p.n, p.d, g.dq_stride);
  out.dk = tensor(static_cast<T*>(g.dk), p.batch, p.kv_heads, p.m, p.d, g.dk_stride);
  out.dv = tensor(static_cast<T*>(g.dv), p.batch, p.kv_heads, p.m, p.dv, g.dv_stride);
  out.accumulate = g.accumulate != 0;
  return out;
}

struct Merged {
  void* o;
  const int64_t* o_stride;
  void* lse;
  const int64_t* lse_stride;
};

template <class T>
Status merge_parts(const ioattn_merge_shape& s, const ioattn_partial* parts, int64_t count,
                   int threads, const Merged& out) {
  const TensorView<T> lse =
      vectors(static_cast<T*>(out.lse), s.batch, s.heads, s.n, out.lse_stride);
  TensorView<T> o = tensor(static_cast<T*>(out.o), s.batch, s.heads, s.n, s.dv, out.o_stride);
  TensorCheck check;
  if (o.data != nullptr) check.output<T>("O", o);
  if (lse.data != nullptr) check.output<T>("LSE", lse);
  std::vector<schedules::Partial<T>> partials;
  for (int64_t k = 0; k < count; ++k) {
    const ioattn_partial& part = parts[k];
    partials.push_back(
        {tensor(static_cast<const T*>(part.o), s.batch, s.heads, s.n, s.dv, part.o_stride),
         vectors(static_cast<const T*>(part.lse), s.batch, s.heads, s.n, part.lse_stride)});
    if (o.data != nullptr) check.input<T>("O of a part", partials.back().o);
    check.input<T>("LSE of a part", partials.back().lse);
  }
  if (!check.status().is_ok()) return check.status();
  if (s.dv == 0) o.data = nullptr;
  if (o.data != nullptr || lse.data != nullptr) {
    schedules::merge<T>(partials, threads, o, lse);
  }
  return Status::ok();
}

Status check_shape(const ioattn_merge_shape* s) {
  if (s == nullptr) return invalid("shape is null");
  if (s->struct_size != sizeof *s) {
    return invalid("shape: struct_size is not sizeof(ioattn_merge_shape)");
  }
  if (const Status known = check_dtype(s->dtype); !known.is_ok()) return known;
  return validate_problem(SdpaProblem{
      {s->batch, s->heads, s->heads, s->n, 1, 1, s->dv, {}}, dtype_of_number(s->dtype), 1});
}

}  // namespace

ioattn_status ioattn_sdpa_forward(const ioattn_sdpa_problem* problem, const ioattn_options* options,
                                  void* o, const int64_t* o_stride, void* lse,
                                  const int64_t* lse_stride) {
  return guarded([&] {
    RunOptions run;
    SdpaProblem planned;
    plan::SdpaPlan plan;
    Status status = problem_of(problem, &planned);
    if (status.is_ok()) status = run_options(options, &run);
    if (status.is_ok()) status = plan_sdpa(planned, run, &plan);
    if (!status.is_ok()) return status;
    const SdpaShape& s = planned.shape;
    const auto forward = [&](auto zero) {
      using T = decltype(zero);
      return sdpa_forward<T>(planned, inputs_of<T>(*problem), plan, threads_for(planned, run),
                             nullptr,
                             tensor(static_cast<T*>(o), s.batch, s.heads, s.n, s.dv, o_stride),
                             vectors(static_cast<T*>(lse), s.batch, s.heads, s.n, lse_stride));
    };
    return planned.dtype == DType::f32 ? forward(float()) : forward(double());
  });
}

ioattn_status ioattn_sdpa_backward(const ioattn_sdpa_problem* problem,
                                   const ioattn_options* options, const void* d_o,
                                   const int64_t* d_o_stride, const void* o,
                                   const int64_t* o_stride, const void* lse,
                                   const int64_t* lse_stride,
                                   const ioattn_sdpa_gradients* gradients) {
  return guarded([&] {
    RunOptions run;
    SdpaProblem planned;
    Status status = problem_of(problem, &planned);
    if (status.is_ok()) status = run_options(options, &run);
    if (status.is_ok()) status = check_gradients(gradients);
    if (!status.is_ok()) return status;
    const SdpaShape& s = planned.shape;
    const auto backward = [&](auto zero) {
      using T = decltype(zero);
      const SdpaGradients<T> out = gradients_of<T>(*problem, *gradients);
      plan::SdpaPlan plan;
      const Status made = plan_sdpa(planned, out.set(), run, &plan);
      if (!made.is_ok()) return made;
      const SdpaForwardResults<T> results = {
          tensor(static_cast<const T*>(d_o), s.batch, s.heads, s.n, s.dv, d_o_stride),
          tensor(static_cast<const T*>(o), s.batch, s.heads, s.n, s.dv, o_stride),
          vectors(static_cast<const T*>(lse), s.batch, s.heads, s.n, lse_stride)};
      return sdpa_backward<T>(planned, inputs_of<T>(*problem), results, plan,
                              threads_for(planned, run), nullptr, out);
    };
    return planned.dtype == DType::f32 ? backward(float()) : backward(double());
  });
}

ioattn_status ioattn_merge(const ioattn_merge_shape* shape, const ioattn_options* options,
                           const ioattn_partial* parts, int64_t count, void* o,
                           const int64_t* o_stride, void* lse, const int64_t* lse_stride) {
  return guarded([&] {
    RunOptions run;
    Status status = check_shape(shape);
    if (status.is_ok()) status = run_options(options, &run);
    if (status.is_ok() && (count < 0 || (count > 0 && parts == nullptr))) {
      status = invalid(count < 0 ? "count is negative" : "parts is null");
    }
    if (!status.is_ok()) return status;
    const Merged out = {o, o_stride, lse, lse_stride};
    const int threads = granted_threads(run.threads);
    return number_of(shape->dtype) == IOATTN_F32
               ? merge_parts<float>(*shape, parts, count, threads, out)
               : merge_parts<double>(*shape, parts, count, threads, out);
  });
}
