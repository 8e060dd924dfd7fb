#include "theory/sdpa_half_cost.hpp"

#include <algorithm>

#include "base/tile_steps.hpp"
#include "theory/block_costs.hpp"

namespace ioattn::theory {
namespace {

// What is resident is in f32.
IoCost resident_in_f32(IoCost cost) {
  cost.created *= 2;
  cost.footprint *= 2;
  return cost;
}

// Sums over queries: of how many words a gradient of all keys has.
index_t key_sums(const LayerShape& head, const KeyPassKind& kind) {
  return head.m * ((kind.of_keys() ? head.d : 0) + (kind.of_values() ? head.dv : 0));
}

// dK and dV stay and are rounded as they are written; dQ passes through memory in f32.
IoCost col_stream_cost(const LayerShape& head, const SdpaSet& set, const Blocks& blocks,
                       const KeyPassKind& kind, index_t group) {
  const bool in_place = set.in_f32;
  const index_t sums = key_sums(head, kind);
  const index_t queries = group * col_streamed_queries(head, blocks);
  IoCost cost = col_stream(head, blocks, kind, group, in_place && set.accumulate);
  // LSE, delta and dQ.
  index_t reads_in_f32 = queries * (kind.makes_p() ? 2 : 1);
  if (kind.queries) {
    reads_in_f32 += queries * head.d;
    const bool zeros = head.mask.hides() || (in_place && set.accumulate);
    if (!zeros) reads_in_f32 -= group * head.n * head.d;
  }
  cost.reads += reads_in_f32;
  if (in_place) {
    cost.writes *= 2;
    if (set.accumulate) cost.reads += sums;
    return cost;
  }
  cost.writes = 2 * (cost.writes - sums) + sums;
  if (set.accumulate) {
    cost.reads += sums;
    cost.created -= sums;
  }
  return cost;
}

// All gradients pass through memory in f32; dK and dV of a block of keys are rounded at its end.
IoCost tile_fused_cost(const LayerShape& head, const SdpaSet& set, const Blocks& blocks,
                       const KeyPassKind& kind, index_t group) {
  const bool accumulates = set.in_f32 && set.accumulate;
  const index_t sums = key_sums(head, kind);
  const TileSums tiles = tile_sums(head, keys_of_block(head, blocks), std::min(blocks.rho, head.n));
  IoCost cost = tile_fused(head, blocks, kind, group, accumulates);
  const index_t u = kind.queries ? head.d : 0;
  index_t reads_in_f32 =
      group * tiles.queries * ((kind.makes_p() ? 2 : 1) + u) + group * tiles.keys * (sums / head.m);
  if (is_parked(blocks, kind)) reads_in_f32 += group * tiles.pairs;
  if (!accumulates && !head.mask.hides()) reads_in_f32 -= sums + group * head.n * u;
  cost.reads += reads_in_f32;
  cost.writes *= 2;
  if (set.in_f32) return cost;
  cost.reads += (set.accumulate ? 3 : 2) * sums;
  cost.writes += sums;
  return cost;
}

}  // namespace

// The scores, the rounded weights and the sums; what streams past in 16 bits.
index_t pair_tiles_footprint(const LayerShape& head, const Blocks& blocks, KeyPassKind kind,
                             index_t rounded_together) {
  const index_t c = keys_of_block(head, blocks), rho = std::min(blocks.rho, head.n);
  const index_t w_d = std::min(blocks.w, head.d), w_e = std::min(blocks.w, head.dv);
  const index_t tile = rho * c;
  const index_t f = 2 * tile, rounded = f + tile, q = kind.makes_p() ? 2 * tile : 0;
  const index_t parts = kind.parts ? 2 : 1;
  const index_t score = f + 2 * rho + (parts * rho + c) * w_d;
  const index_t for_q = kind.makes_p() ? c * w_e : 0;
  const index_t for_values = kind.of_values() ? (kind.makes_p() ? rho * w_e : 0) + 2 * c * w_e : 0;
  const index_t values = rounded + q + rho * w_e + std::max(for_q, for_values);
  const index_t packing = blocks.packed ? 2 * c * std::max(w_d, kind.makes_p() ? w_e : 0) : 0;
  const index_t p = kind.makes_p() ? rounded + q + 2 * rho : 0;
  const index_t of_keys = kind.of_keys() ? rounded + (parts * rho + 2 * c) * w_d : 0;
  const index_t of_queries = kind.queries ? rounded + (2 * rho + c) * w_d : 0;
  const index_t rounding =
      2 * rounded_together *
      std::max(kind.of_keys() ? w_d : index_t(0), kind.of_values() ? w_e : index_t(0));
  return std::max({score, values, p, of_keys, of_queries, rounding, packing});
}

index_t pair_tiles_forward_footprint(const LayerShape& head, const Blocks& blocks, bool parts) {
  const index_t c = std::min(blocks.c, head.m), rho = std::min(blocks.rho, head.n);
  const index_t w_d = std::min(blocks.w, head.d), w_e = std::min(blocks.w, head.dv);
  const index_t scores = ((parts ? 2 : 1) * rho + c) * w_d;
  return 4 * rho + 2 * rho * c + std::max(scores, rho * c + 2 * rho + (c + 2 * rho) * w_e);
}

// Rows of queries, their sums and maxima; keys and values; the scores and the rounded weights.
index_t pair_rows_forward_footprint(const LayerShape& head, const Blocks& blocks) {
  const index_t r = std::min(blocks.r, head.n), c = std::min(blocks.c, head.m);
  const index_t rho = std::min(blocks.rho, r);
  return r * (head.d + 2 * head.dv + 4) + c * (head.d + head.dv) + rho * (3 * c + 2);
}

// Rows of queries and of dO, LSE, delta and sums of dQ; keys, also as rows, and values; f and q,
// then p in their places, rounded and in f32, beside which a word of dBias passes.
index_t pair_rows_backward_footprint(const LayerShape& head, const Blocks& blocks, bool dq,
                                     bool d_bias) {
  const index_t r = std::min(blocks.r, head.n), c = std::min(blocks.c, head.m);
  const index_t tile = std::min(blocks.rho, r) * c;
  const index_t gradients = (dq ? 1 : 0) * tile + (d_bias ? 2 * tile + 2 : 0);
  return r * (head.d + head.dv + 4 + (dq ? 2 * head.d : 0)) +
         c * (head.d + head.dv + (dq ? head.d : 0)) + std::max(4 * tile, gradients);
}

IoCost half_forward_cost(const LayerShape& head, const Blocks& blocks, bool lse, bool pairs) {
  const bool by_tiles = forward_schedule(blocks) == Schedule::tile_fused;
  const index_t o = head.n * head.dv;
  IoCost cost =
      by_tiles ? tile_fused_forward_pass(head, blocks) : row_stream_forward_pass(head, blocks);
  // Of O and, by tiles, its sums, of which the last ones are rounded.
  const index_t sums = cost.writes - head.n;
  if (by_tiles) cost.reads += sums - o;
  cost.writes = 2 * (sums - o) + o + (lse ? 2 * head.n : 0);
  cost = resident_in_f32(cost);
  if (!pairs) return cost;
  cost.created += by_tiles ? forward_tile_sums(head, blocks).pairs : row_tile_words(head, blocks);
  cost.footprint = by_tiles ? pair_tiles_forward_footprint(head, blocks)
                            : pair_rows_forward_footprint(head, blocks);
  return cost;
}

IoCost half_delta_cost(const SdpaShape& shape, const Blocks& blocks) {
  IoCost cost = delta_cost(shape.head(), blocks);
  cost.writes *= 2;
  return times(shape.all_heads(), resident_in_f32(cost));
}

IoCost half_query_pass_cost(const SdpaShape& shape, const SdpaSet& set, const Blocks& blocks,
                            bool pairs) {
  const LayerShape head = shape.head();
  const index_t dq = shape.n * shape.d;
  const index_t tiles = shape.has_bias() ? row_tile_words(head, blocks) : 0;
  IoCost one = row_stream_backward_pass(head, blocks);
  one.reads += tiles + 2 * shape.n;  // LSE and delta
  if (!set.dQ) {
    one.writes -= dq;
    one.created -= dq;
    one.footprint -= std::min(blocks.r, shape.n) * shape.d;
  } else {
    if (set.accumulate) one.reads += set.in_f32 ? 2 * dq : dq;
    if (set.in_f32) one.writes += dq;
  }
  one = resident_in_f32(one);
  if (pairs) {
    // q, and for dQ rounded tiles and keys as rows.
    const index_t keys = row_streamed_keys(head, blocks) * shape.d;
    one.created += 2 * row_tile_words(head, blocks);
    if (set.dQ) one.created += row_tile_words(head, blocks) + keys;
    one.footprint = pair_rows_backward_footprint(head, blocks, set.dQ, set.dBias);
  }
  IoCost cost = times(shape.all_heads(), one);
  if (!set.dBias) return cost;
  // Sums of dBias are in f32, in place or to be rounded.
  if (!pairs) cost.footprint += 2;
  cost.writes += 2 * shape.all_heads() * tiles;
  cost.reads += 2 * shape.all_heads() * tiles;
  const index_t all = shape.all_biases() * shape.n * shape.m;
  if (!set.in_f32) {
    cost.reads += (set.accumulate ? 3 : 2) * all;
    cost.writes += all;
  } else if (set.accumulate) {
    return cost;
  }
  cost.created += 2 * all;
  (shape.mask.hides() ? cost.writes : cost.reads) += (shape.mask.hides() ? 2 : -2) * all;
  return cost;
}

IoCost half_round_cost(const SdpaShape& shape, const SdpaSet& set) {
  const index_t dq = shape.all_queries() * shape.d;
  return {(set.accumulate ? 3 : 2) * dq, dq, 0, (set.accumulate ? 4 : 2) * shape.d};
}

namespace {

IoCost half_tiles_cost(const LayerShape& head, const SdpaSet& set, Blocks keys,
                       const KeyPassKind& kind, index_t group, bool pairs) {
  keys.parked = keys.parked && !pairs;
  IoCost cost = resident_in_f32(tile_fused_cost(head, set, keys, kind, group));
  if (!pairs) return cost;
  const TileSums tiles = tile_sums(head, keys_of_block(head, keys), std::min(keys.rho, head.n));
  const bool twice = kind.makes_p() && kind.of_values();
  cost.created += group * (tiles.pairs - (twice ? tiles.queries * head.dv : 0));
  if (keys.packed) {
    const index_t read = tiles.blocks * (head.d + (kind.makes_p() ? head.dv : 0));
    const index_t made = read + (kind.queries ? tiles.blocks * head.d : 0);
    cost.reads += read;
    cost.writes += made;
    cost.created += made;
  }
  if (kind.parts) {
    cost.reads += group * tiles.queries * head.d * (kind.of_keys() ? 2 : 1);
  }
  const index_t rounded_together = set.in_f32 ? 0 : set.accumulate ? 2 : 1;
  cost.footprint = pair_tiles_footprint(head, keys, kind, rounded_together);
  return cost;
}

}  // namespace

IoCost half_key_pass_cost(const SdpaShape& shape, const SdpaSet& set, const SdpaBlocks& blocks,
                          bool pairs) {
  const KeyPassKind kind = set.key_kind(blocks);
  return blocks.by_keys == Schedule::tile_fused
             ? half_tiles_cost(shape.head(), set, blocks.keys, kind, shape.group(), pairs)
             : resident_in_f32(
                   col_stream_cost(shape.head(), set, blocks.keys, kind, shape.group()));
}

IoCost pair_tiles_cost(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind) {
  SdpaSet in_f32;
  in_f32.in_f32 = true;
  return half_tiles_cost(shape, in_f32, blocks, kind.in_parts(), 1, true);
}

IoCost pair_tiles_forward_cost(const LayerShape& shape, const Blocks& blocks) {
  IoCost cost = half_forward_cost(shape, blocks, true, true);
  cost.reads += forward_tile_sums(shape, blocks).queries * shape.d;
  cost.footprint = pair_tiles_forward_footprint(shape, blocks, true);
  return cost;
}

}  // namespace ioattn::theory
