#pragma once

#include "base/gradients.hpp"
#include "plan/planner.hpp"
#include "theory/gradients_cost.hpp"

namespace ioattn::plan {

// What is executed for a set of gradients: block sizes of every phase at the deciding level.
struct GradientPlan {
  std::string level = "L2";
  GradientBlocks blocks;
  Isa isa = Isa::scalar;
  int tile_rows = 0, tile_cols = 0;

  bool operator==(const GradientPlan&) const = default;
};

// What a plan costs.
struct GradientEstimate {
  theory::ScheduleCost cost;
  index_t fma = 0;
  index_t scratch_bytes = 0;
};

// The phases as plans: "L2:row_stream(...) > reg:avx2(6x16) ; L2:col_stream(...) > ... ;
// dA1=96x256x64". Passes and products that the set does not need are left out.
std::string to_text(const GradientPlan& plan, const GradientSet& set, Tie tie);

// The plan of a set of gradients with the least estimated time; request.pass is not read. A
// schedule can be asked for by name where dX alone decides (with dW_Q and dW_K); others need one
// that stores U, row_stream. Fails like make_plan.
Status make_gradient_plan(const PlanRequest& request, const GradientSet& set, GradientPlan* plan,
                          GradientEstimate* estimate = nullptr);

}  // namespace ioattn::plan
