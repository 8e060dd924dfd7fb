#include "api/plan_handle.hpp"
#include "api/sdpa_boundary.hpp"

namespace {

using namespace ioattn;
using namespace ioattn::api;

Status goal_of(const ioattn_pass& pass, const ioattn_sdpa_problem* problem,
               const ioattn_sdpa_gradients* gradients, SdpaPlan::Goal* goal) {
  Status status = pass_of(pass, &goal->pass);
  if (status.is_ok()) status = problem_of(problem, &goal->problem);
  if (!status.is_ok() || goal->pass == Pass::forward) return status;
  if (gradients == nullptr) {
    goal->gradients = {true, true, true, false};
    return status;
  }
  status = check_gradients(goal->problem, gradients);
  if (!status.is_ok()) return status;
  goal->gradients = set_of(*gradients, goal->problem.dtype);
  return goal->gradients.is_empty() ? invalid("gradients: none is wanted") : Status::ok();
}

// The part of an execution that does not depend on the type of the elements.
Status check_execution(const ioattn_plan* plan, Pass pass, const ioattn_sdpa_problem* problem,
                       const void* workspace, size_t workspace_size, const SdpaPlan** planned,
                       SdpaProblem* given) {
  Status status = find_plan(plan, pass, planned);
  if (status.is_ok()) status = problem_of(problem, given);
  if (!status.is_ok() || *planned == nullptr) return status;
  return check_workspace(**planned, workspace, workspace_size);
}

}  // namespace

ioattn_status ioattn_sdpa_plan_create(ioattn_pass pass, const ioattn_sdpa_problem* problem,
                                      const ioattn_sdpa_gradients* gradients,
                                      const ioattn_options* options, ioattn_plan** plan) {
  return guarded([&] {
    return new_plan<SdpaPlan>(
        [&](SdpaPlan::Goal* goal) { return goal_of(pass, problem, gradients, goal); }, options,
        plan, SdpaPlan::create);
  });
}

ioattn_status ioattn_sdpa_plan_parse(ioattn_pass pass, const ioattn_sdpa_problem* problem,
                                     const ioattn_sdpa_gradients* gradients,
                                     const ioattn_options* options, const char* text,
                                     ioattn_plan** plan) {
  return guarded([&] {
    return parsed_plan<SdpaPlan>(
        [&](SdpaPlan::Goal* goal) { return goal_of(pass, problem, gradients, goal); }, options,
        text, plan);
  });
}

ioattn_status ioattn_sdpa_execute_forward(const ioattn_plan* plan,
                                          const ioattn_sdpa_problem* problem, void* o,
                                          const int64_t* o_stride, void* lse,
                                          const int64_t* lse_stride, void* workspace,
                                          size_t workspace_size) {
  return guarded([&] {
    const SdpaPlan* planned = nullptr;
    SdpaProblem given;
    const Status status =
        check_execution(plan, Pass::forward, problem, workspace, workspace_size, &planned, &given);
    if (!status.is_ok() || planned == nullptr) return status;
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      return planned->forward<T>(given, inputs_of<T>(*problem), o_of<T>(*problem, o, o_stride),
                                 lse_of<T>(*problem, lse, lse_stride), workspace,
                                 static_cast<index_t>(workspace_size), plan->overflows.counts());
    };
    return executed(with_dtype(given.dtype, run), plan);
  });
}

ioattn_status ioattn_sdpa_execute_backward(const ioattn_plan* plan,
                                           const ioattn_sdpa_problem* problem, const void* d_o,
                                           const int64_t* d_o_stride, const void* o,
                                           const int64_t* o_stride, const void* lse,
                                           const int64_t* lse_stride,
                                           const ioattn_sdpa_gradients* gradients, void* workspace,
                                           size_t workspace_size) {
  return guarded([&] {
    const SdpaPlan* planned = nullptr;
    SdpaProblem given;
    Status status =
        check_execution(plan, Pass::backward, problem, workspace, workspace_size, &planned, &given);
    if (status.is_ok()) status = check_gradients(given, gradients);
    if (!status.is_ok() || planned == nullptr) return status;
    const bool in_f32 = gradients->in_f32 != 0;
    const auto run = [&](auto element, auto gradient) {
      using S = decltype(element);
      return planned->backward<S>(
          given, inputs_of<S>(*problem),
          results_of<S>(*problem, {d_o, d_o_stride}, {o, o_stride}, {lse, lse_stride}),
          gradients_of<decltype(gradient)>(*problem, *gradients), workspace,
          static_cast<index_t>(workspace_size), plan->overflows.counts());
    };
    return executed(with_gradient_types(given.dtype, in_f32, run), plan);
  });
}
