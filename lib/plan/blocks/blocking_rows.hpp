#pragma once

#include "plan/blocks/blocking.hpp"
#include "plan/blocks/fast_memory.hpp"

namespace ioattn::plan {

// Blocks of the schedules that are a pass over rows of queries. M is at least least_fast_memory.
// products: with those of the thin products, which SDPA has none of (row_stream, stored). room:
// fewer keys where rows fill no lanes; SDPA has tiles for that.
struct RowNeeds {
  bool products = true, room = false;
};
Blocks choose_row_blocks(const Variant& variant, const LayerShape& shape, const FastMemory& memory,
                         const TileShape& tile, RowNeeds needs = {});

// Its estimated time in multiply-adds.
double row_pass_time(const Variant& variant, const LayerShape& shape, const Blocks& blocks,
                     const FastMemory& memory, const TileShape& tile);

}  // namespace ioattn::plan
