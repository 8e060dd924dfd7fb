#include <algorithm>

#include "base/tile_steps.hpp"
#include "theory/block_costs.hpp"
#include "theory/block_sums.hpp"
#include "theory/sdpa_half_cost.hpp"

// tile_fused: N T pairs of tiles, N = ceil(n / rho) of a head, T = ceil(m / c).
namespace ioattn::theory {

TileSums tile_sums(const LayerShape& shape, index_t c, index_t rho) {
  const BlockSums sums = block_sums(shape.mask.transposed(), shape.m, shape.n, c, rho);
  return {sums.columns, sums.row_tiles, sums.pairs, sums.rows};
}

// f is used for dV before p takes its place, and dO streams once for both q and dV: q is a tile of
// its own while it is summed. Columns that come ahead are fewer than its words. Parked, f is
// written before there is a q, and read row by row as p takes that one's place: dO streams for
// each.
IoCost tile_fused(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind, index_t heads,
                  bool accumulate) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t c = keys_of_block(shape, blocks), rho = std::min(blocks.rho, n);
  const index_t w_d = std::min(blocks.w, d), w_e = std::min(blocks.w, e);
  const TileSums tiles = tile_sums(shape, c, rho);
  const index_t p = kind.makes_p() ? 1 : 0, u = kind.queries ? d : 0;
  const index_t k = kind.of_keys() ? d : 0, v = kind.of_values() ? e : 0;
  const bool parked = is_parked(blocks, kind);
  const bool twice = kind.makes_p() && kind.of_values() && !parked;  // dO is needed in two layouts

  IoCost cost;
  cost.reads = heads * tiles.queries * (d + e + 1 + p + k + u) +
               heads * tiles.keys * (d + p * e + u + k + v);
  cost.writes = heads * tiles.keys * (k + v) + heads * tiles.queries * u;
  cost.created = heads * tiles.pairs * (1 + p) + (twice ? heads * tiles.queries * e : 0);
  if (parked) {
    cost.reads += heads * (tiles.pairs + (kind.of_values() ? tiles.queries * e : 0));
    cost.writes += heads * tiles.pairs;
  }
  const index_t score = rho * c + rho + (rho + c) * w_d;
  const bool by_steps =
      !parked &&
      values_come_by_steps(kind, c, rho,
                           std::clamp<index_t>(blocks.w, 1, std::max({d, e, index_t(1)})), e);
  const index_t beside =
      by_steps ? words_of_steps(c, rho, w_e) : (rho + c) * w_e + (twice ? rho * w_e : 0);
  const index_t values = (parked ? 1 : 1 + p) * rho * c + std::max(beside, parked ? rho + c : 0);
  cost.footprint = std::max(score, values);
  if (accumulate) return cost;

  const index_t sums = m * (k + v) + heads * n * u;
  cost.created += sums;
  if (shape.mask.hides()) {
    cost.writes += sums;  // zeros: the first tile of an entry need not see all of it
  } else {
    cost.reads -= sums;
  }
  return cost;
}

IoCost tile_fused(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                  const Weights& weights) {
  return weights.are_of_halves() ? pair_tiles_cost(shape, blocks, kind)
                                 : tile_fused(shape, blocks, kind);
}

ScheduleCost tile_fused_backward(const LayerShape& shape, const Blocks& blocks,
                                 const Weights& weights) {
  ScheduleCost cost;
  add_thin_products(shape, blocks, weights.by_pairs(), &cost);
  cost.add("tile_fused", tile_fused(shape, blocks, {KeyGradients::none, true}, weights));
  add_dx_product(shape, blocks, weights, &cost);
  return cost;
}

TileSums forward_tile_sums(const LayerShape& shape, const Blocks& blocks) {
  const index_t n = shape.n, m = shape.m;
  const index_t c = std::min(blocks.c, m), rho = std::min(blocks.rho, n);
  const BlockSums sums = block_sums(shape.mask, n, m, rho, c);
  return {sums.row_tiles, sums.columns, sums.pairs};
}

IoCost tile_fused_forward_pass(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t c = std::min(blocks.c, m), rho = std::min(blocks.rho, n);
  const index_t w_d = std::min(blocks.w, d), w_e = std::min(blocks.w, e);
  const TileSums tiles = forward_tile_sums(shape, blocks);
  IoCost cost;
  cost.reads = tiles.queries * (d + e) + tiles.keys * (d + e);
  cost.writes = tiles.queries * e + n;
  cost.created = tiles.pairs + tiles.queries + n * (e + 2);
  cost.footprint = 2 * rho + rho * c + std::max((rho + c) * w_d, rho + (rho + c) * w_e);
  if (mask.hides()) {
    cost.writes += n * e;  // zeros
  } else {
    cost.reads -= n * e;
  }
  return cost;
}

IoCost tile_fused_forward_pass(const LayerShape& shape, const Blocks& blocks,
                               const Weights& weights) {
  return weights.are_of_halves() ? pair_tiles_forward_cost(shape, blocks)
                                 : tile_fused_forward_pass(shape, blocks);
}

ScheduleCost tile_fused_forward(const LayerShape& shape, const Blocks& blocks,
                                const Weights& weights) {
  ScheduleCost cost;
  add_s_product(shape, blocks, weights.by_pairs(), &cost);
  add_h_product(shape, blocks, weights.by_pairs(), &cost);
  cost.add("tile_fused", tile_fused_forward_pass(shape, blocks, weights));
  return cost;
}

}  // namespace ioattn::theory
