#include "api/array_types.hpp"
#include "api/c/plan_handle.hpp"
#include "api/c/sdpa_boundary.hpp"

namespace {

using namespace ioattn;
using namespace ioattn::api;

// Whether the problem is packed decides the type of its plan: SdpaPlan or PackedPlan.

Status read_problem(const ioattn_sdpa_problem* problem, SdpaPlan::Goal* goal) {
  return problem_of(problem, &goal->problem);
}
Status read_problem(const ioattn_sdpa_problem* problem, PackedPlan::Goal* goal) {
  return sequences_of(*problem, &goal->problem, &goal->sequences);
}

// What a plan is asked for.
struct Wish {
  const ioattn_pass& pass;
  const ioattn_sdpa_problem* problem;
  const ioattn_sdpa_gradients* gradients;

  template <class Goal>
  Status operator()(Goal* goal) const {
    Status status = pass_of(pass, &goal->pass);
    if (status.is_ok()) status = read_problem(problem, goal);
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
};

// Whether a problem is the planned one.
Status check_problem(const SdpaPlan& plan, const ioattn_sdpa_problem* problem, SdpaProblem* given) {
  const Status status = problem_of(problem, given);
  return status.is_ok() ? plan.check(*given) : status;
}
Status check_problem(const PackedPlan& plan, const ioattn_sdpa_problem* problem,
                     SdpaProblem* given) {
  Status status = packed_problem_of(*problem, given);
  if (status.is_ok()) status = plan.check(*given, problem->batch);
  for (int64_t b = 0; b < problem->batch && status.is_ok(); ++b) {
    Sequence sequence;
    status = sequence_of(*problem, b, &sequence);
    if (status.is_ok()) status = plan.check(b, sequence);
  }
  return status;
}

struct LentWorkspace {
  void* data;
  size_t size;
};

// The part of an execution that does not depend on the type of the elements.
template <class Planned>
Status check_execution(const ioattn_plan* plan, Pass pass, const ioattn_sdpa_problem* problem,
                       const LentWorkspace& workspace, const Planned** planned,
                       SdpaProblem* given) {
  Status status = find_plan(plan, pass, planned);
  if (!status.is_ok() || *planned == nullptr) return status;
  status = check_problem(**planned, problem, given);
  return status.is_ok() ? check_workspace(**planned, workspace.data, workspace.size) : status;
}

template <class Planned>
Status execute_forward(const ioattn_plan* plan, const ioattn_sdpa_problem* problem, StridedOutput o,
                       StridedOutput lse, const LentWorkspace& workspace) {
  const Planned* planned = nullptr;
  SdpaProblem given;
  const Status status = check_execution(plan, Pass::forward, problem, workspace, &planned, &given);
  if (!status.is_ok() || planned == nullptr) return status;
  const ioattn_sdpa_problem arrays = arrays_of(*problem);
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    return planned->template forward<T>(inputs_of<T>(arrays), o_of<T>(arrays, o),
                                        lse_of<T>(arrays, lse), workspace.data,
                                        lent_bytes(workspace.size), plan->overflows.counts());
  };
  return executed(with_dtype(given.dtype, run), plan);
}

template <class Planned>
Status execute_backward(const ioattn_plan* plan, const ioattn_sdpa_problem* problem,
                        const BackwardInputs& in, const ioattn_sdpa_gradients* gradients,
                        const LentWorkspace& workspace) {
  const Planned* planned = nullptr;
  SdpaProblem given;
  Status status = check_execution(plan, Pass::backward, problem, workspace, &planned, &given);
  if (status.is_ok()) status = check_gradients(given, gradients);
  if (!status.is_ok() || planned == nullptr) return status;
  const ioattn_sdpa_problem arrays = arrays_of(*problem);
  const auto run = [&](auto element, auto gradient) {
    using S = decltype(element);
    return planned->template backward<S>(inputs_of<S>(arrays), results_of<S>(arrays, in),
                                         gradients_of<decltype(gradient)>(arrays, *gradients),
                                         workspace.data, lent_bytes(workspace.size),
                                         plan->overflows.counts());
  };
  return executed(with_gradient_types(given.dtype, gradients->in_f32 != 0, run), plan);
}

}  // namespace

ioattn_status ioattn_sdpa_plan_create(ioattn_pass pass, const ioattn_sdpa_problem* problem,
                                      const ioattn_sdpa_gradients* gradients,
                                      const ioattn_options* options, ioattn_plan** plan) {
  return guarded([&] {
    const Wish wish = {pass, problem, gradients};
    return is_packed(problem) ? new_plan<PackedPlan>(wish, options, plan, PackedPlan::create)
                              : new_plan<SdpaPlan>(wish, options, plan, SdpaPlan::create);
  });
}

ioattn_status ioattn_sdpa_plan_parse(ioattn_pass pass, const ioattn_sdpa_problem* problem,
                                     const ioattn_sdpa_gradients* gradients,
                                     const ioattn_options* options, const char* text,
                                     ioattn_plan** plan) {
  return guarded([&] {
    const Wish wish = {pass, problem, gradients};
    return is_packed(problem) ? parsed_plan<PackedPlan>(wish, options, text, plan)
                              : parsed_plan<SdpaPlan>(wish, options, text, plan);
  });
}

ioattn_status ioattn_sdpa_execute_forward(const ioattn_plan* plan,
                                          const ioattn_sdpa_problem* problem, void* o,
                                          const int64_t* o_stride, void* lse,
                                          const int64_t* lse_stride, void* workspace,
                                          size_t workspace_size) {
  return guarded([&] {
    const auto execute =
        is_packed(problem) ? execute_forward<PackedPlan> : execute_forward<SdpaPlan>;
    return execute(plan, problem, {o, o_stride}, {lse, lse_stride}, {workspace, workspace_size});
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
    const auto execute =
        is_packed(problem) ? execute_backward<PackedPlan> : execute_backward<SdpaPlan>;
    return execute(plan, problem, {{d_o, d_o_stride}, {o, o_stride}, {lse, lse_stride}}, gradients,
                   {workspace, workspace_size});
  });
}
