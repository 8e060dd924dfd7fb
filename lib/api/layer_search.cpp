#include "api/layer_search.hpp"

#include "api/plan_cache.hpp"

namespace ioattn::api {

bool takes_layer_wisdom(const RunOptions& options) {
  return takes_wisdom(options) && !options.schedule && !options.literal;
}

// Plans alone are kept: whoever wants an estimate has a plan made.
Status plan_layer(const LayerProblem& problem, const std::optional<GradientSet>& set,
                  const RunOptions& options, plan::GradientPlan* plan,
                  plan::GradientEstimate* estimate, PlanOrigin* origin) {
  plan::PlanRequest request;
  Status status = LayerKind::request_of(problem, set, options, &request);
  if (!status.is_ok()) return status;
  const bool is_asked = estimate != nullptr || origin != nullptr;
  const bool only_wisdom = options.rigor == wisdom::Rigor::wisdom_only;
  std::uint64_t generation = 0;  // without wisdom
  const auto is_kept = [&] {
    return !is_asked && !only_wisdom && layer_plans().find(request, set, generation, plan);
  };
  wisdom::Verdict verdict = {wisdom::Reason::off, "the options leave wisdom out"};
  if (takes_layer_wisdom(options)) {
    const WisdomReading known;
    generation = known->generation;
    if (is_kept()) return status;
    verdict = find_plan(*known, request, set, plan);
  } else if (is_kept()) {
    return status;
  }
  if (origin != nullptr) *origin = {verdict.is_ok() ? "wisdom" : "estimate", verdict};
  if (verdict.is_ok()) {
    if (estimate != nullptr) plan::estimate_costs(request, set, *plan, estimate);
  } else if (only_wisdom) {
    return Status::error(StatusCode::unsupported, "no wisdom: %s: %.200s", name_of(verdict.reason),
                         verdict.message.c_str());
  } else {
    status = plan::make_plan_of(request, set, plan, estimate);
  }
  if (status.is_ok() && !is_asked) layer_plans().keep(request, set, generation, *plan);
  return status;
}

LayerProblem timed_problem(const LayerProblem& problem) {
  LayerProblem timed = problem;
  timed.shape = shape_to_plan(problem.shape);
  timed.row_padding = 0;
  timed.batch = 1;
  return timed;
}

Status LayerKind::check_search(const RunOptions& options) {
  if (takes_layer_wisdom(options)) return Status::ok();
  return Status::error(StatusCode::unsupported,
                       "a search is for time, with the schedule, M and the level that decides left "
                       "to it");
}

Status search_layer(const LayerProblem& problem, const std::optional<GradientSet>& set,
                    const RunOptions& options, const Watch& watch, LayerSearchReport* report) {
  return search_plan<LayerKind>(problem, set, options, watch, report);
}

Status needs_search(const LayerProblem& problem, const std::optional<GradientSet>& set,
                    const RunOptions& options, bool* needed) {
  return needs_search_of<LayerKind>(problem, set, options, needed);
}

}  // namespace ioattn::api
