#pragma once

#include "api/search/layer_search.hpp"
#include "tune/reports/candidates_report.hpp"
#include "tune/reports/levels_report.hpp"

// Where the plan of a layer problem that calls take is from, and what a search would compare.
namespace ioattn::tune {

struct LayerOrigin {
  plan::LayerRequest request;  // what the planner was asked
  plan::Plan plan;
  plan::Estimate estimate;  // its M is of the level that holds its blocks
  api::PlanOrigin origin;
  std::optional<LevelsReport> levels;  // if it is to be explained
  api::Objective objective = api::Objective::time;
  std::optional<GradientSet> set;                // dX; none: the forward pass
  std::optional<api::LayerSearchReport> report;  // if it is to be explained
};
// `level_alone`: no level beyond the one that decides may hold blocks.
LayerOrigin origin_of(Pass pass, const LayerProblem& problem, const api::RunOptions& options,
                      bool level_alone, bool explain);

void add_origin(const LayerOrigin& of, Json* json);
std::string origin_text(const LayerOrigin& of);
std::string search_text(const LayerOrigin& of);  // "" unless it is explained

}  // namespace ioattn::tune
