#pragma once

#include "base/isa.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "plan/objective.hpp"

namespace ioattn::plan {

// Blocks of a schedule for M words of fast memory, cache blocks in multiples of the register tile
// where M is large enough. Returns false if M is below least_fast_memory. `literal` (paper_large
// only) takes the paper's own block sizes, whether or not they fit.
bool choose_blocks(const Variant& variant, bool literal, const LayerShape& shape, index_t M,
                   const TileShape& tile, Blocks* blocks, const Price& price = {});

// Words of fast memory from which on a schedule exists.
index_t least_fast_memory(const Variant& variant, const LayerShape& shape);

}  // namespace ioattn::plan
