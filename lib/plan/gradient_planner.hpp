#pragma once

#include <vector>

#include "plan/gradient_plan.hpp"
#include "plan/planner.hpp"
#include "theory/gradients_cost.hpp"

namespace ioattn::plan {

// What a plan costs, of one entry but for the memory.
struct GradientEstimate {
  index_t M = 0;  // of the plan's level
  theory::ScheduleCost cost;
  index_t fma = 0;
  index_t scratch_bytes = 0;
  double time = 0;  // in multiply-adds, whatever decides
};

// The plan of a set of gradients with the least estimated time; request.pass is not read. A
// schedule can be asked for by name where dX alone decides (with dW_Q and dW_K); others need one
// that stores U, row_stream. Fails like make_plan.
Status make_gradient_plan(const PlanRequest& request, const GradientSet& set, GradientPlan* plan,
                          GradientEstimate* estimate = nullptr);

struct GradientCandidate {
  GradientPlan plan;
  GradientEstimate estimate;
};
// The plans that it is chosen from: every way to compute the set, with blocks in M or, where
// `outer`, in outer_M.
std::vector<GradientCandidate> gradient_candidates(const PlanRequest& request,
                                                   const GradientSet& set, bool outer);

}  // namespace ioattn::plan
