#include "api/sdpa_plan.hpp"

#include "api/array_types.hpp"
#include "api/lent_memory.hpp"
#include "api/parsed_plan.hpp"
#include "api/sdpa_search.hpp"

namespace ioattn::api {

Status SdpaPlan::create(const Goal& goal, const RunOptions& options, SdpaPlan* result) {
  result->goal_ = goal;
  std::optional<SdpaSet> set;
  if (!result->is_forward()) set = goal.gradients;
  bool learned = false;
  Status status = search_if_needed<SdpaKind>(goal.problem, set, options, &learned);
  if (!status.is_ok()) return status;
  plan::SdpaEstimate estimate;
  status = set ? plan_sdpa(goal.problem, *set, options, &result->plan_, &estimate, &result->origin_)
               : plan_sdpa(goal.problem, options, &result->plan_, &estimate, &result->origin_);
  if (!status.is_ok()) return status;
  if (learned && result->origin_.wisdom.is_ok()) result->origin_.name = name_of(options.rigor);
  result->M_ = estimate.M;
  result->objective_ = name_of(options.objective);
  return result->finish(options);
}

Status SdpaPlan::parse(const Goal& goal, const RunOptions& options, std::string_view text,
                       SdpaPlan* result) {
  result->goal_ = goal;
  result->origin_.name = "text";
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

template <class S>
Status SdpaPlan::forward(const SdpaProblem& problem, const SdpaInputs<S>& inputs, TensorView<S> o,
                         TensorView<Compute<S>> lse, void* workspace, index_t bytes,
                         OverflowCounts* overflows) const {
  const Status matches = check_problem(problem);
  if (!matches.is_ok()) return matches;
  Lent lent(workspace, bytes);
  return sdpa_forward<S>(problem, inputs, plan_, threads_, nullptr, o, lse, lent.get(), nullptr,
                         overflows);
}

template <class S, class G>
Status SdpaPlan::backward(const SdpaProblem& problem, const SdpaInputs<S>& inputs,
                          const SdpaForwardResults<S>& forward, const SdpaGradients<G>& gradients,
                          void* workspace, index_t bytes, OverflowCounts* overflows) const {
  const Status matches = check_problem(problem);
  if (!matches.is_ok()) return matches;
  if (set_of<S>(gradients) != goal_.gradients) {
    return Status::error(StatusCode::invalid_argument,
                         "the gradients, accumulate or in_f32 are not those that the plan is for");
  }
  Lent lent(workspace, bytes);
  return sdpa_backward<S>(problem, inputs, forward, plan_, threads_, nullptr, gradients, lent.get(),
                          nullptr, overflows);
}

#define IOATTN_INSTANTIATE(S)                                                                \
  template Status SdpaPlan::forward(const SdpaProblem&, const SdpaInputs<S>&, TensorView<S>, \
                                    TensorView<Compute<S>>, void*, index_t, OverflowCounts*) const
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                                   \
  template Status SdpaPlan::backward(const SdpaProblem&, const SdpaInputs<S>&,                     \
                                     const SdpaForwardResults<S>&, const SdpaGradients<G>&, void*, \
                                     index_t, OverflowCounts*) const
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
