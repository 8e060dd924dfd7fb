#pragma once

#include <algorithm>

#include "base/problem.hpp"
#include "base/schedule.hpp"

namespace ioattn {

// Keys of a block of tile_fused in a thread of its own. A mask hides most of what a long one would
// compute: there it is a share.
inline index_t keys_of_block(const LayerShape& shape, const Blocks& blocks) {
  const bool is_share = blocks.share > 0 && shape.mask.hides();
  return std::min(is_share ? blocks.share : blocks.c, shape.m);
}

// Whether the tile of f, of numbers, waits in memory while that of q is made.
constexpr bool is_parked(const Blocks& blocks, KeyPassKind kind) {
  return blocks.parked && kind.makes_p();
}

// In which order columns come to the tiles of tile_fused, c keys by rho queries. Columns of rows
// that are a power of two apart lie in few of a cache's sets. Those of two or three operands that
// come together there drive out the tiles; what comes in different steps does not.

// Of two operands, those of one come a step ahead: twice the columns of one are there while only
// one of the two tiles is.
constexpr bool columns_come_ahead(KeyPassKind kind, index_t c, index_t rho, index_t w) {
  return kind.makes_p() && rho * c > 0 && 2 * (rho + c) * w <= rho * c;
}

// dO, V and dV, which both tiles meet, take six steps, a half of the rows or keys each: dO is
// copied in steps 0 and 1, multiplied with V in 2 and 3, packed in 4, and goes into dV in 4 and 5.
// So many columns are there at once, as copies and as panels.
constexpr index_t steps_of_values = 6;
constexpr index_t copied_steps = 5, packed_steps = 2;
constexpr index_t words_of_steps(index_t c, index_t rho, index_t w) {
  return (ceil_div(rho, 2) + (copied_steps - 1 + packed_steps - 1) * rho +
          std::max(ceil_div(c, 2), rho)) *
         w;
}
// Where these are no more than a quarter of the tiles.
constexpr bool values_come_by_steps(KeyPassKind kind, index_t c, index_t rho, index_t w,
                                    index_t e) {
  return columns_come_ahead(kind, c, rho, w) && kind.of_values() && e / w >= steps_of_values &&
         2 * words_of_steps(c, rho, w) <= rho * c;
}

// Terms of a row that PairKernels::gradients takes at most.
constexpr index_t most_terms_at_once = 512;

// Of pairs of terms one kernel (PairKernels::gradients) can make weights and their gradients if all
// columns are there, and no more than it takes, but not of S in two parts.
constexpr bool may_be_made_at_once(KeyPassKind kind, index_t w, index_t d, index_t e) {
  return kind.makes_p() && !kind.parts && d > 0 && e > 0 &&
         std::max(d, e) <= std::min(w, most_terms_at_once);
}

}  // namespace ioattn
