#include "plan/layer/layer_candidates.hpp"

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/fast_memory.hpp"
#include "plan/layer/gradient_ways.hpp"

namespace ioattn::plan {
namespace {

LayerRequest forward_request(const LayerRequest& request) {
  LayerRequest forward = request;
  forward.pass = Pass::forward;
  return forward;
}

LayerCandidate forward_candidate(const LayerRequest& request, const Candidate& pass) {
  LayerCandidate candidate;
  candidate.plan = {pass.is_outer ? outer_level : request.level, {}, request.tile};
  candidate.plan.blocks.schedule = pass.schedule;
  candidate.plan.blocks.rows = pass.blocks;
  candidate.estimate = {words_of_M(request, pass), pass.cost, pass.fma, pass.scratch_bytes,
                        predicted_time(request, pass)};
  return candidate;
}

// All that the planner chooses from, with blocks in M or in outer_M.
std::vector<LayerCandidate> all_of(const LayerRequest& request,
                                   const std::optional<GradientSet>& set, bool outer) {
  if (set) return gradient_candidates(request, *set, outer);
  const LayerRequest forward = forward_request(request);
  std::vector<LayerCandidate> list;
  for (const Candidate& pass : offered(forward, outer))
    list.push_back(forward_candidate(forward, pass));
  return list;
}

// "row_stream h stored", "one_pass g".
std::string name_of_way(const std::optional<GradientSet>& set, const LayerBlocks& blocks) {
  if (blocks.by_keys == Schedule::tile_fused) return name_of(blocks.by_keys);
  if (blocks.keys.one_pass) return std::string("one_pass ") + name_of(blocks.rows.form);
  if (set && !set->is_dx_alone()) {
    return std::string(name_of(blocks.schedule)) + " " + name_of(blocks.rows.form);
  }
  return to_text(variant_of(set ? Pass::backward : Pass::forward, blocks.schedule, blocks.rows));
}

// ---- neighbours

// Where a size, or a side of a tile, is in the blocks of a plan.
struct Place {
  std::string name;
  index_t* size;
  index_t least;
};

// Sizes that matter, of the phases that run: not of delta, nor of sums of matrices.
std::vector<Place> places_of(const std::optional<GradientSet>& set, Tie tie, LayerBlocks* blocks) {
  GradientSteps steps;
  const bool alone = !set || set->is_dx_alone();
  if (set) steps = steps_of(*set, tie, blocks->rows.form);
  std::vector<Place> places;
  const auto add_sizes = [&](const char* prefix, const Variant& variant, Blocks* of) {
    for (const SizeField& field : size_fields()) {
      const std::string_view name = field.name;
      const bool of_delta = (name == "w" || name == "o") && variant.products == Products::stored;
      if (!uses(variant, name) || of_delta) continue;
      // Shorter blocks of rows make results less exact.
      const bool rows = name == "r" || name == "c" || name == "rho";
      places.push_back({prefix + std::string(name), &(of->*field.size), rows ? least_block : 1});
    }
  };
  const auto add_product = [&](const std::string& name, ProductBlocks* tile) {
    places.push_back({name + " rows", &tile->rows, 1});
    places.push_back({name + " columns", &tile->cols, 1});
    places.push_back({name + " depth", &tile->depth, least_block});
  };
  const Variant rows =
      variant_of(set ? Pass::backward : Pass::forward, blocks->schedule, blocks->rows);
  if (alone || has_row_pass(steps, *blocks)) add_sizes("", rows, &blocks->rows);
  if (has_key_pass(steps, *blocks)) {
    add_sizes("keys' ", variant_of(Pass::backward_keys, blocks->by_keys, blocks->keys),
              &blocks->keys);
  }
  for (const ProductField& field : product_fields())
    if (uses(rows, field.name)) add_product(field.name, &(blocks->rows.*field.product));
  if (alone) return places;
  for (const GradientProduct& product : gradient_products) {
    if (product.blocks == &LayerBlocks::dw) continue;  // too short to time
    if (steps.*product.runs) add_product(product.name, &(blocks->*product.blocks));
  }
  return places;
}

}  // namespace

Plan pass_of(const LayerPlan& plan) {
  return {plan.level, plan.blocks.schedule, plan.blocks.rows, plan.tile};
}

std::string to_text(const LayerPlan& plan, const std::optional<GradientSet>& set, Tie tie) {
  return set ? to_text(plan, *set, tie) : to_text(pass_of(plan));
}

bool parse_plan_of(std::string_view text, const std::optional<GradientSet>& set, Tie tie,
                   LayerPlan* plan, std::string* error) {
  if (set) return parse_layer_plan(text, *set, tie, plan, error);
  Plan pass;
  if (!parse_plan(text, &pass, error)) return false;
  *plan = {pass.level, {}, pass.tile};
  plan->blocks.schedule = pass.schedule;
  plan->blocks.rows = pass.blocks;
  return true;
}

Status make_plan_of(const LayerRequest& request, const std::optional<GradientSet>& set,
                    LayerPlan* plan, Estimate* estimate) {
  if (set) return make_gradient_plan(request, *set, plan, estimate);
  Plan made;
  Candidate pass;
  const LayerRequest forward = forward_request(request);
  const Status status = make_plan(forward, &made, &pass);
  if (!status.is_ok()) return status;
  const LayerCandidate candidate = forward_candidate(forward, pass);
  *plan = candidate.plan;
  if (estimate != nullptr) *estimate = candidate.estimate;
  return status;
}

void estimate_costs(const LayerRequest& request, const std::optional<GradientSet>& set,
                    const LayerPlan& plan, Estimate* estimate) {
  const LayerBlocks& blocks = plan.blocks;
  estimate->M = request.words_at(plan.level);
  if (!set) {
    const LayerRequest forward = forward_request(request);
    const LayerShape& shape = request.problem.shape;
    estimate->cost =
        theory::io_cost(Pass::forward, blocks.schedule, shape, blocks.rows, request.weights());
    estimate->fma = theory::fma_count(Pass::forward, blocks.schedule, shape, blocks.rows);
    estimate->scratch_bytes =
        scratch_bytes(forward, variant_of(Pass::forward, blocks.schedule, blocks.rows));
    return;
  }
  estimate->cost = cost_of(request, *set, blocks);
  estimate->fma = theory::gradients_fma(request.problem.shape, *set, blocks);
  if (set->is_dx_alone()) {
    estimate->scratch_bytes = scratch_bytes(
        request_alone(request, *set), variant_of(Pass::backward, blocks.schedule, blocks.rows));
  } else {
    const Way way = {blocks.schedule, blocks.rows.form, blocks.keys.one_pass, blocks.by_keys};
    estimate->scratch_bytes = scratch_bytes(request, *set, way);
  }
}

Status list_candidates(const LayerRequest& request, const std::optional<GradientSet>& set,
                       std::vector<LayerCandidate>* candidates) {
  LayerCandidate first;
  first.made_from = "estimate";
  const Status status = make_plan_of(request, set, &first.plan, &first.estimate);
  if (!status.is_ok()) return status;
  candidates->assign(1, first);
  for (const bool outer : {false, true}) {
    for (const index_t part : parts_of_memory) {
      // With less memory no plan has fewer words.
      if (request.price.of_words() && part < 8) break;
      LayerRequest narrowed = request;
      index_t& words = outer ? narrowed.outer_M : narrowed.M;
      words = words / 8 * part;
      if (!outer) narrowed.outer_M = 0;
      for (LayerCandidate& one : all_of(narrowed, set, outer)) {
        if (!is_worth_timing(*candidates, one, request.price.of_words())) continue;
        // What it costs at the whole level.
        estimate_costs(request, set, one.plan, &one.estimate);
        one.made_from = name_of_way(set, one.plan.blocks) + " in " + std::to_string(part) +
                        "/8 of " + one.plan.level;
        candidates->push_back(std::move(one));
      }
    }
  }
  order_candidates(request.price.of_words(), candidates);
  return Status::ok();
}

std::vector<LayerCandidate> neighbours(const LayerRequest& request,
                                       const std::optional<GradientSet>& set,
                                       const LayerPlan& plan) {
  const Tie tie = request.problem.shape.tie;
  std::vector<LayerCandidate> list;
  LayerPlan changed = plan;
  for (const Place& place : places_of(set, tie, &changed.blocks)) {
    const index_t size = *place.size;
    for (const bool twice : {true, false}) {
      *place.size = twice ? 2 * size : size / 2;
      if (!twice && *place.size < place.least) continue;
      if (twice && size >= longest_side(request.problem.shape)) continue;  // nothing would change
      const LayerBlocks& blocks = changed.blocks;
      if (!has_whole_shares(blocks.rows) || !has_whole_shares(blocks.keys)) continue;
      LayerCandidate candidate;
      candidate.plan = changed;
      LayerBlocks& whole = candidate.plan.blocks;
      take_whole_strips(whole.schedule, request.problem.shape.n, &whole.rows);
      estimate_costs(request, set, candidate.plan, &candidate.estimate);
      if (candidate.estimate.cost.total().footprint > candidate.estimate.M) continue;
      candidate.made_from = std::string(twice ? "twice " : "half of ") + place.name;
      list.push_back(std::move(candidate));
    }
    *place.size = size;
  }
  return list;
}

}  // namespace ioattn::plan
