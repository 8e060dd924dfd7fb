#include "theory/sdpa_cost.hpp"

#include "theory/block_costs.hpp"

namespace ioattn::theory {
namespace {

IoCost times(index_t heads, const IoCost& one) {
  return {heads * one.reads, heads * one.writes, heads * one.created, one.footprint};
}

}  // namespace

ScheduleCost sdpa_forward_cost(const SdpaShape& shape, const Blocks& blocks, bool lse) {
  const Schedule schedule = forward_schedule(blocks);
  const bool by_tiles = schedule == Schedule::tile_fused;
  IoCost head = (by_tiles ? tile_fused_forward : row_stream_forward_pass)(shape.head(), blocks);
  if (!lse) head.writes -= shape.n;
  ScheduleCost cost;
  cost.add(name_of(schedule), times(shape.all_heads(), head));
  return cost;
}

ScheduleCost sdpa_backward_cost(const SdpaShape& shape, const SdpaSet& set,
                                const SdpaBlocks& blocks) {
  const LayerShape head = shape.head();
  ScheduleCost cost;
  if (set.delta()) cost.add("delta", times(shape.all_heads(), delta_cost(head, blocks.rows)));
  if (set.query_pass(blocks.keys.one_pass)) {
    IoCost rows = row_stream_backward_pass(head, blocks.rows);
    if (set.accumulate) rows.reads += shape.n * shape.d;
    cost.add("row_stream", times(shape.all_heads(), rows));
  }
  if (set.keys()) {
    // The heads of a group pass by keys and gradients that stay.
    const bool by_tiles = blocks.by_keys == Schedule::tile_fused;
    const IoCost keys = (by_tiles ? tile_fused : col_stream)(
        head, blocks.keys, set.key_pass(blocks.keys.one_pass), shape.group(), set.accumulate);
    cost.add(name_of(blocks.by_keys), times(shape.all_kv_heads(), keys));
  }
  return cost;
}

index_t sdpa_forward_fma(const SdpaShape& shape) {
  return shape.all_heads() * visible_pairs(shape.mask, shape.n, shape.m) * (shape.d + shape.dv);
}

index_t sdpa_backward_fma(const SdpaShape& shape, const SdpaSet& set, bool one_pass) {
  const LayerShape head = shape.head();
  index_t fma = 0;
  if (set.query_pass(one_pass)) {
    fma += visible_pairs(shape.mask, shape.n, shape.m) * (2 * shape.d + shape.dv);
  }
  if (set.keys()) fma += col_stream_fma(head, Form::h, set.key_pass(one_pass));
  return shape.all_heads() * fma;
}

}  // namespace ioattn::theory
