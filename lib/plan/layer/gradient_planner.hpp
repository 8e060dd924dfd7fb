#pragma once

#include <vector>

#include "plan/candidate.hpp"
#include "plan/layer/layer_plan.hpp"
#include "plan/layer/planner.hpp"
#include "theory/gradients_cost.hpp"

namespace ioattn::plan {

// The plan of a set of gradients with the least estimated time; request.pass is not read. A
// schedule can be asked for by name where dX alone decides (with dW_Q and dW_K); others take
// row_stream, q_stored, half_dim or tile_fused. Fails like make_plan.
Status make_gradient_plan(const LayerRequest& request, const GradientSet& set, LayerPlan* plan,
                          Estimate* estimate = nullptr);

using LayerCandidate = PlanCandidate<LayerPlan>;
// The plans that it is chosen from, without names: every way to compute the set, with blocks in M
// or, where `outer`, in outer_M.
std::vector<LayerCandidate> gradient_candidates(const LayerRequest& request, const GradientSet& set,
                                                bool outer);

}  // namespace ioattn::plan
