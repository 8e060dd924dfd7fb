#include "theory/schedule_cost.hpp"

#include <algorithm>
#include <limits>

#include "base/checked_size.hpp"
#include "theory/block_costs.hpp"

namespace ioattn::theory {

IoCost ScheduleCost::total() const {
  IoCost total;
  for (int i = 0; i < phase_count; ++i) total += phases[std::size_t(i)].cost;
  return total;
}

ScheduleCost io_cost(Pass pass, Schedule schedule, const LayerShape& shape, const Blocks& blocks,
                     const Weights& weights) {
  const bool forward = pass == Pass::forward;
  switch (schedule) {
    case Schedule::naive:
      return blocks.r == 1 ? paper_small_backward(shape, blocks) : naive_backward(shape);
    case Schedule::paper_small:
      return forward ? paper_small_forward(shape, blocks) : paper_small_backward(shape, blocks);
    case Schedule::paper_large:
      return forward ? paper_large_forward(shape, blocks) : paper_large_backward(shape, blocks);
    case Schedule::row_stream:
      return forward ? row_stream_forward(shape, blocks, weights)
                     : row_stream_backward(shape, blocks, weights);
    case Schedule::stationary:
      return forward ? stationary_forward(shape, blocks) : stationary_backward(shape, blocks);
    case Schedule::score_stored: return stationary_forward(shape, blocks);
    case Schedule::q_stored: return q_stored_backward(shape, blocks, weights);
    case Schedule::half_dim: return half_dim_backward(shape, blocks, weights);
    case Schedule::weight_resident: return weight_resident_backward(shape, blocks);
    case Schedule::resident: return resident_backward(shape, blocks);
    case Schedule::col_stream: {
      ScheduleCost cost;
      cost.add("col_stream", col_stream(shape, blocks, all_key_gradients(blocks.form, shape.tie), 1,
                                        false, weights));
      return cost;
    }
    case Schedule::tile_fused: {
      if (pass == Pass::backward) return tile_fused_backward(shape, blocks, weights);
      if (forward) return tile_fused_forward(shape, blocks, weights);
      ScheduleCost cost;
      cost.add("tile_fused",
               tile_fused(shape, blocks, all_key_gradients(Form::h, shape.tie), weights));
      return cost;
    }
  }
  return {};
}

void add_scale(const LayerShape& shape, const Batch& batch, bool of_gradient, DType dtype,
               ScheduleCost* cost) {
  if (!batch.scaled) return;
  const Weights w = weights_of(dtype);
  const index_t x = shape.d * shape.d, dx = of_gradient ? x : 0;
  cost->add("scale", {w.operand * x + w.sum * dx, w.sum * (x + dx), w.sum * x, w.sum * 2});
}

void add_entries(const ScheduleCost& entry, const Batch& batch, ScheduleCost* cost) {
  for (int i = 0; i < entry.phase_count; ++i) {
    const PhaseCost& phase = entry.phases[std::size_t(i)];
    cost->add(phase.name, times(batch.entries, phase.cost));
  }
}

ScheduleCost forward_cost(Schedule schedule, const LayerShape& shape, const Blocks& blocks,
                          const Batch& batch, DType dtype) {
  ScheduleCost cost;
  if (!scales_scores(schedule, is_half(dtype))) add_scale(shape, batch, false, dtype, &cost);
  const Weights weights = weights_of(dtype, batch.scaled);
  add_entries(io_cost(Pass::forward, schedule, shape, blocks, weights), batch, &cost);
  return cost;
}

namespace {

// Products of m d^2 multiply-adds that are made again for every block of rows. If there are more
// than can be counted, so many that no plan wants them and others can be added.
index_t again_per_row_block(const LayerShape& shape, const Blocks& blocks, index_t products) {
  constexpr index_t most = std::numeric_limits<index_t>::max() / 4;
  const CheckedSize row_blocks = ceil_div(shape.n, std::min(blocks.r, shape.n));
  const CheckedSize count = CheckedSize(products) * shape.m * shape.d * shape.d * row_blocks;
  return count.overflow() ? most : std::min(count.value(), most);
}

}  // namespace

index_t fma_count(Pass pass, Schedule schedule, const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool forward = pass == Pass::forward;
  const bool h_form = blocks.form == Form::h;
  const index_t s = n * d * d, h = m * d * e, pairs = visible_pairs(mask, n, m), scores = pairs * d;
  switch (schedule) {
    case Schedule::naive:
    case Schedule::paper_small:
      if (forward) return s + h + scores + n * m * e;
      return s + h + scores + n * m * e + n * m * d + m * d * d;  // ... q, T = A1^T p, g = T A2
    case Schedule::paper_large:
      if (forward) return s + h + scores + n * m * e;
      // T A2 is taken once per row block: md^2 ceil(n / B_r).
      return s + h + scores + n * m * e + n * m * d + again_per_row_block(shape, blocks, 1);
    case Schedule::row_stream:
    case Schedule::stationary:
    case Schedule::score_stored:
    case Schedule::q_stored:
    case Schedule::half_dim:
      if (forward) return s + scores + (h_form ? h + pairs * e : pairs * d + n * d * e);
      return s + scores + (h_form ? h + pairs * e : n * d * e + pairs * d) + pairs * d + n * d * d;
    case Schedule::weight_resident:
      // K' = A2 X^T and T A2 are taken once per row block.
      return 2 * scores + (h_form ? h + n * m * e : n * d * e + n * m * d) +
             again_per_row_block(shape, blocks, 2);
    case Schedule::resident: return s + h + scores + n * m * e + n * m * d + n * d * d;
    case Schedule::tile_fused:
      if (pass == Pass::backward) return s + h + scores + pairs * e + pairs * d + n * d * d;
      if (forward) return s + h + scores + pairs * e;
      [[fallthrough]];
    case Schedule::col_stream:
      return col_stream_fma(shape, blocks.form, all_key_gradients(blocks.form, shape.tie));
  }
  return 0;
}

}  // namespace ioattn::theory
