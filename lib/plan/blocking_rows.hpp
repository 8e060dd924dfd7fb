#pragma once

#include "plan/blocking.hpp"

namespace ioattn::plan {

// Blocks of the schedules that are a pass over rows of queries, with their thin products. M is at
// least least_fast_memory.
Blocks choose_row_blocks(const Variant& variant, const LayerShape& shape, index_t M,
                         const TileShape& tile);

}  // namespace ioattn::plan
