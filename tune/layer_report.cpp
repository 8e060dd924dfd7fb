#include "tune/layer_report.hpp"

namespace ioattn::tune {

LayerOrigin origin_of(Pass pass, const LayerProblem& problem, const api::RunOptions& options,
                      bool explain) {
  LayerOrigin of;
  of.objective = options.objective;
  if (pass == Pass::backward) of.set.emplace().dX = true;
  plan::GradientPlan plan;
  require(api::plan_layer(problem, of.set, options, &plan, nullptr, &of.origin));
  if (of.origin.wisdom.is_ok()) of.known = plan::pass_of(plan);
  if (!explain) return of;
  of.report = candidates_of<api::LayerKind>(problem, of.set, options);
  plan::PlanRequest request;
  require(api::LayerKind::request_of(problem, of.set, options, &request));
  of.levels = levels_of(request, of.set, plan);
  return of;
}

void add_origin(const LayerOrigin& of, Json* json) {
  (*json)["origin"] = of.origin.name;
  (*json)["wisdom"] = {{"code", name_of(of.origin.wisdom.reason)},
                       {"message", of.origin.wisdom.message}};
  if (of.known) {
    (*json)["plan"] = to_text(*of.known);
    (*json)["schedule"] = name_of(of.known->schedule);
  }
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
