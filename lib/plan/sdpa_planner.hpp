#pragma once

#include <string>

#include "base/isa.hpp"
#include "base/sdpa.hpp"
#include "base/status.hpp"
#include "plan/sdpa_plan.hpp"
#include "theory/io_cost.hpp"

namespace ioattn::plan {

struct SdpaRequest {
  SdpaShape shape;  // sizes at least 1
  DType dtype = DType::f32;
  std::string level = "L2";  // deciding level; "M" when M was given by the user
  index_t M = 0;             // words of fast memory
  index_t outer_M = 0;       // of L3, which may hold blocks that are too short in L2; 0: it may not
  index_t memory_limit_bytes = -1;
  TileShape tile;

  bool operator==(const SdpaRequest&) const = default;
};

// What a plan costs.
struct SdpaEstimate {
  index_t M = 0;  // of the plan's level
  theory::ScheduleCost cost;
  index_t fma = 0;
  index_t scratch_bytes = 0;
};

// Blocks of one head, held in M words or, where that is a twentieth faster, in outer_M, which all
// heads share. They do not depend on the mask, so that slices of a sequence have the same. Fail
// with fast_memory_too_small (naming the least M that works) or memory_limit.
Status make_sdpa_plan(const SdpaRequest& request, SdpaPlan* plan, SdpaEstimate* estimate = nullptr);
Status make_sdpa_plan(const SdpaRequest& request, const SdpaSet& set, SdpaPlan* plan,
                      SdpaEstimate* estimate = nullptr);

// Whether the scratch memory of gradients, delta of so many queries, is within a limit in bytes;
// below 0 there is none.
Status check_scratch(const SdpaSet& set, index_t queries, DType dtype, index_t limit);

}  // namespace ioattn::plan
