#include "theory/sdpa_cost.hpp"

#include <algorithm>

#include "theory/block_costs.hpp"
#include "theory/sdpa_half_cost.hpp"

namespace ioattn::theory {
namespace {

// dQ and dBias. Words of dBias pass one at a time: the first tile of several heads is written, the
// others are added; under a mask, or where there is something to add to, all are, to zeros if need
// be.
IoCost query_pass_cost(const SdpaShape& shape, const SdpaSet& set, const Blocks& blocks) {
  const LayerShape head = shape.head();
  const index_t rows = std::min(blocks.r, shape.n);
  const index_t tiles = shape.has_bias() ? row_tile_words(head, blocks) : 0;
  IoCost one = row_stream_backward_pass(head, blocks);
  one.reads += tiles;
  if (!set.dQ) {
    one.writes -= shape.n * shape.d;
    one.created -= shape.n * shape.d;
    one.footprint -= rows * shape.d;
  } else if (set.accumulate) {
    one.reads += shape.n * shape.d;
  }
  IoCost cost = times(shape.all_heads(), one);
  if (!set.dBias) return cost;
  cost.footprint += 1;
  cost.writes += shape.all_heads() * tiles;
  cost.reads += shape.all_heads() * tiles;
  if (set.accumulate) return cost;
  const index_t first = shape.all_biases() * shape.n * shape.m;
  cost.created += first;
  if (shape.mask.hides()) {
    cost.writes += first;
  } else {
    cost.reads -= first;
  }
  return cost;
}

}  // namespace

ScheduleCost sdpa_forward_cost(const SdpaShape& shape, const Blocks& blocks, bool lse, DType dtype,
                               bool pairs) {
  const Schedule schedule = forward_schedule(blocks);
  const bool by_tiles = schedule == Schedule::tile_fused;
  IoCost head;
  if (is_half(dtype)) {
    head = half_forward_cost(shape.head(), blocks, lse, pairs);
  } else {
    head = by_tiles ? tile_fused_forward_pass(shape.head(), blocks)
                    : row_stream_forward_pass(shape.head(), blocks);
    if (!lse) head.writes -= shape.n;
  }
  Blocks tiles = blocks;
  if (by_tiles) tiles.r = tiles.rho;
  if (shape.has_bias()) head.reads += row_tile_words(shape.head(), tiles);
  ScheduleCost cost;
  cost.add(name_of(schedule), times(shape.all_heads(), head));
  return cost;
}

ScheduleCost sdpa_backward_cost(const SdpaShape& shape, const SdpaSet& set,
                                const SdpaBlocks& blocks, DType dtype, bool pairs) {
  const LayerShape head = shape.head();
  const bool half = is_half(dtype), by_rows = set.query_pass(blocks);
  ScheduleCost cost;
  if (set.delta()) {
    cost.add("delta", half ? half_delta_cost(shape, blocks.rows)
                           : times(shape.all_heads(), delta_cost(head, blocks.rows)));
  }
  if (by_rows) {
    cost.add("row_stream", half ? half_query_pass_cost(shape, set, blocks.rows, pairs)
                                : query_pass_cost(shape, set, blocks.rows));
  }
  if (set.key_pass(blocks)) {
    // The heads of a group pass by keys and gradients that stay.
    const bool by_tiles = blocks.by_keys == Schedule::tile_fused;
    const KeyPassKind kind = set.key_kind(blocks);
    IoCost keys = half       ? half_key_pass_cost(shape, set, blocks, pairs)
                  : by_tiles ? tile_fused(head, blocks.keys, kind, shape.group(), set.accumulate)
                             : col_stream(head, blocks.keys, kind, shape.group(), set.accumulate);
    if (shape.has_bias()) keys.reads += shape.group() * col_tile_words(head, blocks.keys);
    cost.add(name_of(blocks.by_keys), times(shape.all_kv_heads(), keys));
  }
  if (set.rounds(dtype) && set.dQ && !by_rows) cost.add("round", half_round_cost(shape, set));
  return cost;
}

index_t sdpa_forward_fma(const SdpaShape& shape) {
  return shape.all_heads() * visible_pairs(shape.mask, shape.n, shape.m) * (shape.d + shape.dv);
}

index_t sdpa_backward_fma(const SdpaShape& shape, const SdpaSet& set, const SdpaBlocks& blocks) {
  const LayerShape head = shape.head();
  index_t fma = 0;
  if (set.query_pass(blocks)) {
    fma += visible_pairs(shape.mask, shape.n, shape.m) * ((set.dQ ? 2 : 1) * shape.d + shape.dv);
  }
  if (set.key_pass(blocks)) fma += col_stream_fma(head, Form::h, set.key_kind(blocks));
  return shape.all_heads() * fma;
}

}  // namespace ioattn::theory
