#include "plan/blocks/blocking.hpp"

#include <algorithm>
#include <cmath>

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/blocking_col_stream.hpp"
#include "plan/blocks/blocking_resident.hpp"
#include "plan/blocks/blocking_rows.hpp"
#include "plan/blocks/blocking_stationary.hpp"
#include "plan/blocks/blocking_tile_fused.hpp"
#include "plan/blocks/blocking_weight_resident.hpp"

namespace ioattn::plan {
namespace {

// ---- the paper's schedules

// Side of the paper's square blocks, sqrt(M) / 2: three blocks and two vectors fit from M = 5 on.
index_t paper_side(index_t M) {
  index_t side = static_cast<index_t>(std::sqrt(static_cast<double>(M) / 4));
  while (4 * side * side > M) --side;
  while (4 * (side + 1) * (side + 1) <= M) ++side;
  return std::max<index_t>(side, 1);
}

Blocks large_blocks(Pass pass, const LayerShape& shape, index_t side) {
  Blocks blocks;
  blocks.r = pass == Pass::backward ? std::min(side, shape.d) : side;
  blocks.c = side;
  return blocks;
}

Blocks choose_large(Pass pass, bool literal, const LayerShape& shape, index_t M) {
  if (literal) {
    Blocks blocks = large_blocks(pass, shape, ceil_div(M, 4 * shape.d));
    blocks.literal = true;
    return blocks;
  }
  const index_t side = largest(longest_side(shape), [&](index_t x) {
    return footprint({pass, Schedule::paper_large}, shape, large_blocks(pass, shape, x)) <= M;
  });
  return large_blocks(pass, shape, side);
}

Blocks choose_naive(const LayerShape& shape, index_t M) {
  Blocks resident;
  if (footprint({Pass::backward, Schedule::naive}, shape, resident) <= M) return resident;
  Blocks blocks;
  blocks.r = 1;
  blocks.c = std::clamp<index_t>((M - 3) / 2, 1, longest_side(shape));
  return blocks;
}

// The blocks with which a variant exists at the least M.
Blocks smallest_blocks(const Variant& variant, const LayerShape& shape) {
  switch (variant.schedule) {
    case Schedule::naive: {
      Blocks blocks;
      blocks.r = blocks.c = 1;
      return blocks;
    }
    case Schedule::paper_large:
      return large_blocks(variant.pass, shape, variant.pass == Pass::backward ? least_block : 1);
    case Schedule::stationary:
    case Schedule::score_stored: return smallest_stationary(variant, shape);
    case Schedule::weight_resident: return smallest_weight_resident(variant, shape);
    case Schedule::resident: return smallest_resident(shape);
    case Schedule::paper_small:
    case Schedule::row_stream:
    case Schedule::q_stored:
    case Schedule::half_dim:
    case Schedule::col_stream:
    case Schedule::tile_fused: break;
  }
  return unit_blocks(variant);
}

}  // namespace

index_t least_fast_memory(const Variant& variant, const LayerShape& shape) {
  const auto [pass, schedule, form, products] = variant;
  const index_t least = footprint(variant, shape, smallest_blocks(variant, shape));
  // A pass whose results another one needs may take a word more: maxima and sums for LSE.
  return schedule == Schedule::stationary && pass == Pass::backward
             ? std::max(least, least_fast_memory({Pass::forward, schedule, form}, shape))
             : least;
}

bool choose_blocks(const Variant& variant, bool literal, const LayerShape& shape, index_t M,
                   const TileShape& tile, Blocks* blocks, const Price& price) {
  const auto [pass, schedule, form, products] = variant;
  literal = literal && schedule == Schedule::paper_large;
  if (!literal && M < least_fast_memory(variant, shape)) return false;
  const FastMemory memory = {M, 0, price};
  switch (schedule) {
    case Schedule::naive: *blocks = choose_naive(shape, M); return true;
    case Schedule::paper_small:
      *blocks = {};
      blocks->r = blocks->c = paper_side(M);
      return true;
    case Schedule::paper_large: *blocks = choose_large(pass, literal, shape, M); return true;
    case Schedule::stationary:
    case Schedule::score_stored: *blocks = choose_stationary(variant, shape, M, price); return true;
    case Schedule::row_stream:
    case Schedule::q_stored:
    case Schedule::half_dim:
      *blocks = choose_row_blocks(variant, shape, memory, tile, {.room = true});
      return true;
    case Schedule::weight_resident:
      *blocks = choose_weight_resident(variant, shape, memory, tile);
      return true;
    case Schedule::resident: *blocks = choose_resident(shape, M, tile); return true;
    case Schedule::col_stream:
      *blocks = choose_col_stream(shape, form, all_key_gradients(form, shape.tie), memory, tile);
      return true;
    case Schedule::tile_fused:
      *blocks = pass == Pass::forward ? choose_layer_forward_tiles(shape, memory, tile)
                : pass == Pass::backward
                    ? choose_tile_fused_backward(shape, memory, tile)
                    : choose_tile_fused(shape, of_layer(all_key_gradients(form, shape.tie), tile),
                                        memory, tile);
      return true;
  }
  return false;
}

}  // namespace ioattn::plan
