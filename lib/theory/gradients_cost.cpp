#include "theory/gradients_cost.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked_size.hpp"
#include "theory/block_costs.hpp"

namespace ioattn::theory {
namespace {

// The phase of that name of a backward pass whose thin products are stored, if it has one.
void copy_phase(const ScheduleCost& from, const char* name, ScheduleCost* cost) {
  for (int i = 0; i < from.phase_count; ++i) {
    const PhaseCost& phase = from.phases[std::size_t(i)];
    if (std::strcmp(phase.name, name) == 0) cost->add(phase.name, phase.cost);
  }
}

// Matrices that dA is the sum of.
index_t parts_of(Tie tie) { return tie == Tie::all ? 3 : 2; }

// All but the products of the summed dX.
ScheduleCost cost_of_entry(const LayerShape& shape, const GradientSet& set,
                           const LayerBlocks& blocks, const Weights& weights) {
  const auto [n, m, d, e, tie, mask] = shape;
  const Form form = blocks.rows.form;
  const GradientSteps steps = steps_of(set, tie, form);
  const bool by_tiles = blocks.by_keys == Schedule::tile_fused;
  const Weights w = by_tiles ? weights.by_pairs() : weights;
  ScheduleCost cost;
  if (steps.alone && steps.dx) {
    cost = io_cost(Pass::backward, blocks.schedule, shape, blocks.rows, w);
  } else if (!steps.alone) {
    const ScheduleCost rows = io_cost(Pass::backward, blocks.schedule, shape, blocks.rows, w);
    const auto copy = [&](bool runs, const char* name) {
      if (runs) copy_phase(rows, name, &cost);
    };
    copy(steps.delta, "delta");
    copy(steps.s, "S");
    copy(steps.values, form == Form::h ? "h" : "G");
    for (const char* name : {"q", "scores", name_of(blocks.schedule), "U"})
      copy(has_row_pass(steps, blocks), name);
    const auto add_keys = [&] {
      if (!has_key_pass(steps, blocks)) return;
      const KeyPassKind kind = key_pass(steps, blocks);
      cost.add(name_of(blocks.by_keys), by_tiles
                                            ? tile_fused(shape, blocks.keys, kind, w)
                                            : col_stream(shape, blocks.keys, kind, 1, false, w));
    };
    if (blocks.keys.one_pass) add_keys();
    copy(steps.dx, "dX");
    if (!blocks.keys.one_pass) add_keys();
  }
  // Operands with sums, in the order of the factors.
  const ProductWeights onto_y = {w.sum, w.operand, w.sum}, by_a3 = {w.operand, w.sum, w.sum};
  if (steps.da3) cost.add("dA3", product_cost(m, e, d, blocks.da3, steps.one_sum, onto_y));
  if (steps.dy)
    cost.add("dY", product_cost(d, seen_keys(shape).size(), e, blocks.dy, false, by_a3));
  if (steps.da1) {
    cost.add("dA1", product_cost(n, d, d, blocks.da1, steps.one_sum && tie == Tie::all,
                                 {w.sum, w.x, w.sum}));
  }
  if (steps.parts) {
    cost.add("dA", {w.sum * parts_of(tie) * m * d, w.sum * m * d, w.sum * m * d,
                    w.sum * 2 * std::min(blocks.sum, d)});
  }
  return cost;
}

}  // namespace

ScheduleCost gradients_cost(const LayerShape& shape, const GradientSet& set,
                            const LayerBlocks& blocks, const Batch& batch, DType dtype) {
  const index_t d = shape.d;
  const bool dx = set.dX || set.dW_Q || set.dW_K;
  const Weights w = weights_of(dtype, batch.scaled);
  ScheduleCost cost;
  if (!scales_scores(score_pass(set, blocks), is_half(dtype)))
    add_scale(shape, batch, dx, dtype, &cost);
  add_entries(cost_of_entry(shape, set, blocks, w), batch, &cost);
  const index_t summed = (dx ? d * d : 0) + (set.dY ? d * shape.dv : 0);
  if (batch.entries > 1 && summed > 0) {
    const index_t times = batch.entries - 1;
    cost.add("batch", {w.sum * 2 * times * summed, w.sum * times * summed, 0, w.sum * 2});
  }
  const ProductWeights by_weights = {w.sum, w.operand, w.sum};
  if (set.dW_Q) cost.add("dW_Q", product_cost(d, d, set.dk, blocks.dw, false, by_weights));
  if (set.dW_K) cost.add("dW_K", product_cost(d, d, set.dk, blocks.dw, false, by_weights));
  if (set.rounds(dtype)) {
    cost.add("round", round_cost(gradient_numbers(shape, set, batch.entries)));
  }
  return cost;
}

index_t gradients_fma(const LayerShape& shape, const GradientSet& set, const LayerBlocks& blocks,
                      index_t entries) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool h_form = blocks.rows.form == Form::h;
  const GradientSteps steps = steps_of(set, tie, blocks.rows.form);
  const index_t dw = d * d * set.dk * ((steps.dw_q ? 1 : 0) + (steps.dw_k ? 1 : 0));
  if (steps.alone) {
    if (!steps.dx) return 0;
    const CheckedSize fma =
        CheckedSize(entries) * fma_count(Pass::backward, blocks.schedule, shape, blocks.rows) + dw;
    return fma.overflow() ? std::numeric_limits<index_t>::max() : fma.value();
  }
  const index_t v = h_form ? e : d;
  index_t fma = 0;
  if (steps.s) fma += n * d * d;
  if (steps.values) fma += h_form ? m * d * e : n * d * e;
  if (has_row_pass(steps, blocks)) fma += visible_pairs(mask, n, m) * (2 * d + v);
  if (steps.dx) fma += seeing_queries(shape).size() * d * d;
  if (has_key_pass(steps, blocks)) {
    fma += col_stream_fma(shape, blocks.rows.form, key_pass(steps, blocks));
  }
  if (steps.da3) fma += m * d * e;
  if (steps.dy) fma += seen_keys(shape).size() * d * e;
  if (steps.da1) fma += n * d * d;
  return entries * fma + dw;
}

}  // namespace ioattn::theory
