#pragma once

#include <string>

#include "theory/schedule_cost.hpp"

namespace ioattn::plan {

// What a plan costs, of the layer problem one entry but for the memory.
struct Estimate {
  index_t M = 0;  // of the plan's level
  theory::ScheduleCost cost;
  index_t fma = 0;
  index_t scratch_bytes = 0;
  double time = 0;  // in multiply-adds, of SDPA of a head, whatever decides
};

// A plan that a search compares with others.
template <class Plan>
struct PlanCandidate {
  Plan plan;
  Estimate estimate;
  std::string made_from = {};  // "estimate", "rows in 4/8 of L2", "half of c"
};

}  // namespace ioattn::plan
