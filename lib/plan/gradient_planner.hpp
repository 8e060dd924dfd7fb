#pragma once

#include "plan/gradient_plan.hpp"
#include "plan/planner.hpp"
#include "theory/gradients_cost.hpp"

namespace ioattn::plan {

// What a plan costs.
struct GradientEstimate {
  index_t M = 0;  // of the plan's level
  theory::ScheduleCost cost;
  index_t fma = 0;
  index_t scratch_bytes = 0;
};

// The plan of a set of gradients with the least estimated time; request.pass is not read. A
// schedule can be asked for by name where dX alone decides (with dW_Q and dW_K); others need one
// that stores U, row_stream. Fails like make_plan.
Status make_gradient_plan(const PlanRequest& request, const GradientSet& set, GradientPlan* plan,
                          GradientEstimate* estimate = nullptr);

}  // namespace ioattn::plan
