#pragma once

#include "plan/blocks/blocking.hpp"

namespace ioattn::plan {

// The blocks with which `resident` exists at the least M.
Blocks smallest_resident(const LayerShape& shape);

// Blocks for M words, at least the footprint of the smallest ones.
Blocks choose_resident(const LayerShape& shape, index_t M, const TileShape& tile);

}  // namespace ioattn::plan
