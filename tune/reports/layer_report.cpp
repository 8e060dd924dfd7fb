#include "tune/reports/layer_report.hpp"

namespace ioattn::tune {

namespace {

using Set = std::optional<GradientSet>;

plan::LayerRequest request_of(const LayerProblem& problem, const Set& set,
                              const api::RunOptions& options, bool level_alone) {
  plan::LayerRequest request;
  require(api::LayerKind::request_of(problem, set, options, &request));
  if (level_alone) request.outer_M = 0;
  return request;
}

// What a search would compare, were it for a level of the caller's.
api::LayerSearchReport candidates_of_level(const LayerProblem& problem, const Set& set,
                                           const api::RunOptions& options) {
  api::LayerSearchReport report;
  report.timed = api::timed_problem(problem);
  require(
      plan::list_candidates(request_of(report.timed, set, options, true), set, &report.candidates));
  report.timings.resize(report.candidates.size());
  return report;
}

}  // namespace

LayerOrigin origin_of(Pass pass, const LayerProblem& problem, const api::RunOptions& options,
                      bool level_alone, bool explain) {
  LayerOrigin of;
  of.objective = options.objective;
  if (pass == Pass::backward) of.set.emplace().dX = true;
  of.request = request_of(problem, of.set, options, level_alone);
  plan::LayerPlan plan;
  // Asked even for a level of the caller's: it tells why wisdom has no say.
  require(api::plan_layer(problem, of.set, options, &plan, &of.estimate, &of.origin));
  if (level_alone) require(plan::make_plan_of(of.request, of.set, &plan, &of.estimate));
  of.plan = plan::pass_of(plan);
  if (!explain) return of;
  of.report = level_alone ? candidates_of_level(problem, of.set, options)
                          : candidates_of<api::LayerKind>(problem, of.set, options);
  of.levels = levels_of(of.request, of.set, plan);
  return of;
}

void add_origin(const LayerOrigin& of, Json* json) {
  (*json)["origin"] = of.origin.name;
  (*json)["wisdom"] = {{"code", name_of(of.origin.wisdom.reason)},
                       {"message", of.origin.wisdom.message}};
  if (!of.report) return;
  (*json)["why"] = why_of(of.origin, of.objective);
  (*json)["predicted"] = levels_json(*of.levels);
  (*json)["searched"] = candidates_json(*of.report, of.set);
}

std::string origin_text(const LayerOrigin& of) {
  const std::string text = std::string("origin: ") + of.origin.name + "\n";
  return of.report ? text + "why: " + why_of(of.origin, of.objective) + "\n" : text;
}

std::string search_text(const LayerOrigin& of) {
  if (!of.report) return "";
  return fmt::format("{}a search would compare, for {}:\n{}", levels_text(*of.levels),
                     to_text(of.report->timed), candidates_text(*of.report, of.set));
}

}  // namespace ioattn::tune
