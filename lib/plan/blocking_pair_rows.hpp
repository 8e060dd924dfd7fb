#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "plan/fast_memory.hpp"

namespace ioattn::plan {

// Blocks of row_stream's forward pass of SDPA by pairs of terms; all 0 if not even single rows and
// keys fit.
Blocks choose_pair_rows(const LayerShape& shape, const FastMemory& memory, const TileShape& tile);

// Its estimated time in multiply-adds of f32.
double pair_rows_time(const LayerShape& shape, const Blocks& blocks, const FastMemory& memory,
                      const TileShape& tile);

}  // namespace ioattn::plan
