#include "api/planning/layer_planning.hpp"

#include "api/planning/plan_cache.hpp"
#include "api/planning/plan_without_search.hpp"
#include "api/planning/session.hpp"
#include "api/run_options.hpp"

namespace ioattn::api {

bool takes_layer_wisdom(const RunOptions& options) {
  return takes_wisdom(options) && !options.schedule && !options.literal;
}

Status plan_layer(const LayerProblem& problem, const std::optional<GradientSet>& set,
                  const RunOptions& options, plan::LayerPlan* plan, plan::Estimate* estimate,
                  PlanOrigin* origin) {
  plan::LayerRequest request;
  const Status status =
      plan_request(set ? Pass::backward : Pass::forward, problem, options, &request);
  if (!status.is_ok()) return status;
  const auto complete = [&](bool is_known) {
    if (!is_known) return plan::make_plan_of(request, set, plan, estimate);
    if (estimate != nullptr) plan::estimate_costs(request, set, *plan, estimate);
    return Status::ok();
  };
  return plan_without_search(request, set, options, takes_layer_wisdom(options),
                             estimate != nullptr, &layer_plans(), plan, origin, complete);
}

Status plan_layer_before(const LayerProblem& problem, Schedule backward, const RunOptions& options,
                         plan::LayerPlan* plan) {
  RunOptions forward = options;
  forward.rigor = wisdom::Rigor::estimate;  // wisdom is asked for of the gradients
  // Whoever asked for stationary has room for scores in the forward pass too.
  if (backward != Schedule::stationary) forward.schedule.reset();
  const Status status = plan_layer(problem, std::nullopt, forward, plan);
  if (status.code() != StatusCode::fast_memory_too_small || !stores_scores(backward) ||
      is_half(problem.dtype)) {
    return status;
  }
  // Whoever asked for stored scores has room for them here too, which saves fast memory.
  forward.schedule = Schedule::paper_small;
  return plan_layer(problem, std::nullopt, forward, plan);
}

}  // namespace ioattn::api
