#pragma once

#include "plan/blocks/blocking.hpp"
#include "plan/blocks/fast_memory.hpp"

namespace ioattn::plan {

// The blocks with which `weight_resident` exists at the least M.
Blocks smallest_weight_resident(const Variant& variant, const LayerShape& shape);

// The blocks that cost least with M words, at least the footprint of the smallest ones.
Blocks choose_weight_resident(const Variant& variant, const LayerShape& shape,
                              const FastMemory& memory, const TileShape& tile);

}  // namespace ioattn::plan
