#include "api/layer_search.hpp"

#include "api/plan_cache.hpp"
#include "api/plan_without_search.hpp"

namespace ioattn::api {

bool takes_layer_wisdom(const RunOptions& options) {
  return takes_wisdom(options) && !options.schedule && !options.literal;
}

Status plan_layer(const LayerProblem& problem, const std::optional<GradientSet>& set,
                  const RunOptions& options, plan::GradientPlan* plan, plan::Estimate* estimate,
                  PlanOrigin* origin) {
  plan::PlanRequest request;
  const Status status = LayerKind::request_of(problem, set, options, &request);
  if (!status.is_ok()) return status;
  const auto complete = [&](bool is_known) {
    if (!is_known) return plan::make_plan_of(request, set, plan, estimate);
    if (estimate != nullptr) plan::estimate_costs(request, set, *plan, estimate);
    return Status::ok();
  };
  return plan_without_search(request, set, options, takes_layer_wisdom(options),
                             estimate != nullptr, &layer_plans(), plan, origin, complete);
}

LayerProblem timed_problem(const LayerProblem& problem) {
  LayerProblem timed = problem;
  timed.shape = shape_to_plan(problem.shape);
  timed.batch = 1;
  return timed;
}

Status LayerKind::check_search(const RunOptions& options) {
  if (takes_layer_wisdom(options)) return Status::ok();
  return Status::error(StatusCode::unsupported,
                       "a search is for time, with the schedule, M and the level that decides left "
                       "to it");
}

}  // namespace ioattn::api
