#pragma once

#include "plan/blocks/blocking.hpp"
#include "plan/blocks/fast_memory.hpp"

namespace ioattn::plan {

// c, rho and w that take the least estimated time with M words, which hold a tile of one key and
// one query, and a column, at least; of pairs, in 16 bits, M counts numbers in f32 all the same.
Blocks choose_tile_fused(const LayerShape& shape, KeyPassKind kind, const FastMemory& memory,
                         const TileShape& tile);

// The same of the forward pass; its least is below that of row_stream. `parts`: S is the sum of two
// matrices in 16 bits.
Blocks choose_tile_fused_forward(const LayerShape& shape, const FastMemory& memory,
                                 const TileShape& tile, bool parts = false);

// What a pass of the layer problem makes by tiles: of S in two parts, if it multiplies pairs; and
// what it makes for dX.
constexpr KeyPassKind of_layer(KeyPassKind kind, const TileShape& tile) {
  return kind.in_parts(multiplies_pairs(tile.isa));
}
constexpr KeyPassKind tiles_of_u(const TileShape& tile) {
  return of_layer({KeyGradients::none, true}, tile);
}

// Blocks of a pass for dX, and of the forward pass, with their thin products, which stay in the
// inner memory. M is at least least_fast_memory.
Blocks choose_tile_fused_backward(const LayerShape& shape, const FastMemory& memory,
                                  const TileShape& tile);
Blocks choose_layer_forward_tiles(const LayerShape& shape, const FastMemory& memory,
                                  const TileShape& tile);

}  // namespace ioattn::plan
