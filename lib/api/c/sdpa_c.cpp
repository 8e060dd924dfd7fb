#include <limits>
#include <span>
#include <vector>

#include "api/array_types.hpp"
#include "api/c/sdpa_boundary.hpp"
#include "api/checks/tensor_check.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/planning/session.hpp"
#include "api/run_options.hpp"
#include "schedules/sdpa/merge.hpp"

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
  Status known = check_struct(s, "shape", "ioattn_merge_shape");
  if (known.is_ok()) known = check_dtype(s->dtype);
  if (!known.is_ok()) return known;
  return validate_problem(SdpaProblem{
      {s->batch, s->heads, s->heads, s->n, 1, 1, s->dv, {}}, dtype_of_number(s->dtype), 1});
}

// What the two passes over packed sequences have alike.
struct Packed {
  ioattn_sdpa_problem arrays;  // as one entry
  SdpaProblem problem;
  std::vector<Sequence> sequences;
  RunOptions options;
};
Status packed_of(const ioattn_sdpa_problem& problem, const ioattn_options* options,
                 Packed* packed) {
  packed->arrays = unpacked(problem);
  const Status status = sequences_of(problem, &packed->problem, &packed->sequences);
  return status.is_ok() ? run_options(options, &packed->options) : status;
}

Status forward_packed(const ioattn_sdpa_problem& problem, const ioattn_options* options,
                      StridedOutput o, StridedOutput lse) {
  Packed packed;
  const Status status = packed_of(problem, options, &packed);
  if (!status.is_ok()) return status;
  const auto forward = [&](auto zero) {
    using T = decltype(zero);
    return packed_forward<T>(packed.sequences, packed.options, inputs_of<T>(packed.arrays),
                             o_of<T>(packed.arrays, o), lse_of<T>(packed.arrays, lse));
  };
  return with_dtype(packed.problem.dtype, forward);
}

Status backward_packed(const ioattn_sdpa_problem& problem, const ioattn_options* options,
                       const BackwardInputs& in, const ioattn_sdpa_gradients* gradients) {
  Packed packed;
  Status status = packed_of(problem, options, &packed);
  if (status.is_ok()) status = check_gradients(packed.problem, gradients);
  if (!status.is_ok()) return status;
  const bool in_f32 = gradients->in_f32 != 0;
  return with_gradient_types(packed.problem.dtype, in_f32, [&](auto element, auto gradient) {
    using S = decltype(element);
    return packed_backward<S>(packed.sequences, packed.options, inputs_of<S>(packed.arrays),
                              results_of<S>(packed.arrays, in),
                              gradients_of<decltype(gradient)>(packed.arrays, *gradients));
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
    if (status.is_ok()) status = plan_sdpa(planned, std::nullopt, run, &plan);
    if (!status.is_ok()) return status;
    const auto forward = [&](auto zero) {
      using T = decltype(zero);
      return sdpa_forward<T>(
          planned, inputs_of<T>(*problem), plan, {threads_for(work_of(planned.shape), run)},
          o_of<T>(*problem, {o, o_stride}), lse_of<T>(*problem, {lse, lse_stride}));
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
      return sdpa_backward<S>(planned, inputs_of<S>(*problem), results_of<S>(*problem, in), plan,
                              {threads_for(work_of(planned.shape), run)},
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
