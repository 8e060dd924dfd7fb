#pragma once

#include "plan/blocking.hpp"
#include "plan/fast_memory.hpp"

namespace ioattn::plan {

// Words of fast memory from which on pairs of score tiles exist: one key, one query, one column.
index_t least_tile_fused(const LayerShape& shape, KeyPassKind kind);

// c, rho and w that take the least estimated time with M >= least_tile_fused words; of pairs, in 16
// bits, M counts numbers in f32 all the same.
Blocks choose_tile_fused(const LayerShape& shape, KeyPassKind kind, const FastMemory& memory,
                         const TileShape& tile);

// Its estimated time in multiply-adds.
double tile_fused_time(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                       const FastMemory& memory, const TileShape& tile);

// The same of the forward pass; its least is below that of row_stream.
Blocks choose_tile_fused_forward(const LayerShape& shape, const FastMemory& memory,
                                 const TileShape& tile);
double tile_fused_forward_time(const LayerShape& shape, const Blocks& blocks,
                               const FastMemory& memory, const TileShape& tile);

}  // namespace ioattn::plan
