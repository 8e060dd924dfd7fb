#pragma once

#include <optional>
#include <string>

#include "api/planning/sdpa_estimate.hpp"
#include "api/planning/session.hpp"
#include "base/gradients.hpp"
#include "base/sdpa.hpp"
#include "tune/reports/levels_report.hpp"
#include "tune/text/report_json.hpp"

// The plan that calls take, where it is from, and what a search would compare, of either problem.
namespace ioattn::tune {

struct ExplainedPlan {
  LevelsReport levels;
  std::optional<api::IsaChoice> isas;  // of SDPA: what every instruction set would take
  std::string timed;                   // the problem that a search would time
  Json candidates;
  std::string candidates_text;
};

struct PlanReport {
  std::string problem, plan, level;
  Pass pass = Pass::backward;
  Schedule schedule = Schedule::row_stream;
  theory::Regime regime = theory::Regime::large_cache;
  plan::Estimate estimate;  // its M is of the level that holds the blocks
  api::PlanOrigin origin;
  api::Objective objective = api::Objective::time;
  api::KnownPrice price;
  std::optional<ExplainedPlan> explained;
};

struct LayerPlanReport : PlanReport {
  plan::LayerRequest request;  // what the planner was asked
  plan::Plan pass_plan;
};

// `level_alone`: no level beyond the one that decides may hold blocks.
PlanReport report_plan(const SdpaProblem& problem, Pass pass, const api::RunOptions& options,
                       bool level_alone, bool explain);
LayerPlanReport report_plan(const LayerProblem& problem, Pass pass, const api::RunOptions& options,
                            bool level_alone, bool explain);

Json plan_json(const PlanReport& report);
std::string plan_text(const PlanReport& report);
std::string explained_text(const PlanReport& report);  // "" unless it is explained

}  // namespace ioattn::tune
