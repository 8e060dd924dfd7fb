#pragma once

#include "plan/sdpa/sdpa_planner.hpp"

namespace ioattn::plan {

// Words of the request's dtype from which on score tiles of tile_fused exist: whatever the depth,
// where rows need more. Of gradients without dBias.
index_t least_of_tiles(const SdpaRequest& request);
index_t least_of_tiles(const SdpaRequest& request, const SdpaSet& set);

}  // namespace ioattn::plan
