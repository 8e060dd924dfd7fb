#include <algorithm>

#include "api/plans/describe.hpp"
#include "api/plans/layer_plan.hpp"
#include "machine/machine.hpp"
#include "plan/layer/intermediates.hpp"
#include "theory/gradients_bounds.hpp"
#include "theory/gradients_cost.hpp"

namespace ioattn::api {
namespace {

std::string blocks_json(const Variant& variant, const Blocks& blocks) {
  JsonObject json;
  for (const SizeField& field : size_fields()) {
    const bool is_share = field.size == &Blocks::share && blocks.share > 0;
    if (uses(variant, field.name) || is_share) json.add(field.name, blocks.*field.size);
  }
  for (const ProductField& field : product_fields()) {
    if (!uses(variant, field.name)) continue;
    const ProductBlocks& product = blocks.*field.product;
    JsonObject tile;
    tile.add("rows", product.rows);
    tile.add("cols", product.cols);
    tile.add("depth", product.depth);
    tile.add("keep_a", product.keep_a);
    json.add_json(field.name, tile.text());
  }
  if (blocks.packed) json.add("packed", true);
  if (blocks.parked) json.add("parked", true);
  return json.text();
}

}  // namespace

std::string LayerPlan::describe(const OverflowStatistics& overflows) const {
  const LayerShape shape = shape_to_plan(goal_.problem.shape);
  const GradientSet& set = goal_.gradients;
  const LayerBlocks& phase_blocks = plan_.blocks;
  const bool one_pass = !is_forward() && phase_blocks.keys.one_pass;
  const Schedule schedule = one_pass ? phase_blocks.by_keys : phase_blocks.schedule;
  const Blocks& blocks = one_pass ? phase_blocks.keys : phase_blocks.rows;
  const DType dtype = goal_.problem.dtype;
  const theory::Batch batch = theory::batch_of(goal_.problem);
  const theory::ScheduleCost cost =
      is_forward() ? theory::forward_cost(schedule, shape, blocks, batch, dtype)
                   : theory::gradients_cost(shape, set, phase_blocks, batch, dtype);
  const index_t fma =
      is_forward() ? batch.entries * theory::fma_count(Pass::forward, schedule, shape, blocks)
                   : theory::gradients_fma(shape, set, phase_blocks, batch.entries);
  const IoCost total = cost.total();
  const index_t M = M_ > 0 ? M_ : total.footprint;
  const Variant variant = variant_of(one_pass ? Pass::backward_keys : goal_.pass, schedule, blocks);
  const theory::AlgorithmClass algorithms = is_forward()
                                                ? theory::class_of(Pass::forward, schedule)
                                                : theory::class_of(set, phase_blocks, shape.tie);
  // What no schedule of the same class can beat.
  const auto add_bound_at = [&](index_t words, JsonObject* object) {
    const theory::BoundSet bounds =
        is_forward() ? theory::layer_bounds(Pass::forward, shape, words, batch.entries)
                     : theory::gradients_bounds(shape, set, words, batch.entries);
    add_bound(bounds, algorithms, object);
  };

  JsonObject json;
  json.add("problem", to_text(goal_.problem));
  json.add("pass", name_of(goal_.pass));
  if (!is_forward()) json.add_json("gradients", json_names(set, named_gradients));
  if (!is_forward() && is_half(dtype)) json.add("in_f32", set.in_f32);
  json.add("plan", text());
  json.add("origin", origin_.name);
  add_objective(objective_, &json);
  json.add("schedule", name_of(schedule));
  json.add("variant", to_text(variant));
  json.add_json("blocks", blocks_json(variant, blocks));
  add_kernel(plan_.tile, &json);
  json.add("threads", index_t(threads_));
  json.add("level", plan_.level);
  json.add("M", M);
  add_totals(total, &json);
  add_bound_at(std::max(M, total.footprint), &json);
  add_work(fma, workspace_bytes_, &json);
  json.add_json("overflows", overflows.text(is_forward() ? rounded_results(dtype)
                                                         : rounded_results(dtype, set)));
  const plan::Intermediates kept = plan::intermediates(
      shape, is_forward() ? std::nullopt : std::optional(set), phase_blocks, dtype);
  std::vector<std::string> stored;
  for (int i = 0; i < kept.count; ++i) {
    const plan::Intermediate& one = kept.list[static_cast<std::size_t>(i)];
    stored.push_back(
        stored_json(one.name, {one.rows, one.cols}, size_of(one.dtype) / size_of(dtype)));
  }
  json.add_json("stored", json_list(stored));

  std::vector<std::string> phases;
  for (int i = 0; i < cost.phase_count; ++i) {
    const theory::PhaseCost& phase = cost.phases[std::size_t(i)];
    JsonObject item;
    item.add("name", phase.name);
    add_cost(phase.cost, &item);
    phases.push_back(item.text());
  }
  json.add_json("phases", json_list(phases));

  // The bounds at the cache levels of this machine.
  std::vector<std::string> levels;
  for (const machine::CacheLevel& cache : machine::this_machine().caches) {
    const machine::FastMemory memory = machine::fast_memory(cache, dtype);
    if (memory.words < 1) continue;
    JsonObject item;
    item.add("level", "L" + std::to_string(cache.level));
    item.add("M", memory.words);
    item.add("regime", theory::name_of(theory::regime(shape, memory.words)));
    add_bound_at(memory.words, &item);
    levels.push_back(item.text());
  }
  json.add_json("levels", json_list(levels));
  return json.text();
}

}  // namespace ioattn::api
