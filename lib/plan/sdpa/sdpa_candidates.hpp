#pragma once

#include <optional>
#include <vector>

#include "plan/candidate_list.hpp"
#include "plan/sdpa/sdpa_planner.hpp"

// Plans that a search compares. No set: the forward pass.
namespace ioattn::plan {

using SdpaCandidate = PlanCandidate<SdpaPlan>;

// First the plan that needs no search, then those of every form that exists, for parts of the
// memory of both levels, most promising first, without those that are hopeless; where words decide,
// those for all of the level alone, by words. No two have the same blocks. Fails as make_plan_of
// does.
Status list_candidates(const SdpaRequest& request, const std::optional<SdpaSet>& set,
                       std::vector<SdpaCandidate>* candidates);

// The same plan with half and twice its blocks, where these fit its level.
std::vector<SdpaCandidate> neighbours(const SdpaRequest& request, const std::optional<SdpaSet>& set,
                                      const SdpaPlan& plan);

}  // namespace ioattn::plan
