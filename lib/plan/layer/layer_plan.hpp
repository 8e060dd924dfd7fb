#pragma once

#include "base/gradients.hpp"
#include "base/types.hpp"
#include "plan/plan.hpp"

namespace ioattn::plan {

// What is executed for a set of gradients: block sizes of every phase at the deciding level.
struct LayerPlan {
  std::string level = "L2";
  LayerBlocks blocks;
  TileShape tile;

  bool operator==(const LayerPlan&) const = default;
};

// The phases as plans: "L2:row_stream(...) > reg:avx2(6x16) ; L2:col_stream(...) > ... ;
// dA1=96x256x64". Passes and products that the set does not need are left out.
std::string to_text(const LayerPlan& plan, const GradientSet& set, Tie tie);

// Reads exactly what to_text prints for the same set and tie. On failure returns false and says
// why.
bool parse_layer_plan(std::string_view text, const GradientSet& set, Tie tie, LayerPlan* plan,
                      std::string* error);

}  // namespace ioattn::plan
