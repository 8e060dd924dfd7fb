#include "theory/gradients_cost.hpp"

#include <algorithm>
#include <cstring>

#include "theory/block_costs.hpp"

namespace ioattn::theory {
namespace {

// The phase of that name of a backward pass whose thin products are stored.
const IoCost& phase_of(const ScheduleCost& cost, const char* name) {
  const auto end = cost.phases.begin() + cost.phase_count;
  return std::find_if(cost.phases.begin(), end,
                      [&](const PhaseCost& phase) { return std::strcmp(phase.name, name) == 0; })
      ->cost;
}

// Matrices that dA is the sum of.
index_t parts_of(Tie tie) { return tie == Tie::all ? 3 : 2; }

}  // namespace

ScheduleCost gradients_cost(const LayerShape& shape, const GradientSet& set,
                            const GradientBlocks& blocks) {
  const auto [n, m, d, e, tie] = shape;
  const Form form = blocks.rows.form;
  const GradientSteps steps = steps_of(set, tie, form);
  ScheduleCost cost;
  if (steps.alone && steps.dx) {
    cost = io_cost(Pass::backward, blocks.schedule, shape, blocks.rows);
  } else if (!steps.alone) {
    const ScheduleCost rows = io_cost(Pass::backward, blocks.schedule, shape, blocks.rows);
    const auto copy = [&](bool runs, const char* name) {
      if (runs) cost.add(name, phase_of(rows, name));
    };
    copy(steps.delta, "delta");
    copy(steps.s, "S");
    copy(steps.values, form == Form::h ? "h" : "G");
    copy(steps.rows, name_of(blocks.schedule));
    copy(steps.dx, "dX");
  }
  if (steps.keys) cost.add("col_stream", col_stream(shape, blocks.keys, steps.key_gradients));
  if (steps.da3) cost.add("dA3", product_cost(m, e, d, blocks.da3, steps.one_sum));
  if (steps.dy) cost.add("dY", product_cost(d, m, e, blocks.dy));
  if (steps.da1) {
    cost.add("dA1", product_cost(n, d, d, blocks.da1, steps.one_sum && tie == Tie::all));
  }
  if (steps.dw_q) cost.add("dW_Q", product_cost(d, d, set.dk, blocks.dw));
  if (steps.dw_k) cost.add("dW_K", product_cost(d, d, set.dk, blocks.dw));
  if (steps.parts) {
    cost.add("dA", {parts_of(tie) * m * d, m * d, m * d, 2 * std::min(blocks.sum, d)});
  }
  return cost;
}

index_t gradients_fma(const LayerShape& shape, const GradientSet& set,
                      const GradientBlocks& blocks) {
  const auto [n, m, d, e, tie] = shape;
  const bool h_form = blocks.rows.form == Form::h;
  const GradientSteps steps = steps_of(set, tie, blocks.rows.form);
  const index_t dw = d * d * set.dk * ((steps.dw_q ? 1 : 0) + (steps.dw_k ? 1 : 0));
  if (steps.alone) {
    return steps.dx ? dw + fma_count(Pass::backward, blocks.schedule, shape, blocks.rows) : 0;
  }
  const index_t v = h_form ? e : d;
  index_t fma = dw;
  if (steps.s) fma += n * d * d;
  if (steps.values) fma += h_form ? m * d * e : n * d * e;
  if (steps.rows) fma += n * m * (2 * d + v);
  if (steps.dx) fma += n * d * d;
  if (steps.keys) fma += col_stream_fma(shape, blocks.rows.form, steps.key_gradients);
  if (steps.da3) fma += m * d * e;
  if (steps.dy) fma += m * d * e;
  if (steps.da1) fma += n * d * d;
  return fma;
}

}  // namespace ioattn::theory
