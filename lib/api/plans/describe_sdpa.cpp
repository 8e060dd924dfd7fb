#include <algorithm>

#include "api/plans/describe.hpp"
#include "api/plans/sdpa_plan.hpp"
#include "schedules/sharing/sdpa_heads.hpp"
#include "theory/sdpa_bounds.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn::api {
namespace {

void add_blocks(std::string_view phase, const SdpaBlocks& blocks, JsonObject* json) {
  JsonObject sizes;
  if (phase == "delta") {
    sizes.add("rows", blocks.rows.o);
    sizes.add("cols", blocks.rows.w);
  } else if (phase == "row_stream") {
    sizes.add("r", blocks.rows.r);
    sizes.add("c", blocks.rows.c);
    sizes.add("rho", blocks.rows.rho);
  } else if (blocks.keys.c == 0) {  // forward
    sizes.add("c", blocks.rows.c);
    sizes.add("rho", blocks.rows.rho);
    sizes.add("w", blocks.rows.w);
  } else if (phase != "round") {
    sizes.add("c", blocks.keys.c);
    sizes.add("rho", blocks.keys.rho);
    if (phase == "tile_fused") sizes.add("w", blocks.keys.w);
    if (blocks.keys.share > 0) sizes.add("share", blocks.keys.share);
    sizes.add("one_pass", blocks.keys.one_pass);
    if (phase == "tile_fused") {
      sizes.add("packed", blocks.keys.packed);
      sizes.add("parked", blocks.keys.parked);
    }
  }
  json->add_json("blocks", sizes.text());
}

// What outlives the phase that makes it, beside the outputs: delta and, where it is made on the way
// and rounded at the end, dQ, of the heads in work.
std::string stored_list(const SdpaProblem& problem, const SdpaSet& set, const SdpaBlocks& blocks,
                        int threads) {
  const SdpaShape& shape = problem.shape;
  const bool makes_dq = set.key_kind(blocks).queries;
  const index_t heads = schedules::heads_in_work(shape, makes_dq, threads);
  const DType dtype = problem.dtype;
  std::vector<std::string> items;
  const index_t words = theory::resident_words(dtype);
  if (set.delta()) items.push_back(stored_json("delta", {heads, shape.n}, words));
  if (makes_dq && set.rounds(dtype))
    items.push_back(stored_json("dQ", {heads, shape.n, shape.d}, words));
  return json_list(items);
}

}  // namespace

// With sizes of 0 as 1, and heads that are taken as one.
SdpaShape SdpaPlan::counted_shape() const {
  const SdpaShape heads = shape_to_plan(goal_.problem.shape);
  return is_forward() ? heads.with_grouped_rows() : heads;
}

theory::ScheduleCost SdpaPlan::cost() const {
  const DType dtype = goal_.problem.dtype;
  const bool pairs = multiplies_pairs(plan_.tile.isa);
  return is_forward()
             ? theory::sdpa_forward_cost(counted_shape(), plan_.blocks.rows, true, dtype, pairs)
             : theory::sdpa_backward_cost(counted_shape(), goal_.gradients, plan_.blocks, dtype,
                                          pairs);
}

index_t SdpaPlan::fma() const {
  return is_forward() ? theory::sdpa_forward_fma(counted_shape())
                      : theory::sdpa_backward_fma(counted_shape(), goal_.gradients, plan_.blocks);
}

void add_goal(Pass pass, const SdpaSet& set, DType dtype, JsonObject* json) {
  json->add("pass", name_of(pass));
  if (pass == Pass::forward) return;
  json->add_json("gradients", json_names(set, named_sdpa_gradients));
  json->add("accumulate", set.accumulate);
  if (is_half(dtype)) json->add("in_f32", set.in_f32);
}

std::string SdpaPlan::describe(const OverflowStatistics& overflows) const {
  const SdpaShape shape = counted_shape();
  const SdpaSet& set = goal_.gradients;
  const SdpaBlocks& blocks = plan_.blocks;
  const DType dtype = goal_.problem.dtype;
  const theory::ScheduleCost cost = this->cost();
  const IoCost total = cost.total();

  JsonObject json;
  json.add("problem", to_text(goal_.problem));
  add_goal(goal_.pass, set, dtype, &json);
  json.add("plan", text());
  json.add("origin", origin_.name);
  add_objective(objective_, &json);
  add_kernel(plan_.tile, &json);
  json.add("threads", index_t(threads_));
  json.add("level", plan_.level);
  json.add("M", M_ > 0 ? M_ : total.footprint);
  add_totals(total, &json);
  const index_t bound_M = std::max(M_, total.footprint);
  add_bound(is_forward() ? theory::sdpa_forward_bounds(shape, bound_M)
                         : theory::sdpa_backward_bounds(shape, set, bound_M),
            is_forward() ? theory::AlgorithmClass::F : theory::class_of(set, blocks), &json);
  add_work(fma(), workspace_bytes(), &json);
  json.add_json("overflows", overflows.text(is_forward() ? rounded_results(dtype)
                                                         : rounded_results(dtype, set)));
  json.add_json("stored",
                is_forward() ? json_list({}) : stored_list(goal_.problem, set, blocks, threads_));

  std::vector<std::string> phases;
  for (int i = 0; i < cost.phase_count; ++i) {
    const theory::PhaseCost& phase = cost.phases[std::size_t(i)];
    JsonObject item;
    item.add("name", phase.name);
    add_blocks(phase.name, blocks, &item);
    add_cost(phase.cost, &item);
    phases.push_back(item.text());
  }
  json.add_json("phases", json_list(phases));
  return json.text();
}

}  // namespace ioattn::api
