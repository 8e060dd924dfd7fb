#pragma once

#include <vector>

#include "plan/layer/planner.hpp"

// What schedules of the layer problem gain where blocks are held in L3, and what their shapes cost.
namespace ioattn::plan {

// Multiply-adds and words alone, in multiply-adds.
inline double estimated_time(const LayerRequest& request, const Candidate& c) {
  return static_cast<double>(c.fma) +
         request.per_word() * static_cast<double>(c.cost.total().words());
}

// Whether its blocks may be held in L3; thin products that are phases of their own stay in M.
bool may_be_outer(Pass pass, const Candidate& c);
Candidate held_in_outer(const LayerRequest& request, const Candidate& inner);

// Where time decides, the fastest of `best`, of tiles, and of those in L3 that save enough: tiles,
// and row_stream where that is best.
Candidate fastest(const LayerRequest& request, const Candidate& best,
                  const std::vector<Candidate>& all);

}  // namespace ioattn::plan
