#include <limits>
#include <span>
#include <vector>

#include "api/sdpa_boundary.hpp"
#include "api/tensor_check.hpp"
#include "schedules/merge.hpp"

namespace {

using namespace ioattn;
using namespace ioattn::api;

struct Merged {
  void* o;
  const int64_t* o_stride;
  void* lse;
  const int64_t* lse_stride;
};

template <class T>
Status merge_parts(const ioattn_merge_shape& s, std::span<const ioattn_partial> parts, int threads,
                   const Merged& out) {
  using C = Compute<T>;
  const TensorView<C> lse =
      vectors(static_cast<C*>(out.lse), s.batch, s.heads, s.n, out.lse_stride);
  TensorView<T> o = tensor(static_cast<T*>(out.o), s.batch, s.heads, s.n, s.dv, out.o_stride);
  TensorCheck check;
  if (o.data != nullptr) check.output<T>("O", o);
  if (lse.data != nullptr) check.output<C>("LSE", lse);
  std::vector<schedules::Partial<T>> partials;
  for (const ioattn_partial& part : parts) {
    partials.push_back(
        {tensor(static_cast<const T*>(part.o), s.batch, s.heads, s.n, s.dv, part.o_stride),
         vectors(static_cast<const C*>(part.lse), s.batch, s.heads, s.n, part.lse_stride)});
    if (o.data != nullptr) check.input<T>("O of a part", partials.back().o);
    check.input<C>("LSE of a part", partials.back().lse);
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

struct StridedOutput {
  void* data;
  const int64_t* stride;
};

// What the two passes over packed sequences check alike.
Status packed_problem(const ioattn_sdpa_problem& problem, const ioattn_options* options,
                      RunOptions* run, std::vector<Sequence>* sequences) {
  const Status status = sequences_of(problem, sequences);
  return status.is_ok() ? run_options(options, run) : status;
}

Status forward_packed(const ioattn_sdpa_problem& problem, const ioattn_options* options,
                      StridedOutput o, StridedOutput lse) {
  RunOptions run;
  std::vector<Sequence> sequences;
  const Status status = packed_problem(problem, options, &run, &sequences);
  if (!status.is_ok()) return status;
  const ioattn_sdpa_problem whole = unpacked(problem);
  const auto forward = [&](auto zero) {
    using T = decltype(zero);
    return packed_forward<T>(sequences, run, inputs_of<T>(whole), o_of<T>(whole, o.data, o.stride),
                             lse_of<T>(whole, lse.data, lse.stride));
  };
  return with_dtype(dtype_of_number(problem.dtype), forward);
}

struct BackwardInputs {
  StridedInput d_o, o, lse;
};

Status backward_packed(const ioattn_sdpa_problem& problem, const ioattn_options* options,
                       const BackwardInputs& in, const ioattn_sdpa_gradients* gradients) {
  RunOptions run;
  std::vector<Sequence> sequences;
  Status status = packed_problem(problem, options, &run, &sequences);
  const DType dtype = dtype_of_number(problem.dtype);
  if (status.is_ok()) status = check_gradients(false, dtype, gradients);
  if (!status.is_ok()) return status;
  const ioattn_sdpa_problem whole = unpacked(problem);
  return with_gradient_types(dtype, gradients->in_f32 != 0, [&](auto element, auto gradient) {
    using S = decltype(element);
    return packed_backward<S>(sequences, run, inputs_of<S>(whole),
                              results_of<S>(whole, in.d_o, in.o, in.lse),
                              gradients_of<decltype(gradient)>(whole, *gradients));
  });
}

}  // namespace

ioattn_status ioattn_sdpa_forward(const ioattn_sdpa_problem* problem, const ioattn_options* options,
                                  void* o, const int64_t* o_stride, void* lse,
                                  const int64_t* lse_stride) {
  return guarded([&] {
    if (is_packed(problem))
      return forward_packed(*problem, options, {o, o_stride}, {lse, lse_stride});
    RunOptions run;
    SdpaProblem planned;
    plan::SdpaPlan plan;
    Status status = problem_of(problem, &planned);
    if (status.is_ok()) status = run_options(options, &run);
    if (status.is_ok()) status = plan_sdpa(planned, run, &plan);
    if (!status.is_ok()) return status;
    const auto forward = [&](auto zero) {
      using T = decltype(zero);
      return sdpa_forward<T>(planned, inputs_of<T>(*problem), plan,
                             threads_for(work_of(planned.shape), run), nullptr,
                             o_of<T>(*problem, o, o_stride), lse_of<T>(*problem, lse, lse_stride));
    };
    return with_dtype(planned.dtype, forward);
  });
}

ioattn_status ioattn_sdpa_backward(const ioattn_sdpa_problem* problem,
                                   const ioattn_options* options, const void* d_o,
                                   const int64_t* d_o_stride, const void* o,
                                   const int64_t* o_stride, const void* lse,
                                   const int64_t* lse_stride,
                                   const ioattn_sdpa_gradients* gradients) {
  return guarded([&] {
    const BackwardInputs in = {{d_o, d_o_stride}, {o, o_stride}, {lse, lse_stride}};
    if (is_packed(problem)) return backward_packed(*problem, options, in, gradients);
    RunOptions run;
    SdpaProblem planned;
    Status status = problem_of(problem, &planned);
    if (status.is_ok()) status = run_options(options, &run);
    if (status.is_ok()) status = check_gradients(planned, gradients);
    if (!status.is_ok()) return status;
    plan::SdpaPlan plan;
    status = plan_sdpa(planned, set_of(*gradients, planned.dtype), run, &plan);
    if (!status.is_ok()) return status;
    const bool in_f32 = gradients->in_f32 != 0;
    return with_gradient_types(planned.dtype, in_f32, [&](auto element, auto gradient) {
      using S = decltype(element);
      return sdpa_backward<S>(planned, inputs_of<S>(*problem),
                              results_of<S>(*problem, in.d_o, in.o, in.lse), plan,
                              threads_for(work_of(planned.shape), run), nullptr,
                              gradients_of<decltype(gradient)>(*problem, *gradients));
    });
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
    if (status.is_ok() && count > std::numeric_limits<int64_t>::max() / int64_t{sizeof *parts}) {
      status = Status::error(StatusCode::size_overflow, "count: its parts do not fit in 64 bits");
    }
    if (!status.is_ok()) return status;
    const Merged out = {o, o_stride, lse, lse_stride};
    const int threads = granted_threads(run.threads);
    const std::span<const ioattn_partial> all(parts, static_cast<std::size_t>(count));
    return with_dtype(dtype_of_number(shape->dtype), [&](auto zero) {
      return merge_parts<decltype(zero)>(*shape, all, threads, out);
    });
  });
}
