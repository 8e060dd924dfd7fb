#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/candidate_list.hpp"
#include "plan/layer/gradient_planner.hpp"

// Plans of the layer problem that a search compares. No set: the forward pass, of whose plan
// schedule and rows alone count.
namespace ioattn::plan {

// make_plan or make_gradient_plan, as text too; request.pass is not read.
Status make_plan_of(const LayerRequest& request, const std::optional<GradientSet>& set,
                    LayerPlan* plan, Estimate* estimate);
Plan pass_of(const LayerPlan& plan);  // its schedule and rows
std::string to_text(const LayerPlan& plan, const std::optional<GradientSet>& set, Tie tie);
bool parse_plan_of(std::string_view text, const std::optional<GradientSet>& set, Tie tie,
                   LayerPlan* plan, std::string* error);
// What any plan of the request's level, or of outer_M, costs; the time is not looked at.
void estimate_costs(const LayerRequest& request, const std::optional<GradientSet>& set,
                    const LayerPlan& plan, Estimate* estimate);

// As those of SDPA (sdpa_candidates.hpp): first the plan that needs no search, then every schedule
// in its forms for parts of the memory of both levels, most promising first, without those that are
// hopeless. No two have the same blocks. Fails as make_plan_of does.
Status list_candidates(const LayerRequest& request, const std::optional<GradientSet>& set,
                       std::vector<LayerCandidate>* candidates);

// The same plan with half and twice its blocks, where these fit its level.
std::vector<LayerCandidate> neighbours(const LayerRequest& request,
                                       const std::optional<GradientSet>& set,
                                       const LayerPlan& plan);

}  // namespace ioattn::plan
