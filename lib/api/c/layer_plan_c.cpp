#include "api/array_types.hpp"
#include "api/c/plan_handle.hpp"

namespace {

using namespace ioattn;
using namespace ioattn::api;

Status goal_of(const ioattn_pass& pass, const ioattn_layer_shape* shape,
               const ioattn_layer_gradients* gradients, LayerPlan::Goal* goal) {
  Status status = check_struct(shape, "shape", "ioattn_layer_shape");
  if (status.is_ok()) status = pass_of(pass, &goal->pass);
  if (status.is_ok()) status = check_dtype(shape->dtype);
  Tie tie = Tie::none;
  if (status.is_ok()) status = tie_of(shape->tie, shape->n, shape->m, &tie);
  if (!status.is_ok()) return status;
  if (shape->n < 0 || shape->m < 0) return invalid("shape: a size is negative");
  if (const Status valid = check_mask(*shape); !valid.is_ok()) return valid;
  goal->problem.shape = {shape->n, shape->m, shape->d, shape->dv, tie, mask_of(*shape)};
  goal->problem.scale = shape->scale == 0 ? 1 : shape->scale;
  goal->problem.batch = shape->batch == 0 ? 1 : shape->batch;
  goal->problem.dtype = dtype_of_number(shape->dtype);
  if (goal->pass == Pass::forward) return Status::ok();
  if (gradients == nullptr) {
    goal->gradients.dX = true;
    return Status::ok();
  }
  status = check_gradients(gradients, goal->problem.dtype, shape->d);
  if (!status.is_ok()) return status;
  goal->gradients = set_of(*gradients, goal->problem.dtype);
  GradientSet none;
  none.in_f32 = goal->gradients.in_f32;
  return goal->gradients == none ? invalid("gradients: none is wanted") : Status::ok();
}

// The part of an execution that does not depend on the type of the elements.
Status check_execution(const ioattn_plan* plan, Pass pass, const ioattn_layer_problem* problem,
                       const void* workspace, size_t workspace_size, const LayerPlan** planned) {
  Status status = find_plan(plan, pass, planned);
  if (status.is_ok()) status = check_problem(problem);
  if (!status.is_ok()) return status;
  // find_plan() was fine, so there is one: NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage)
  const DType dtype = (*planned)->goal().problem.dtype;
  if (dtype_of_number(problem->dtype) != dtype) {
    return Status::error(StatusCode::invalid_argument, "the plan is for %s", name_of(dtype));
  }
  return check_workspace(**planned, workspace, workspace_size);
}

}  // namespace

ioattn_status ioattn_layer_plan_create(ioattn_pass pass, const ioattn_layer_shape* shape,
                                       const ioattn_layer_gradients* gradients,
                                       const ioattn_options* options, ioattn_plan** plan) {
  return guarded([&] {
    return new_plan<LayerPlan>(
        [&](LayerPlan::Goal* goal) { return goal_of(pass, shape, gradients, goal); }, options, plan,
        LayerPlan::create);
  });
}

ioattn_status ioattn_layer_plan_parse(ioattn_pass pass, const ioattn_layer_shape* shape,
                                      const ioattn_layer_gradients* gradients,
                                      const ioattn_options* options, const char* text,
                                      ioattn_plan** plan) {
  return guarded([&] {
    return parsed_plan<LayerPlan>(
        [&](LayerPlan::Goal* goal) { return goal_of(pass, shape, gradients, goal); }, options, text,
        plan);
  });
}

ioattn_status ioattn_layer_execute_forward(const ioattn_plan* plan,
                                           const ioattn_layer_problem* problem, void* o,
                                           int64_t o_stride, void* lse, void* workspace,
                                           size_t workspace_size) {
  return guarded([&] {
    const LayerPlan* planned = nullptr;
    const Status status =
        check_execution(plan, Pass::forward, problem, workspace, workspace_size, &planned);
    if (!status.is_ok()) return status;
    const auto run = [&](auto zero) {
      using S = decltype(zero);
      return planned->forward<S>(inputs_of<S>(*problem),
                                 output<S>(o, problem->n, problem->dv, o_stride),
                                 static_cast<Compute<S>*>(lse), workspace,
                                 lent_bytes(workspace_size), plan->overflows.counts());
    };
    return executed(with_dtype(dtype_of_number(problem->dtype), run), plan);
  });
}

ioattn_status ioattn_layer_execute_backward(const ioattn_plan* plan,
                                            const ioattn_layer_problem* problem, const void* d_o,
                                            int64_t d_o_stride, const void* o, int64_t o_stride,
                                            const void* lse,
                                            const ioattn_layer_gradients* gradients,
                                            void* workspace, size_t workspace_size) {
  return guarded([&] {
    const LayerPlan* planned = nullptr;
    Status status =
        check_execution(plan, Pass::backward, problem, workspace, workspace_size, &planned);
    if (status.is_ok()) {
      status = check_gradients(gradients, dtype_of_number(problem->dtype), problem->d);
    }
    if (!status.is_ok()) return status;
    const auto run = [&](auto zero, auto gradient) {
      using S = decltype(zero);
      using G = decltype(gradient);
      return planned->backward<S, G>(
          inputs_of<S>(*problem), input<S>(d_o, problem->n, problem->dv, d_o_stride),
          input<S>(o, problem->n, problem->dv, o_stride), static_cast<const Compute<S>*>(lse),
          gradients_of<G, S>(*problem, *gradients), workspace, lent_bytes(workspace_size),
          plan->overflows.counts());
    };
    return executed(
        with_gradient_types(dtype_of_number(problem->dtype), gradients->in_f32 != 0, run), plan);
  });
}
