#include "plan/sdpa/sdpa_planner.hpp"

#include <algorithm>

#include "plan/blocks/block_search.hpp"
#include "plan/sdpa/sdpa_scratch.hpp"
#include "plan/sdpa/sdpa_trial.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn::plan {

void add_rows_of_group(const SdpaRequest& request, SdpaPlan* plan) {
  const SdpaShape& shape = request.shape;
  Blocks& rows = plan->blocks.rows;
  if (!shape.has_grouped_rows()) return;
  SdpaShape group = shape.with_grouped_rows();
  group.batch = group.heads = group.kv_heads = 1;
  const index_t M = request.words_at(plan->level);
  const bool pairs = multiplies_pairs(plan->tile.isa);
  const auto fits = [&](const Blocks& blocks) {
    return theory::sdpa_forward_cost(group, blocks, true, request.dtype, pairs).total().footprint <=
           M;
  };
  if (forward_schedule(rows) == Schedule::tile_fused) {
    if (!fits(rows)) rows.rho = std::min(rows.rho, shape.n);  // tiles longer than a head
    return;
  }
  if (rows.r < shape.n) return;
  const index_t most = largest(group.n, [&](index_t r) {
    Blocks trial = rows;
    trial.r = r;
    return fits(trial);
  });
  // All blocks about as long.
  const index_t step = most < std::min(rows.rho, group.n) ? 1 : rows.rho;
  const index_t longest = most == group.n ? most : std::max(round_down(most, step), rows.r);
  const index_t count = ceil_div(group.n, longest);
  rows.r = std::min(longest, round_up(ceil_div(group.n, count), step));
}

void estimate_costs(const SdpaRequest& request, const std::optional<SdpaSet>& set,
                    const SdpaPlan& plan, Estimate* estimate) {
  const bool pairs = multiplies_pairs(plan.tile.isa);
  estimate->M = request.words_at(plan.level);
  if (!set) {
    const SdpaShape shape = request.shape.with_grouped_rows();
    estimate->cost = theory::sdpa_forward_cost(shape, plan.blocks.rows, true, request.dtype, pairs);
    estimate->fma = theory::sdpa_forward_fma(shape);
    return;
  }
  const index_t queries = request.shape.all_queries();
  estimate->cost =
      theory::sdpa_backward_cost(request.shape, *set, plan.blocks, request.dtype, pairs);
  estimate->fma = theory::sdpa_backward_fma(request.shape, *set, plan.blocks);
  const index_t sums = sums_of_dq(request, *set, set->in_one_pass(plan.blocks));
  estimate->scratch_bytes = scratch_bytes(*set, queries, sums, request.dtype);
}

Status make_plan_of(const SdpaRequest& request, const std::optional<SdpaSet>& set, SdpaPlan* plan,
                    Estimate* estimate) {
  const Status status =
      set ? plan_gradients(request, *set, plan, estimate) : plan_forward(request, plan, estimate);
  if (!status.is_ok()) return status;
  plan->blocks = blocks_taken(plan->blocks, set);
  if (estimate != nullptr) estimate_costs(request, set, *plan, estimate);
  return status;
}

}  // namespace ioattn::plan
