#include "api/plans/sdpa_plan.hpp"

#include "api/array_types.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/plans/parsed_plan.hpp"
#include "api/run/lent_memory.hpp"
#include "api/run_options.hpp"
#include "api/search/sdpa_search.hpp"

namespace ioattn::api {

Status SdpaPlan::create(const Goal& goal, const RunOptions& options, SdpaPlan* result) {
  bool learned = false;
  const Status status = search_if_needed<SdpaKind>(goal.problem, goal.set(), options, &learned);
  return status.is_ok() ? create_as_known(goal, options, learned, result) : status;
}

Status SdpaPlan::create_as_known(const Goal& goal, const RunOptions& options, bool learned,
                                 SdpaPlan* result) {
  result->goal_ = goal;
  plan::Estimate estimate;
  const Status status =
      plan_sdpa(goal.problem, goal.set(), options, &result->plan_, &estimate, &result->origin_);
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
  if (!plan::parse_sdpa_plan(text, goal.set(), &parsed, &error)) {
    return Status::error(StatusCode::invalid_argument, "%.200s", error.c_str());
  }
  Status status = validate_problem(goal.problem);
  if (status.is_ok()) status = validate_plan(parsed, goal.set());
  if (!status.is_ok()) return status;
  take_whole_strips(Schedule::row_stream, goal.problem.shape.n, &parsed.blocks.rows);
  status = adopt_parsed(parsed.level, parsed.tile, goal.problem.dtype, options, &result->M_);
  return status.is_ok() ? result->finish(options) : status;
}

Status SdpaPlan::finish(const RunOptions& options) {
  threads_ = threads_for(work_of(goal_.problem.shape), options);
  return workspace_of(goal_.problem, plan_, goal_.set(), threads_, &aligned_bytes_);
}

index_t SdpaPlan::workspace_bytes() const { return with_slack(aligned_bytes_); }

Status check_planned(const SdpaProblem& planned, const SdpaProblem& given) {
  if (given.shape == planned.shape && given.dtype == planned.dtype &&
      scale_of(given) == scale_of(planned)) {
    return Status::ok();
  }
  return Status::error(StatusCode::invalid_argument, "the plan is for %s, the inputs are %s",
                       to_text(planned).c_str(), to_text(given).c_str());
}

Status check_planned(const SdpaSet& planned, const SdpaSet& given) {
  if (given == planned) return Status::ok();
  return Status::error(StatusCode::invalid_argument,
                       "the gradients, accumulate or in_f32 are not those that the plan is for");
}

Status SdpaPlan::check(const SdpaProblem& given) const {
  return check_planned(goal_.problem, given);
}

template <class S>
Status SdpaPlan::forward(const SdpaInputs<S>& inputs, TensorView<S> o, TensorView<Compute<S>> lse,
                         void* workspace, index_t bytes, OverflowCounts* overflows) const {
  Lent lent(workspace, bytes);
  return sdpa_forward<S>(goal_.problem, inputs, plan_,
                         {threads_, nullptr, lent.get(), nullptr, overflows}, o, lse);
}

template <class S, class G>
Status SdpaPlan::backward(const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                          const SdpaGradients<G>& gradients, void* workspace, index_t bytes,
                          OverflowCounts* overflows) const {
  const Status matches = check_planned(goal_.gradients, set_of<S>(gradients));
  if (!matches.is_ok()) return matches;
  Lent lent(workspace, bytes);
  return sdpa_backward<S>(goal_.problem, inputs, forward, plan_,
                          {threads_, nullptr, lent.get(), nullptr, overflows}, gradients);
}

#define IOATTN_INSTANTIATE(S)                                                                    \
  template Status SdpaPlan::forward(const SdpaInputs<S>&, TensorView<S>, TensorView<Compute<S>>, \
                                    void*, index_t, OverflowCounts*) const
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                               \
  template Status SdpaPlan::backward(const SdpaInputs<S>&, const SdpaForwardResults<S>&,       \
                                     const SdpaGradients<G>&, void*, index_t, OverflowCounts*) \
      const
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
