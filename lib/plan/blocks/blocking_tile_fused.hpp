#pragma once

#include "plan/blocks/blocking.hpp"
#include "plan/blocks/fast_memory.hpp"
#include "plan/handicaps.hpp"

namespace ioattn::plan {

// c, rho and w that take the least estimated time with M words, which hold a tile of one key and
// one query, and a column, at least; of pairs, in 16 bits, M counts numbers in f32 all the same.
Blocks choose_tile_fused(const LayerShape& shape, KeyPassKind kind, const FastMemory& memory,
                         const TileShape& tile);

// Its estimated time in multiply-adds.
double tile_fused_time(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                       const FastMemory& memory, const TileShape& tile);

// What that counts more where other passes compete, which take the same in blocks of any length:
// threads that share a head take shorter blocks than one does, and under a mask they are a share.
double longer_in_short_blocks(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                              const FastMemory& memory, const TileShape& tile);

// Those of a pass for dX with its thin products, which stay in the inner memory. M is at least
// least_fast_memory.
Blocks choose_tile_fused_backward(const LayerShape& shape, const FastMemory& memory,
                                  const TileShape& tile);
// What a pass of the layer problem makes by tiles: of S in two parts, if it multiplies pairs; and
// what it makes for dX.
constexpr KeyPassKind of_layer(KeyPassKind kind, const TileShape& tile) {
  return kind.in_parts(multiplies_pairs(tile.isa));
}
constexpr KeyPassKind tiles_of_u(const TileShape& tile) {
  return of_layer({KeyGradients::none, true}, tile);
}

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

// The same of the forward pass; its least is below that of row_stream. `parts`: S is the sum of two
// matrices in 16 bits.
Blocks choose_tile_fused_forward(const LayerShape& shape, const FastMemory& memory,
                                 const TileShape& tile, bool parts = false);
double tile_fused_forward_time(const LayerShape& shape, const Blocks& blocks,
                               const FastMemory& memory, const TileShape& tile, bool parts = false);
// No blocks are estimated to take less: all keys and queries are in one, no lane is wasted that
// need not be. Without a mask.
double least_tile_fused_forward_time(const LayerShape& shape, const FastMemory& memory,
                                     const TileShape& tile);
// With the thin products of the layer problem, in the inner memory.
Blocks choose_layer_forward_tiles(const LayerShape& shape, const FastMemory& memory,
                                  const TileShape& tile);

}  // namespace ioattn::plan
