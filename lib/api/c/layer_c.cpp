#include "api/array_types.hpp"
#include "api/c/c_boundary.hpp"
#include "api/planning/layer_planning.hpp"
#include "api/planning/session.hpp"
#include "api/run/layer.hpp"
#include "api/run_options.hpp"
#include "base/aligned_buffer.hpp"

namespace {

using namespace ioattn;
using namespace ioattn::api;

template <class S>
Status run_forward(const ioattn_layer_problem& problem, const plan::LayerPlan& plan,
                   const api::RunOptions& options, void* o, int64_t o_stride, void* lse) {
  const LayerInputs<S> inputs = inputs_of<S>(problem);
  return api::layer_forward<S>(inputs, plan::pass_of(plan), {api::granted_threads(options.threads)},
                               output<S>(o, problem.n, problem.dv, o_stride),
                               static_cast<Compute<S>*>(lse));
}

template <class S>
Status forward(const ioattn_layer_problem& problem, const api::RunOptions& options, void* o,
               int64_t o_stride, void* lse) {
  plan::LayerPlan plan;
  const Status status = plan_layer(problem_of(inputs_of<S>(problem)), std::nullopt, options, &plan);
  if (!status.is_ok()) return status;
  return run_forward<S>(problem, plan, options, o, o_stride, lse);
}

// Why gradients cannot be had of so little fast memory, and O and LSE, which they need first,
// neither.
Status refused(const Status& of_gradients, const LayerProblem& problem, const GradientSet& set,
               const api::RunOptions& options) {
  const Schedule schedule = options.schedule.value_or(Schedule::row_stream);
  const bool takes_them = !set.is_dx_alone() || takes_forward_results(schedule);
  if (of_gradients.code() != StatusCode::fast_memory_too_small || !takes_them) return of_gradients;
  plan::LayerPlan before;
  const Status first = plan_layer_before(problem, schedule, options, &before);
  if (first.code() != StatusCode::fast_memory_too_small) return of_gradients;
  return Status::error(first.code(), "%s; and before, as o and lse are null: %s",
                       of_gradients.message(), first.message());
}

template <class S, class G>
Status backward(const ioattn_layer_problem& problem, const api::RunOptions& options,
                const void* d_o, int64_t d_o_stride, const void* o, int64_t o_stride,
                const void* lse, const ioattn_layer_gradients& gradients) {
  using T = Compute<S>;
  const LayerInputs<S> inputs = inputs_of<S>(problem);
  const LayerGradients<G, S> out = gradients_of<G, S>(problem, gradients);
  const GradientSet set = api::set_of(out);
  if (out.set() == GradientSet{}) return api::validate_problem(problem_of(inputs));
  plan::LayerPlan plan;
  Status status = plan_layer(problem_of(inputs), set, options, &plan);
  if (!status.is_ok()) {
    return lse == nullptr ? refused(status, problem_of(inputs), set, options) : status;
  }
  AlignedBuffer results;
  if (lse == nullptr && api::takes_forward_results(plan, set)) {
    const std::size_t rows = static_cast<std::size_t>(inputs.batch * problem.n);
    const std::size_t row_bytes = sizeof(T) + static_cast<std::size_t>(problem.dv) * sizeof(S);
    results = AlignedBuffer(rows * row_bytes);
    if (rows > 0 && results.data() == nullptr) {
      return Status::error(StatusCode::out_of_memory, "no memory for O and LSE");
    }
    T* lse_result = static_cast<T*>(results.data());
    void* o_result = lse_result + rows;
    plan::LayerPlan before;
    status = plan_layer_before(problem_of(inputs), plan.blocks.schedule, options, &before);
    if (status.is_ok()) status = run_forward<S>(problem, before, options, o_result, 0, lse_result);
    if (!status.is_ok()) return status;
    o = o_result;
    o_stride = 0;
    lse = lse_result;
  }
  return api::layer_gradients<S, G>(inputs, input<S>(d_o, problem.n, problem.dv, d_o_stride),
                                    input<S>(o, problem.n, problem.dv, o_stride),
                                    static_cast<const T*>(lse), plan,
                                    {api::granted_threads(options.threads)}, out);
}

}  // namespace

ioattn_status ioattn_layer_forward(const ioattn_layer_problem* problem,
                                   const ioattn_options* options, void* o, int64_t o_stride,
                                   void* lse) {
  return guarded([&] {
    api::RunOptions run;
    Status status = check_problem(problem);
    if (status.is_ok()) status = run_options(options, &run);
    if (!status.is_ok()) return status;
    return with_dtype(dtype_of_number(problem->dtype), [&](auto zero) {
      return forward<decltype(zero)>(*problem, run, o, o_stride, lse);
    });
  });
}

ioattn_status ioattn_layer_backward(const ioattn_layer_problem* problem,
                                    const ioattn_options* options, const void* d_o,
                                    int64_t d_o_stride, const void* o, int64_t o_stride,
                                    const void* lse, const ioattn_layer_gradients* gradients) {
  return guarded([&] {
    api::RunOptions run;
    Status status = check_problem(problem);
    if (status.is_ok()) status = run_options(options, &run);
    if (status.is_ok()) {
      status = check_gradients(gradients, dtype_of_number(problem->dtype), problem->d);
    }
    // O without elements may be null although LSE is given.
    const bool o_has_elements = status.is_ok() && problem->n > 0 && problem->dv > 0;
    if (o_has_elements && (o == nullptr) != (lse == nullptr)) {
      status = invalid("of o and lse one is null: pass both or neither");
    }
    if (!status.is_ok()) return status;
    return with_gradient_types(dtype_of_number(problem->dtype), gradients->in_f32 != 0,
                               [&](auto zero, auto gradient) {
                                 return backward<decltype(zero), decltype(gradient)>(
                                     *problem, run, d_o, d_o_stride, o, o_stride, lse, *gradients);
                               });
  });
}
