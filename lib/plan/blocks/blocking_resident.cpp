#include "plan/blocks/blocking_resident.hpp"

#include <algorithm>

#include "plan/blocks/block_search.hpp"

namespace ioattn::plan {
namespace {
constexpr Variant resident = {Pass::backward, Schedule::resident};
}

Blocks smallest_resident(const LayerShape& shape) {
  Blocks blocks = unit_blocks(resident);
  blocks.r = std::min(least_block, shape.n);
  return blocks;
}

// Blocks change no word: they are as long as the kernels gain from, and short enough for threads to
// share.
Blocks choose_resident(const LayerShape& shape, index_t M, const TileShape& tile) {
  Blocks blocks = smallest_resident(shape);
  widen(resident, shape, M, std::min(longest_rho, shape.n), tile.cols, &Blocks::r, &blocks);
  widen(resident, shape, M, std::min(longest_rho, shape.m), tile.rows, &Blocks::c, &blocks);
  return blocks;
}

}  // namespace ioattn::plan
