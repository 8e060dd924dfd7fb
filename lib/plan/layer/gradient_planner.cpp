#include "plan/layer/gradient_planner.hpp"

#include <algorithm>

#include "plan/blocks/blocking_tile_fused.hpp"
#include "plan/blocks/product_blocks.hpp"
#include "plan/blocks/tile_fused_time.hpp"
#include "plan/layer/gradient_ways.hpp"

namespace ioattn::plan {
namespace {

LayerCandidate candidate_of(const LayerRequest& request, const GradientSet& set,
                            const LayerBlocks& blocks, bool outer) {
  LayerCandidate candidate;
  candidate.plan = {outer ? outer_level : request.level, blocks, request.tile};
  candidate.estimate.M = outer ? request.outer_M : request.M;
  candidate.estimate.cost = cost_of(request, set, blocks);
  candidate.estimate.fma = theory::gradients_fma(request.problem.shape, set, blocks);
  return candidate;
}

// ---- dX by a pass of its own

LayerCandidate candidate_alone(const LayerRequest& request, const GradientSet& set,
                               const Candidate& pass) {
  LayerBlocks blocks = least_blocks({Schedule::row_stream, pass.blocks.form});
  blocks.schedule = pass.schedule;
  blocks.rows = pass.blocks;
  if (set.dW_Q || set.dW_K) {
    const index_t d = request.problem.shape.d;
    blocks.dw =
        choose_product({d, d, set.dk}, request.memory(false).M,
                       {.step = {request.tile.rows, request.tile.cols}, .price = request.price});
  }
  LayerCandidate candidate = candidate_of(request, set, blocks, pass.is_outer);
  candidate.estimate.scratch_bytes = pass.scratch_bytes;
  candidate.estimate.time = predicted_time(request, pass);
  return candidate;
}

Status plan_alone(const LayerRequest& request, const GradientSet& set, LayerCandidate* chosen) {
  Plan plan;
  Candidate pass;
  const LayerRequest backward = request_alone(request, set);
  const Status status = make_plan(backward, &plan, &pass);
  if (status.is_ok()) *chosen = candidate_alone(backward, set, pass);
  return status;
}

// ---- passes that share what several gradients need

bool is_limited(const LayerRequest& request, const GradientSet& set, const Way& way) {
  return request.memory_limit_bytes >= 0 &&
         scratch_bytes(request, set, way) > request.memory_limit_bytes;
}

index_t least_M_of(const LayerRequest& request, const GradientSet& set, const Way& way) {
  return cost_of(request, set, least_blocks(way)).total().footprint;
}

bool may_be(const LayerRequest& request, const GradientSet& set, const Way& way, bool outer) {
  if (is_limited(request, set, way) || request.M < least_M_of(request, set, way)) return false;
  return !outer || (request.has_outer() && way.schedule == Schedule::row_stream);
}

LayerCandidate candidate_of_way(const LayerRequest& request, const GradientSet& set, const Way& way,
                                bool outer) {
  const FastMemory memory = request.memory(outer);
  const LayerBlocks blocks =
      choose_gradient_blocks(request.problem.shape, set, way, memory, request.tile);
  LayerCandidate candidate = candidate_of(request, set, blocks, outer);
  candidate.estimate.scratch_bytes = scratch_bytes(request, set, way);
  candidate.estimate.time = gradients_time(request, set, blocks, memory);
  return candidate;
}

Status plan_passes(const LayerRequest& request, const GradientSet& set, LayerCandidate* chosen) {
  const LayerShape& shape = request.problem.shape;
  const bool by_tiles = request.schedule == Schedule::tile_fused;
  if (request.schedule) {
    const Status status = check_pass(*request.schedule, Pass::backward);
    if (!status.is_ok()) return status;
  }
  if (request.schedule && !leaves_u(*request.schedule) && !by_tiles) {
    return Status::error(StatusCode::unsupported,
                         "%s computes dX alone; other gradients take row_stream, q_stored, "
                         "half_dim or tile_fused",
                         name_of(*request.schedule));
  }
  if (by_tiles) {
    const Status status = check_dtype(*request.schedule, request.problem.dtype, request.tile.isa);
    if (!status.is_ok()) return status;
  }
  if (request.schedule) {
    const Status status = check_masked(*request.schedule, shape.mask.hides());
    if (!status.is_ok()) return status;
  }
  index_t least_M = 0;
  double least_time = 0;  // handicapped
  bool is_chosen = false, limited = false;
  for (const Way& way : ways_of(request, set)) {
    if (is_limited(request, set, way)) {
      limited = true;
      continue;
    }
    const index_t least = least_M_of(request, set, way);
    least_M = least_M == 0 ? least : std::min(least_M, least);
    for (const bool outer : {false, true}) {
      if (!may_be(request, set, way, outer)) continue;
      const LayerCandidate candidate = candidate_of_way(request, set, way, outer);
      const FastMemory memory = request.memory(outer);
      double time = handicapped(candidate.estimate.time, memory);
      if (way.by_keys == Schedule::tile_fused) {
        const LayerBlocks& blocks = candidate.plan.blocks;
        const GradientSteps steps = steps_of(set, shape.tie, Form::h);
        time += longer_in_short_blocks(shape, blocks.keys,
                                       of_layer(key_pass(steps, blocks), request.tile), memory,
                                       request.tile);
        time = handicapped_tiles(time, request.price, request.tile);
      }
      if (is_chosen && time >= least_time) continue;
      is_chosen = true;
      least_time = time;
      *chosen = candidate;
    }
  }
  if (is_chosen) return Status::ok();
  if (limited) {
    return Status::error(StatusCode::memory_limit,
                         "the gradients need more than %lld bytes of scratch memory",
                         static_cast<long long>(request.memory_limit_bytes));
  }
  return Status::error(StatusCode::fast_memory_too_small,
                       "M = %lld words is too small for these gradients: the least is %lld",
                       static_cast<long long>(request.M), static_cast<long long>(least_M));
}

}  // namespace

Status make_gradient_plan(const LayerRequest& request, const GradientSet& set, LayerPlan* plan,
                          Estimate* estimate) {
  Status status = check_tie(set, request.problem.shape.tie);
  if (!status.is_ok()) return status;
  LayerCandidate chosen;
  status =
      set.is_dx_alone() ? plan_alone(request, set, &chosen) : plan_passes(request, set, &chosen);
  if (!status.is_ok()) return status;
  *plan = std::move(chosen.plan);
  if (estimate != nullptr) *estimate = chosen.estimate;
  return Status::ok();
}

std::vector<LayerCandidate> gradient_candidates(const LayerRequest& request, const GradientSet& set,
                                                bool outer) {
  std::vector<LayerCandidate> list;
  if (set.is_dx_alone()) {
    const LayerRequest backward = request_alone(request, set);
    for (const Candidate& pass : offered(backward, outer))
      list.push_back(candidate_alone(backward, set, pass));
    return list;
  }
  for (const Way& way : ways_of(request, set))
    if (may_be(request, set, way, outer))
      list.push_back(candidate_of_way(request, set, way, outer));
  return list;
}

}  // namespace ioattn::plan
