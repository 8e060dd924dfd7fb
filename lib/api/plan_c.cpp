#include <new>

#include "api/c_boundary.hpp"
#include "api/layer_plan.hpp"

struct ioattn_plan {
  ioattn::api::LayerPlan plan;
};

namespace {

using namespace ioattn;
using namespace ioattn::api;

Status goal_of(ioattn_pass pass, const ioattn_layer_shape* shape,
               const ioattn_layer_gradients* gradients, LayerPlan::Goal* goal) {
  if (shape == nullptr) return invalid("shape is null");
  if (shape->struct_size != sizeof *shape) {
    return invalid("shape: struct_size is not sizeof(ioattn_layer_shape)");
  }
  if (number_of(pass) != IOATTN_FORWARD && number_of(pass) != IOATTN_BACKWARD) {
    return invalid("pass is unknown");
  }
  const int dtype = number_of(shape->dtype), tie = number_of(shape->tie);
  if (dtype != IOATTN_F32 && dtype != IOATTN_F64) {
    return invalid("shape: dtype is neither IOATTN_F32 nor IOATTN_F64");
  }
  if (tie < IOATTN_TIE_NONE || tie > IOATTN_TIE_ALL) return invalid("shape: tie is unknown");
  if (tie == IOATTN_TIE_ALL && shape->n != shape->m) return invalid("A1 = A2 needs n = m");
  if (shape->n < 0 || shape->m < 0) return invalid("shape: a size is negative");
  if (const Status valid = check_mask(*shape); !valid.is_ok()) return valid;
  goal->problem.shape = {shape->n,       shape->m, shape->d, shape->dv, static_cast<Tie>(tie),
                         mask_of(*shape)};
  goal->problem.scale = shape->scale == 0 ? 1 : shape->scale;
  goal->problem.batch = shape->batch == 0 ? 1 : shape->batch;
  goal->problem.dtype = dtype == IOATTN_F32 ? DType::f32 : DType::f64;
  goal->pass = number_of(pass) == IOATTN_FORWARD ? Pass::forward : Pass::backward;
  if (goal->pass == Pass::forward) return Status::ok();
  if (gradients == nullptr) {
    goal->gradients.dX = true;
    return Status::ok();
  }
  const Status status = check_gradients(gradients, shape->d);
  if (!status.is_ok()) return status;
  goal->gradients = set_of(*gradients);
  return goal->gradients == GradientSet{} ? invalid("gradients: none is wanted") : Status::ok();
}

// Makes a plan with make(goal, options, LayerPlan*) and hands it out.
template <class Make>
Status new_plan(ioattn_pass pass, const ioattn_layer_shape* shape,
                const ioattn_layer_gradients* gradients, const ioattn_options* options,
                ioattn_plan** plan, const Make& make) {
  if (plan == nullptr) return invalid("plan is null");
  LayerPlan::Goal goal;
  RunOptions run;
  Status status = goal_of(pass, shape, gradients, &goal);
  if (status.is_ok()) status = run_options(options, &run);
  if (!status.is_ok()) return status;
  LayerPlan made;
  status = make(goal, run, &made);
  if (status.is_ok()) *plan = new ioattn_plan{made};
  return status;
}

Status copy_text(const std::string& text, char* buffer, size_t size, size_t* needed) {
  if (needed != nullptr) *needed = text.size() + 1;
  if (buffer == nullptr) return Status::ok();
  if (size < text.size() + 1) {
    return Status::error(StatusCode::invalid_argument, "a buffer of %zu bytes is too small: %zu",
                         size, text.size() + 1);
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return Status::ok();
}

// The part of an execution that does not depend on the type of the elements.
Status check_execution(const ioattn_plan* plan, Pass pass, const ioattn_layer_problem* problem,
                       const void* workspace, size_t workspace_size) {
  if (plan == nullptr) return invalid("plan is null");
  if (plan->plan.goal().pass != pass) {
    return Status::error(StatusCode::invalid_argument, "the plan is of a %s pass",
                         name_of(plan->plan.goal().pass));
  }
  const Status status = check_problem(problem);
  if (!status.is_ok()) return status;
  if ((problem->dtype == IOATTN_F32) != (plan->plan.goal().problem.dtype == DType::f32)) {
    return Status::error(StatusCode::invalid_argument, "the plan is for %s",
                         name_of(plan->plan.goal().problem.dtype));
  }
  const index_t bytes = plan->plan.workspace_bytes();
  if (workspace != nullptr && workspace_size < static_cast<size_t>(bytes)) {
    return Status::error(StatusCode::invalid_argument,
                         "a workspace of %zu bytes is too small: %lld are needed", workspace_size,
                         static_cast<long long>(bytes));
  }
  return Status::ok();
}

}  // namespace

ioattn_status ioattn_layer_plan_create(ioattn_pass pass, const ioattn_layer_shape* shape,
                                       const ioattn_layer_gradients* gradients,
                                       const ioattn_options* options, ioattn_plan** plan) {
  return guarded(
      [&] { return new_plan(pass, shape, gradients, options, plan, LayerPlan::create); });
}

ioattn_status ioattn_layer_plan_parse(ioattn_pass pass, const ioattn_layer_shape* shape,
                                      const ioattn_layer_gradients* gradients,
                                      const ioattn_options* options, const char* text,
                                      ioattn_plan** plan) {
  return guarded([&] {
    if (text == nullptr) return invalid("text is null");
    return new_plan(pass, shape, gradients, options, plan,
                    [&](const LayerPlan::Goal& goal, const RunOptions& run, LayerPlan* made) {
                      return LayerPlan::parse(goal, run, text, made);
                    });
  });
}

void ioattn_plan_destroy(ioattn_plan* plan) { delete plan; }

ioattn_status ioattn_plan_workspace_size(const ioattn_plan* plan, size_t* bytes) {
  return guarded([&] {
    if (plan == nullptr || bytes == nullptr) return invalid("plan or bytes is null");
    *bytes = static_cast<size_t>(plan->plan.workspace_bytes());
    return Status::ok();
  });
}

ioattn_status ioattn_plan_text(const ioattn_plan* plan, char* buffer, size_t size, size_t* needed) {
  return guarded([&] {
    if (plan == nullptr) return invalid("plan is null");
    return copy_text(plan->plan.text(), buffer, size, needed);
  });
}

ioattn_status ioattn_plan_describe(const ioattn_plan* plan, char* buffer, size_t size,
                                   size_t* needed) {
  return guarded([&] {
    if (plan == nullptr) return invalid("plan is null");
    return copy_text(plan->plan.describe(), buffer, size, needed);
  });
}

ioattn_status ioattn_layer_execute_forward(const ioattn_plan* plan,
                                           const ioattn_layer_problem* problem, void* o,
                                           int64_t o_stride, void* lse, void* workspace,
                                           size_t workspace_size) {
  return guarded([&] {
    const Status status = check_execution(plan, Pass::forward, problem, workspace, workspace_size);
    if (!status.is_ok()) return status;
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      return plan->plan.forward<T>(
          inputs_of<T>(*problem), output<T>(o, problem->n, problem->dv, o_stride),
          static_cast<T*>(lse), workspace, static_cast<index_t>(workspace_size));
    };
    return problem->dtype == IOATTN_F32 ? run(float()) : run(double());
  });
}

ioattn_status ioattn_layer_execute_backward(const ioattn_plan* plan,
                                            const ioattn_layer_problem* problem, const void* d_o,
                                            int64_t d_o_stride, const void* o, int64_t o_stride,
                                            const void* lse,
                                            const ioattn_layer_gradients* gradients,
                                            void* workspace, size_t workspace_size) {
  return guarded([&] {
    Status status = check_execution(plan, Pass::backward, problem, workspace, workspace_size);
    if (status.is_ok()) status = check_gradients(gradients, problem->d);
    if (!status.is_ok()) return status;
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      return plan->plan.backward<T>(
          inputs_of<T>(*problem), input<T>(d_o, problem->n, problem->dv, d_o_stride),
          input<T>(o, problem->n, problem->dv, o_stride), static_cast<const T*>(lse),
          gradients_of<T>(*problem, *gradients), workspace, static_cast<index_t>(workspace_size));
    };
    return problem->dtype == IOATTN_F32 ? run(float()) : run(double());
  });
}
