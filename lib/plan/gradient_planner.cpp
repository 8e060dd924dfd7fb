#include "plan/gradient_planner.hpp"

#include <algorithm>

#include "plan/block_search.hpp"
#include "plan/blocking_col_stream.hpp"
#include "plan/blocking_rows.hpp"
#include "plan/product_blocks.hpp"

namespace ioattn::plan {
namespace {

struct Chosen {
  GradientBlocks blocks;
  GradientEstimate estimate;
};

double estimated_time(const GradientEstimate& estimate) {
  return static_cast<double>(estimate.fma) +
         fma_per_word * static_cast<double>(estimate.cost.total().words());
}

Variant row_variant(Schedule schedule, Form form) {
  return {Pass::backward, schedule, form, Products::stored};
}

// Words that pass through slow memory.
index_t scratch_words(const LayerShape& shape, const GradientSet& set, Schedule schedule,
                      Form form) {
  const auto [n, m, d, e, tie, mask] = shape;
  const GradientSteps steps = steps_of(set, tie, form);
  const bool of_values = steps.keys && steps.key_gradients != KeyGradients::keys;
  index_t words = 0;
  if (steps.delta) words += n;
  if (steps.s) words += n * d;
  if (steps.values) words += form == Form::h ? m * e : n * d;
  if (steps.rows) {
    words += n * d;
    if (schedule != Schedule::row_stream) words += n * m;
    if (schedule == Schedule::half_dim && d > 1) words += n * m;
  }
  if (of_values && form == Form::h) words += m * e;
  if (steps.dx && !set.dX) words += d * d;
  if (steps.parts) {
    words += (set.dA2 ? 0 : m * d) + (set.dA3 ? 0 : m * d);
    if (tie == Tie::all && !set.dA1) words += n * d;
  }
  return words;
}

// Blocks of one word in every phase: where the least fast memory is needed.
GradientBlocks least_blocks(Schedule schedule, Form form) {
  GradientBlocks blocks;
  blocks.schedule = schedule;
  blocks.rows = unit_blocks(row_variant(schedule, form));
  blocks.keys = unit_blocks({Pass::backward_keys, Schedule::col_stream, form});
  blocks.da1 = blocks.da3 = blocks.dy = blocks.dw = {1, 1, 1};
  blocks.sum = 1;
  return blocks;
}

// Blocks of the phases of a set at M words, which each has for itself.
GradientBlocks choose(const LayerShape& shape, const GradientSet& set, Schedule schedule, Form form,
                      index_t M, const TileShape& tile) {
  const auto [n, m, d, e, tie, mask] = shape;
  const GradientSteps steps = steps_of(set, tie, form);
  GradientBlocks blocks = least_blocks(schedule, form);
  // All their results are row-major: SIMD lanes are columns.
  const auto product = [&](const ProductShape& size) {
    return choose_product(size, M, {.step = {tile.rows, tile.cols}});
  };
  if (steps.rows) {
    blocks.rows = choose_row_blocks(row_variant(schedule, form), shape, M, tile);
  } else {
    // The thin products of a pass over keys alone.
    blocks.rows.s = product({n, d, d});
    if (form == Form::h && steps.values) blocks.rows.h = product({m, d, e});
    if (form == Form::g) blocks.rows.g = product({n, e, d});
    blocks.rows.w = std::min(e, (M - 1) / 2);
    blocks.rows.o = std::clamp<index_t>(M / (2 * blocks.rows.w + 1), 1, n);
  }
  if (steps.keys) blocks.keys = choose_col_stream(shape, form, steps.key_gradients, M, tile);
  if (steps.da3) blocks.da3 = product({m, e, d});
  if (steps.dy) blocks.dy = product({d, m, e});
  if (steps.da1) blocks.da1 = product({n, d, d});
  if (steps.dw_q || steps.dw_k) blocks.dw = product({d, d, set.dk});
  blocks.sum = std::min(d, M / 2);
  return blocks;
}

Status plan_alone(const PlanRequest& request, const GradientSet& set, Chosen* chosen) {
  const LayerShape& shape = request.problem.shape;
  Plan plan;
  Candidate candidate;
  PlanRequest backward = request;
  backward.pass = Pass::backward;
  const index_t own =
      scratch_words(shape, set, Schedule::row_stream, Form::h) * size_of(request.problem.dtype);
  if (request.memory_limit_bytes >= 0) {
    backward.memory_limit_bytes = std::max<index_t>(request.memory_limit_bytes - own, 0);
  }
  const Status status = make_plan(backward, &plan, &candidate);
  if (!status.is_ok()) return status;
  chosen->blocks = least_blocks(Schedule::row_stream, plan.blocks.form);
  chosen->blocks.schedule = plan.schedule;
  chosen->blocks.rows = plan.blocks;
  const index_t d = shape.d;
  if (set.dW_Q || set.dW_K)
    chosen->blocks.dw =
        choose_product({d, d, set.dk}, request.M, {.step = {request.tile.rows, request.tile.cols}});
  chosen->estimate.scratch_bytes = candidate.scratch_bytes + own;
  return Status::ok();
}

// Schedules that the pass over the queries may take.
bool is_candidate(const PlanRequest& request, const GradientSet& set, Schedule schedule) {
  if (!leaves_u(schedule)) return false;
  if (request.schedule) return schedule == *request.schedule;
  if (schedule == Schedule::row_stream) return true;
  return steps_of(set, request.problem.shape.tie, Form::h).rows &&
         request.memory_limit_bytes >= 0 && !request.problem.shape.mask.hides();
}

Status plan_passes(const PlanRequest& request, const GradientSet& set, Chosen* chosen) {
  const LayerShape& shape = request.problem.shape;
  if (request.schedule && !leaves_u(*request.schedule)) {
    return Status::error(StatusCode::unsupported,
                         "%s computes dX alone; other gradients take row_stream, q_stored or "
                         "half_dim",
                         name_of(*request.schedule));
  }
  if (request.schedule && shape.mask.hides() && !takes_masks(*request.schedule)) {
    return Status::error(StatusCode::unsupported, "%s takes no mask", name_of(*request.schedule));
  }
  index_t least_M = 0;
  bool found = false, limited = false;
  const auto consider = [&](Schedule schedule, Form form) {
    Chosen trial;
    const bool dx = set.dX || set.dW_Q || set.dW_K;
    trial.estimate.scratch_bytes = (scratch_words(shape, set, schedule, form) +
                                    batch_scratch_words(request.problem, dx, set.dY)) *
                                   size_of(request.problem.dtype);
    if (request.memory_limit_bytes >= 0 &&
        trial.estimate.scratch_bytes > request.memory_limit_bytes) {
      limited = true;
      return;
    }
    const index_t least =
        theory::gradients_cost(shape, set, least_blocks(schedule, form)).total().footprint;
    least_M = least_M == 0 ? least : std::min(least_M, least);
    if (request.M < least) return;
    trial.blocks = choose(shape, set, schedule, form, request.M, request.tile);
    trial.estimate.cost = theory::gradients_cost(shape, set, trial.blocks);
    trial.estimate.fma = theory::gradients_fma(shape, set, trial.blocks);
    if (!found || estimated_time(trial.estimate) < estimated_time(chosen->estimate))
      *chosen = trial;
    found = true;
  };
  for (const Schedule schedule : {Schedule::row_stream, Schedule::q_stored, Schedule::half_dim}) {
    if (!is_candidate(request, set, schedule)) continue;
    for (const Form form : {Form::g, Form::h}) {
      if (has_gradients(set, form)) consider(schedule, form);
    }
  }
  if (found) return Status::ok();
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

Status make_gradient_plan(const PlanRequest& request, const GradientSet& set, GradientPlan* plan,
                          GradientEstimate* estimate) {
  const LayerShape& shape = request.problem.shape;
  if (set.dA && shape.tie == Tie::none) {
    return Status::error(StatusCode::invalid_argument,
                         "dA is the sum over operands that share memory: none do");
  }
  Chosen chosen;
  const bool alone = steps_of(set, shape.tie, Form::h).alone;
  const Status status =
      alone ? plan_alone(request, set, &chosen) : plan_passes(request, set, &chosen);
  if (!status.is_ok()) return status;
  chosen.estimate.cost = theory::gradients_cost(shape, set, chosen.blocks);
  chosen.estimate.fma = theory::gradients_fma(shape, set, chosen.blocks);
  *plan = {request.level, chosen.blocks, request.tile.isa, request.tile.rows, request.tile.cols};
  if (estimate != nullptr) *estimate = chosen.estimate;
  return Status::ok();
}

}  // namespace ioattn::plan
