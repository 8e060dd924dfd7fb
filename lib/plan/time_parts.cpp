#include "plan/time_parts.hpp"

#include <functional>
#include <vector>

#include "plan/blocking_col_stream.hpp"
#include "plan/blocking_pair_rows.hpp"
#include "plan/blocking_rows.hpp"
#include "plan/blocking_tile_fused.hpp"
#include "plan/fast_memory.hpp"
#include "plan/gradient_ways.hpp"
#include "plan/pair_speed.hpp"
#include "theory/block_costs.hpp"

namespace ioattn::plan {
namespace {

// A pass: its time in a memory, at any price.
struct Phase {
  std::function<double(const FastMemory&)> time;
  double words_at_once = 1;  // that move in the time of one

  // At that price: times are linear in both.
  double words(FastMemory memory, double per_word, double per_inner_word) const {
    const auto at = [&](double outer, double inner) {
      memory.price = {Objective::time, outer, inner};
      return time(memory);
    };
    return words_at_once * (at(per_word, per_inner_word) - at(0, 0));
  }
};

TimeParts parts_of(const std::vector<Phase>& phases, const FastMemory& memory, index_t L1) {
  TimeParts parts;
  for (const Phase& phase : phases) {
    FastMemory free = memory;
    free.price = {Objective::time, 0, 0};
    const double outer = phase.words(memory, 1, 0) / phase.words_at_once;
    const double inner = phase.words(memory, 0, 1);
    parts.products += phase.time(free);
    parts.outer_time += memory.price.per_word * outer;
    parts.inner_words += inner;
    parts.inner_time += memory.price.per_inner_word * inner / phase.words_at_once;
  }
  const index_t of_L2 = memory.is_outer() ? memory.inner_M : memory.M;
  if (L1 <= 0 || L1 >= of_L2) return parts;
  parts.kernel_words = 0;
  for (const Phase& phase : phases)
    parts.kernel_words += phase.words({memory.M, L1, memory.price}, 0, 1);
  return parts;
}

Price time_price(const Price& price) { return price.of_words() ? Price() : price; }

bool is_outer(const std::string& level, const std::string& own) {
  return level == outer_level && own != outer_level;
}

std::vector<Phase> phases_of(const LayerShape& head, const std::optional<SdpaSet>& set,
                             const SdpaBlocks& blocks, const TileShape& tile) {
  const double speed = word_speed(tile.isa);
  std::vector<Phase> phases;
  const auto add_rows = [&](Pass pass) {
    const Variant variant = {pass, Schedule::row_stream, Form::h, Products::stored};
    phases.push_back({[=](const FastMemory& memory) {
      return row_pass_time(variant, head, blocks.rows, memory, tile);
    }});
  };
  if (!set) {
    if (forward_schedule(blocks.rows) == Schedule::tile_fused) {
      phases.push_back({[=](const FastMemory& memory) {
                          return tile_fused_forward_time(head, blocks.rows, memory, tile);
                        },
                        speed});
    } else if (multiplies_pairs(tile.isa)) {
      phases.push_back({[=](const FastMemory& memory) {
                          return pair_rows_time(head, blocks.rows, memory, tile);
                        },
                        speed});
    } else {
      add_rows(Pass::forward);
    }
    return phases;
  }
  if (set->query_pass(blocks)) add_rows(Pass::backward);
  if (!set->key_pass(blocks)) return phases;
  const KeyPassKind kind = set->key_kind(blocks);
  if (blocks.by_keys == Schedule::tile_fused) {
    phases.push_back({[=](const FastMemory& memory) {
                        return tile_fused_time(head, blocks.keys, kind, memory, tile);
                      },
                      speed});
  } else {
    phases.push_back({[=](const FastMemory& memory) {
      return col_stream_time(head, blocks.keys, kind, memory, tile);
    }});
  }
  return phases;
}

// Of a plan that passes over rows, or by a schedule of its own.
double layer_time(PlanRequest request, const std::optional<GradientSet>& set,
                  const GradientPlan& plan, const FastMemory& memory) {
  const index_t words = theory::resident_words(request.problem.dtype);
  request.price = memory.price;
  request.M = words * (memory.is_outer() ? memory.inner_M : memory.M);
  request.outer_M = memory.is_outer() ? words * memory.M : 0;
  const LayerShape& shape = request.problem.shape;
  const bool alone = !set || steps_of(*set, shape.tie, Form::h).alone;
  if (!alone) return gradients_time(request, *set, plan.blocks, memory);
  request.pass = set ? Pass::backward : Pass::forward;
  Candidate pass;
  pass.schedule = plan.blocks.schedule;
  pass.blocks = plan.blocks.rows;
  pass.is_outer = memory.is_outer();
  pass.cost = theory::io_cost(request.pass, pass.schedule, shape, pass.blocks, request.weights());
  pass.fma = theory::fma_count(request.pass, pass.schedule, shape, pass.blocks);
  return predicted_time(request, pass);
}

}  // namespace

TimeParts time_parts(const SdpaRequest& request, const std::optional<SdpaSet>& set,
                     const SdpaPlan& plan, index_t L1) {
  const index_t words = is_half(request.dtype) ? 2 : 1;
  LayerShape head = request.shape.head();
  head.mask = {};
  const bool outer = is_outer(plan.level, request.level);
  const FastMemory memory = {(outer ? request.outer_M : request.M) / words,
                             outer ? request.M / words : 0, time_price(request.price)};
  const TileShape tile = {plan.isa, plan.tile_rows, plan.tile_cols};
  TimeParts parts = parts_of(phases_of(head, set, plan.blocks, tile), memory, L1 / words);
  SdpaRequest one = request;
  one.shape.batch = one.shape.heads = one.shape.kv_heads = 1;
  one.shape.bias_batch = one.shape.bias_heads = request.shape.has_bias() ? 1 : 0;
  one.shape.mask = {};
  SdpaEstimate estimate;
  estimate_costs(one, set, plan, &estimate);
  parts.outer_words = estimate.cost.total().words();
  return parts;
}

TimeParts time_parts(const PlanRequest& request, const std::optional<GradientSet>& set,
                     const GradientPlan& plan, index_t L1) {
  const index_t words = theory::resident_words(request.problem.dtype);
  const bool outer = is_outer(plan.level, request.level);
  const FastMemory memory = {outer ? request.outer_numbers() : request.numbers(),
                             outer ? request.numbers() : 0, time_price(request.price)};
  PlanRequest of_plan = request;
  of_plan.tile = {plan.isa, plan.tile_rows, plan.tile_cols};
  const Phase all = {[&](const FastMemory& in) { return layer_time(of_plan, set, plan, in); }};
  TimeParts parts = parts_of({all}, memory, L1 / words);
  GradientEstimate estimate;
  estimate_costs(request, set, plan, &estimate);
  parts.outer_words = estimate.cost.total().words();
  // Blocks of passes over rows alone are known to what they make of L1.
  if (plan.blocks.schedule != Schedule::row_stream) parts.kernel_words = -1;
  return parts;
}

}  // namespace ioattn::plan
