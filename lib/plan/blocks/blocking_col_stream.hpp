#pragma once

#include "plan/blocks/blocking.hpp"
#include "plan/blocks/fast_memory.hpp"

namespace ioattn::plan {

// Words of fast memory from which on a pass over the keys exists: one key, one query.
index_t least_col_stream(const LayerShape& shape, Form form, KeyPassKind kind);

// c and rho that take the least estimated time with M >= least_col_stream words.
Blocks choose_col_stream(const LayerShape& shape, Form form, KeyPassKind kind,
                         const FastMemory& memory, const TileShape& tile);

// Its estimated time in multiply-adds.
double col_stream_time(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                       const FastMemory& memory, const TileShape& tile);

}  // namespace ioattn::plan
