#include "tune/reports/plan_report.hpp"

#include <fmt/format.h>

#include "api/planning/layer_planning.hpp"
#include "api/search/layer_search.hpp"
#include "api/search/sdpa_search.hpp"
#include "plan/layer/layer_candidates.hpp"
#include "tune/command_error.hpp"
#include "tune/reports/candidates_report.hpp"
#include "tune/reports/rates_report.hpp"

namespace ioattn::tune {
namespace {

Json isas_json(const api::IsaChoice& choice) {
  Json list = Json::array();
  for (const api::IsaTrial& trial : choice.trials) {
    list.push_back({{"isa", name_of(trial.isa)},
                    {"time", trial.time},
                    {"rate", trial.is_measured ? "measured" : "assumed"},
                    {"estimate", trial.isa == choice.chosen}});
  }
  return list;
}

// "instruction sets: avx512, avx2 in 0.72 of its time at assumed rates; estimates take avx2".
std::string isas_text(const api::IsaChoice& choice) {
  std::string text = std::string("instruction sets: ") + name_of(choice.trials[0].isa);
  for (std::size_t i = 1; i < choice.trials.size(); ++i) {
    const api::IsaTrial& trial = choice.trials[i];
    text += fmt::format(", {} in {:.2f} of its time at {} rates", name_of(trial.isa), trial.time,
                        trial.is_measured ? "measured" : "assumed");
  }
  if (choice.trials.size() == 1) return text + " alone is looked at";
  return text + "; the estimate takes " + name_of(choice.chosen);
}

template <class Kind>
typename Kind::Request request_of(const typename Kind::Problem& problem,
                                  const typename Kind::Set& set, const api::RunOptions& options,
                                  bool level_alone) {
  typename Kind::Request request;
  require(Kind::request_of(problem, set, options, &request));
  if (level_alone) request.outer_M = 0;
  return request;
}

// What a search would compare, were it for a level of the caller's.
template <class Kind>
api::SearchReportOf<Kind> candidates_of_level(const typename Kind::Problem& problem,
                                              const typename Kind::Set& set,
                                              const api::RunOptions& options) {
  api::SearchReportOf<Kind> report;
  report.timed = Kind::timed(problem, set, Kind::threads(problem, options));
  require(plan::list_candidates(request_of<Kind>(report.timed, set, options, true), set,
                                &report.candidates));
  report.timings.resize(report.candidates.size());
  return report;
}

template <class Kind>
void add_candidates(const typename Kind::Problem& problem, const typename Kind::Set& set,
                    const api::RunOptions& options, bool level_alone, ExplainedPlan* explained) {
  const api::SearchReportOf<Kind> report = level_alone
                                               ? candidates_of_level<Kind>(problem, set, options)
                                               : candidates_of<Kind>(problem, set, options);
  explained->timed = to_text(report.timed);
  explained->candidates = candidates_json(report, set);
  explained->candidates_text = candidates_text(report, set);
}

}  // namespace

PlanReport report_plan(const SdpaProblem& problem, Pass pass, const api::RunOptions& options,
                       bool level_alone, bool explain) {
  std::optional<SdpaSet> set;
  if (pass == Pass::backward) set = SdpaSet{.dQ = true, .dK = true, .dV = true};
  PlanReport report;
  plan::SdpaPlan plan;
  // Asked even for a level of the caller's: it tells why wisdom has no say.
  require(api::plan_sdpa(problem, set, options, &plan, &report.estimate, &report.origin));
  const auto request = request_of<api::SdpaKind>(problem, set, options, level_alone);
  if (level_alone) require(api::estimate_sdpa(request, set, options, &plan, &report.estimate));
  report.problem = to_text(problem);
  report.plan = to_text(plan);
  report.level = plan.level;
  report.pass = pass;
  report.schedule = set ? plan.blocks.by_keys : forward_schedule(plan.blocks.rows);
  report.regime = theory::regime(problem.shape.head(), report.estimate.M);
  report.objective = options.objective;
  report.price = api::known_price(options, plan.tile.isa, problem.dtype);
  if (!explain) return report;
  ExplainedPlan& explained = report.explained.emplace();
  explained.levels = levels_of(request, set, plan);
  plan::SdpaPlan estimated;
  require(api::estimate_sdpa(request, set, options, &estimated, nullptr, nullptr,
                             &explained.isas.emplace()));
  add_candidates<api::SdpaKind>(problem, set, options, level_alone, &explained);
  return report;
}

LayerPlanReport report_plan(const LayerProblem& problem, Pass pass, const api::RunOptions& options,
                            bool level_alone, bool explain) {
  std::optional<GradientSet> set;
  if (pass == Pass::backward) set = GradientSet{.dX = true};
  LayerPlanReport report;
  report.request = request_of<api::LayerKind>(problem, set, options, level_alone);
  plan::LayerPlan plan;
  // Asked even for a level of the caller's: it tells why wisdom has no say.
  require(api::plan_layer(problem, set, options, &plan, &report.estimate, &report.origin));
  if (level_alone) require(plan::make_plan_of(report.request, set, &plan, &report.estimate));
  report.pass_plan = plan::pass_of(plan);
  report.problem = to_text(report.request.problem);
  report.plan = to_text(report.pass_plan);
  report.level = plan.level;
  report.pass = pass;
  report.schedule = report.pass_plan.schedule;
  report.regime = theory::regime(problem.shape, report.estimate.M);
  report.objective = options.objective;
  report.price = api::known_price(options, report.request.tile.isa, problem.dtype);
  if (!explain) return report;
  ExplainedPlan& explained = report.explained.emplace();
  explained.levels = levels_of(report.request, set, plan);
  add_candidates<api::LayerKind>(problem, set, options, level_alone, &explained);
  return report;
}

Json plan_json(const PlanReport& report) {
  const IoCost total = report.estimate.cost.total();
  Json json;
  json["problem"] = report.problem;
  json["pass"] = name_of(report.pass);
  json["objective"] = name_of(report.objective);
  json["price"] = price_json(report.price);
  json["level"] = report.level;
  json["M"] = report.estimate.M;
  json["regime"] = name_of(report.regime);
  json["plan"] = report.plan;
  json["schedule"] = name_of(report.schedule);
  json["words"] = total.words();
  json["footprint"] = total.footprint;
  json["fma"] = report.estimate.fma;
  json["origin"] = report.origin.name;
  json["wisdom"] = {{"code", name_of(report.origin.wisdom.reason)},
                    {"message", report.origin.wisdom.message}};
  if (!report.explained) return json;
  json["why"] = why_of(report.origin, report.objective);
  json["predicted"] = levels_json(report.explained->levels);
  if (report.explained->isas) json["instruction_sets"] = isas_json(*report.explained->isas);
  json["candidates"] = report.explained->candidates;
  return json;
}

std::string plan_text(const PlanReport& report) {
  const IoCost total = report.estimate.cost.total();
  std::string text = fmt::format("{}, {} pass\nobjective: {}\nplan: {}\n", report.problem,
                                 name_of(report.pass), name_of(report.objective), report.plan);
  text +=
      fmt::format("{}: M = {} words, {}; {} words, {} multiply-adds, footprint {}\n", report.level,
                  grouped(report.estimate.M), name_of(report.regime), grouped(total.words()),
                  grouped(report.estimate.fma), grouped(total.footprint));
  text += fmt::format("origin: {}\n", report.origin.name);
  if (report.explained) text += fmt::format("why: {}\n", why_of(report.origin, report.objective));
  return text + price_text(report.price) + "\n";
}

std::string explained_text(const PlanReport& report) {
  if (!report.explained) return "";
  const ExplainedPlan& explained = *report.explained;
  std::string text = explained.isas ? isas_text(*explained.isas) + "\n" : "";
  text += levels_text(explained.levels);
  return text + fmt::format("a search would compare, for {}:\n{}", explained.timed,
                            explained.candidates_text);
}

}  // namespace ioattn::tune
