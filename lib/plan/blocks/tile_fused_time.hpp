#pragma once

#include "plan/blocks/blocking.hpp"
#include "plan/blocks/fast_memory.hpp"
#include "plan/handicaps.hpp"

// Estimated times of passes by tiles, in multiply-adds.
namespace ioattn::plan {

double tile_fused_time(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                       const FastMemory& memory, const TileShape& tile);

// What that counts more where other passes compete, which take the same in blocks of any length:
// threads that share a head take shorter blocks than one does, and under a mask they are a share.
double longer_in_short_blocks(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                              const FastMemory& memory, const TileShape& tile);

// Of the forward pass. `parts`: S is the sum of two matrices in 16 bits.
double tile_fused_forward_time(const LayerShape& shape, const Blocks& blocks,
                               const FastMemory& memory, const TileShape& tile, bool parts = false);
// No blocks are estimated to take less: all keys and queries are in one, no lane is wasted that
// need not be. Without a mask.
double least_tile_fused_forward_time(const LayerShape& shape, const FastMemory& memory,
                                     const TileShape& tile);

// What products of pairs save of the time of S = A1 X and h = A3 Y, beside those of f32.
double saved_of_thin_products(const LayerShape& shape, const TileShape& tile);

// A time by tiles as it counts where other passes compete; the second of the layer problem.
inline double handicapped_tiles(double time, const Price& price, double part = handicap::tiles) {
  return price.of_words() ? time : time / part;
}
inline double handicapped_tiles(double time, const Price& price, const TileShape& tile) {
  return handicapped_tiles(time, price,
                           multiplies_pairs(tile.isa) ? handicap::tiles_of_pairs : handicap::tiles);
}

}  // namespace ioattn::plan
