#include "plan/blocking.hpp"

#include <algorithm>
#include <cmath>

#include "plan/block_search.hpp"
#include "theory/io_cost.hpp"

namespace ioattn::plan {
namespace {

index_t longest_side(const LayerShape& shape) {
  return std::max({shape.n, shape.m, shape.d, shape.dv});
}

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

// ---- row_stream

// The streamed blocks, which live beside the resident rows in phases that are not the largest.
void widen_streams(const Variant& variant, const LayerShape& shape, index_t M,
                   const TileShape& tile, Blocks* blocks) {
  widen(variant, shape, M, std::max(shape.d, shape.dv), tile.rows, &Blocks::w, blocks);
  widen(variant, shape, M, shape.n, 1, &Blocks::o, blocks);
  // dX square first, so that neither side is cut to one row.
  const index_t side = largest(shape.d, [&](index_t x) {
    Blocks trial = *blocks;
    trial.a = trial.b = x;
    return footprint(variant, shape, trial) <= M;
  });
  blocks->b = whole_tiles(std::max<index_t>(side, 1), tile.cols);
  widen(variant, shape, M, shape.d, tile.rows, &Blocks::a, blocks);
}

// Estimated time in multiply-adds. The products whose sums are as long as a block are U (or Z, O)
// over c keys and dX over rho rows; the others sum over d.
double row_stream_time(const Variant& variant, const LayerShape& shape, const Blocks& blocks,
                       const TileShape& tile) {
  const index_t words =
      theory::io_cost(variant.pass, variant.schedule, shape, blocks).total().words();
  const double n = static_cast<double>(shape.n), m = static_cast<double>(shape.m);
  const double d = static_cast<double>(shape.d);
  const index_t used = std::min(blocks.rho, shape.n);
  return fma_per_word * static_cast<double>(words) +
         n * m * d * (1 / efficiency(std::min(blocks.c, shape.m)) + 2 * wasted_lanes(used, tile)) +
         n * d * d / efficiency(used);
}

Blocks choose_row_stream(const Variant& variant, const LayerShape& shape, index_t M,
                         const TileShape& tile) {
  Blocks smallest = unit_blocks(variant);
  if (variant.form == Form::h) smallest.h = choose_product({shape.m, shape.d, shape.dv}, M);
  Blocks blocks = search_rows(variant, shape, M, tile, smallest, row_stream_time);
  widen_streams(variant, shape, M, tile, &blocks);
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
    case Schedule::weight_resident: return smallest_weight_resident(variant, shape);
    case Schedule::resident: return smallest_resident(shape);
    case Schedule::paper_small:
    case Schedule::row_stream: break;
  }
  return unit_blocks(variant);
}

}  // namespace

index_t least_fast_memory(const Variant& variant, const LayerShape& shape) {
  return footprint(variant, shape, smallest_blocks(variant, shape));
}

bool choose_blocks(const Variant& variant, bool literal, const LayerShape& shape, index_t M,
                   const TileShape& tile, Blocks* blocks) {
  const auto [pass, schedule, form, products] = variant;
  literal = literal && schedule == Schedule::paper_large;
  if (!literal && M < least_fast_memory(variant, shape)) return false;
  switch (schedule) {
    case Schedule::naive: *blocks = choose_naive(shape, M); return true;
    case Schedule::paper_small:
      *blocks = {};
      blocks->r = blocks->c = paper_side(M);
      return true;
    case Schedule::paper_large: *blocks = choose_large(pass, literal, shape, M); return true;
    case Schedule::row_stream: *blocks = choose_row_stream(variant, shape, M, tile); return true;
    case Schedule::weight_resident:
      *blocks = choose_weight_resident(variant, shape, M, tile);
      return true;
    case Schedule::resident: *blocks = choose_resident(shape, M, tile); return true;
  }
  return false;
}

}  // namespace ioattn::plan
