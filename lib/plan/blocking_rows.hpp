#pragma once

#include "plan/blocking.hpp"
#include "plan/fast_memory.hpp"

namespace ioattn::plan {

// Blocks of the schedules that are a pass over rows of queries, with their thin products. M is at
// least least_fast_memory.
Blocks choose_row_blocks(const Variant& variant, const LayerShape& shape, const FastMemory& memory,
                         const TileShape& tile);

// Its estimated time in multiply-adds.
double row_pass_time(const Variant& variant, const LayerShape& shape, const Blocks& blocks,
                     const FastMemory& memory, const TileShape& tile);

}  // namespace ioattn::plan
