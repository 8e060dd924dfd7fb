#pragma once

#include "plan/blocking.hpp"

namespace ioattn::plan {

// Words of fast memory from which on a pass over the keys exists: one key, one query.
index_t least_col_stream(const LayerShape& shape, Form form, KeyPassKind kind);

// c and rho that take the least estimated time with M >= least_col_stream words.
Blocks choose_col_stream(const LayerShape& shape, Form form, KeyPassKind kind, index_t M,
                         const TileShape& tile);

}  // namespace ioattn::plan
