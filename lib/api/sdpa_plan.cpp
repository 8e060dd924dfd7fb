#include "api/sdpa_plan.hpp"

#include "api/lent_memory.hpp"
#include "api/parsed_plan.hpp"

namespace ioattn::api {

Status SdpaPlan::create(const Goal& goal, const RunOptions& options, SdpaPlan* result) {
  result->goal_ = goal;
  plan::SdpaEstimate estimate;
  const Status status =
      result->is_forward()
          ? plan_sdpa(goal.problem, options, &result->plan_, &estimate)
          : plan_sdpa(goal.problem, goal.gradients, options, &result->plan_, &estimate);
  if (!status.is_ok()) return status;
  result->M_ = estimate.M;
  return result->finish(options);
}

Status SdpaPlan::parse(const Goal& goal, const RunOptions& options, std::string_view text,
                       SdpaPlan* result) {
  result->goal_ = goal;
  plan::SdpaPlan& parsed = result->plan_;
  std::string error;
  if (!(result->is_forward() ? plan::parse_sdpa_plan(text, &parsed, &error)
                             : plan::parse_sdpa_plan(text, goal.gradients, &parsed, &error))) {
    return Status::error(StatusCode::invalid_argument, "%.200s", error.c_str());
  }
  Status status = validate_problem(goal.problem);
  if (status.is_ok()) {
    status = result->is_forward() ? validate_plan(parsed) : validate_plan(parsed, goal.gradients);
  }
  if (!status.is_ok()) return status;
  status = adopt_parsed(parsed.level, {parsed.isa, parsed.tile_rows, parsed.tile_cols},
                        goal.problem.dtype, options, &result->M_);
  return status.is_ok() ? result->finish(options) : status;
}

Status SdpaPlan::finish(const RunOptions& options) {
  threads_ = threads_for(work_of(goal_.problem.shape), options);
  index_t bytes = 0;
  const Status told = is_forward()
                          ? workspace_of(goal_.problem, plan_, threads_, &bytes)
                          : workspace_of(goal_.problem, plan_, goal_.gradients, threads_, &bytes);
  workspace_bytes_ = with_slack(bytes);
  return told;
}

Status SdpaPlan::check_problem(const SdpaProblem& given) const {
  const SdpaProblem& planned = goal_.problem;
  if (given.shape == planned.shape && given.dtype == planned.dtype &&
      scale_of(given) == scale_of(planned)) {
    return Status::ok();
  }
  return Status::error(StatusCode::invalid_argument, "the plan is for %s, the inputs are %s",
                       to_text(planned).c_str(), to_text(given).c_str());
}

template <class T>
Status SdpaPlan::forward(const SdpaProblem& problem, const SdpaInputs<T>& inputs, TensorView<T> o,
                         TensorView<T> lse, void* workspace, index_t bytes) const {
  const Status matches = check_problem(problem);
  if (!matches.is_ok()) return matches;
  Lent lent(workspace, bytes);
  return sdpa_forward<T>(problem, inputs, plan_, threads_, nullptr, o, lse, lent.get());
}

template <class T>
Status SdpaPlan::backward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                          const SdpaForwardResults<T>& forward, const SdpaGradients<T>& gradients,
                          void* workspace, index_t bytes) const {
  const Status matches = check_problem(problem);
  if (!matches.is_ok()) return matches;
  if (gradients.set() != goal_.gradients) {
    return Status::error(StatusCode::invalid_argument,
                         "the gradients, or accumulate, are not those that the plan is for");
  }
  Lent lent(workspace, bytes);
  return sdpa_backward<T>(problem, inputs, forward, plan_, threads_, nullptr, gradients,
                          lent.get());
}

#define IOATTN_INSTANTIATE(T)                                                                      \
  template Status SdpaPlan::forward(const SdpaProblem&, const SdpaInputs<T>&, TensorView<T>,       \
                                    TensorView<T>, void*, index_t) const;                          \
  template Status SdpaPlan::backward(const SdpaProblem&, const SdpaInputs<T>&,                     \
                                     const SdpaForwardResults<T>&, const SdpaGradients<T>&, void*, \
                                     index_t) const
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
