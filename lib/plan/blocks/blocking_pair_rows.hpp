#pragma once

#include "base/isa.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "base/sdpa.hpp"
#include "plan/blocks/fast_memory.hpp"

namespace ioattn::plan {

// Blocks of row_stream's passes of SDPA by pairs of terms, forward or of dQ and dBias; all 0 if not
// even single rows and keys fit.
Blocks choose_pair_rows(const LayerShape& shape, const FastMemory& memory, const TileShape& tile);
Blocks choose_pair_rows(const LayerShape& shape, const SdpaSet& set, const FastMemory& memory,
                        const TileShape& tile);

// Their estimated time in multiply-adds of f32.
double pair_rows_time(const LayerShape& shape, const Blocks& blocks, const FastMemory& memory,
                      const TileShape& tile);
double pair_rows_time(const LayerShape& shape, const SdpaSet& set, const Blocks& blocks,
                      const FastMemory& memory, const TileShape& tile);

}  // namespace ioattn::plan
