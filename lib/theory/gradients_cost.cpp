#include "theory/gradients_cost.hpp"

#include <algorithm>
#include <cstring>

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
                           const GradientBlocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const Form form = blocks.rows.form;
  const GradientSteps steps = steps_of(set, tie, form);
  ScheduleCost cost;
  if (steps.alone && steps.dx) {
    cost = io_cost(Pass::backward, blocks.schedule, shape, blocks.rows);
  } else if (!steps.alone) {
    const ScheduleCost rows = io_cost(Pass::backward, blocks.schedule, shape, blocks.rows);
    const auto copy = [&](bool runs, const char* name) {
      if (runs) copy_phase(rows, name, &cost);
    };
    copy(steps.delta, "delta");
    copy(steps.s, "S");
    copy(steps.values, form == Form::h ? "h" : "G");
    for (const char* name : {"q", "scores", name_of(blocks.schedule), "U"})
      copy(has_row_pass(steps, blocks), name);
    const auto add_keys = [&] {
      if (!steps.keys) return;
      cost.add("col_stream", col_stream(shape, blocks.keys, key_pass(steps, blocks)));
    };
    if (blocks.keys.one_pass) add_keys();
    copy(steps.dx, "dX");
    if (!blocks.keys.one_pass) add_keys();
  }
  if (steps.da3) cost.add("dA3", product_cost(m, e, d, blocks.da3, steps.one_sum));
  if (steps.dy) cost.add("dY", product_cost(d, seen_keys(shape).size(), e, blocks.dy));
  if (steps.da1) {
    cost.add("dA1", product_cost(n, d, d, blocks.da1, steps.one_sum && tie == Tie::all));
  }
  if (steps.parts) {
    cost.add("dA", {parts_of(tie) * m * d, m * d, m * d, 2 * std::min(blocks.sum, d)});
  }
  return cost;
}

}  // namespace

ScheduleCost gradients_cost(const LayerShape& shape, const GradientSet& set,
                            const GradientBlocks& blocks, const Batch& batch) {
  const index_t d = shape.d;
  const bool dx = set.dX || set.dW_Q || set.dW_K;
  ScheduleCost cost;
  add_scale(shape, batch, dx, &cost);
  add_entries(cost_of_entry(shape, set, blocks), batch, &cost);
  const index_t summed = (dx ? d * d : 0) + (set.dY ? d * shape.dv : 0);
  if (batch.entries > 1 && summed > 0) {
    const index_t times = batch.entries - 1;
    cost.add("batch", {2 * times * summed, times * summed, 0, 2});
  }
  if (set.dW_Q) cost.add("dW_Q", product_cost(d, d, set.dk, blocks.dw));
  if (set.dW_K) cost.add("dW_K", product_cost(d, d, set.dk, blocks.dw));
  return cost;
}

index_t gradients_fma(const LayerShape& shape, const GradientSet& set, const GradientBlocks& blocks,
                      index_t entries) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool h_form = blocks.rows.form == Form::h;
  const GradientSteps steps = steps_of(set, tie, blocks.rows.form);
  const index_t dw = d * d * set.dk * ((steps.dw_q ? 1 : 0) + (steps.dw_k ? 1 : 0));
  if (steps.alone) {
    return steps.dx ? dw + entries * fma_count(Pass::backward, blocks.schedule, shape, blocks.rows)
                    : 0;
  }
  const index_t v = h_form ? e : d;
  index_t fma = 0;
  if (steps.s) fma += n * d * d;
  if (steps.values) fma += h_form ? m * d * e : n * d * e;
  if (has_row_pass(steps, blocks)) fma += visible_pairs(mask, n, m) * (2 * d + v);
  if (steps.dx) fma += seeing_queries(shape).size() * d * d;
  if (steps.keys) fma += col_stream_fma(shape, blocks.rows.form, key_pass(steps, blocks));
  if (steps.da3) fma += m * d * e;
  if (steps.dy) fma += seen_keys(shape).size() * d * e;
  if (steps.da1) fma += n * d * d;
  return entries * fma + dw;
}

}  // namespace ioattn::theory
