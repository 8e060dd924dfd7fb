#include "plan/layer/gradient_ways.hpp"

#include <algorithm>

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/blocking_col_stream.hpp"
#include "plan/blocks/blocking_rows.hpp"
#include "plan/blocks/blocking_tile_fused.hpp"
#include "plan/blocks/product_blocks.hpp"
#include "plan/blocks/thin_products.hpp"
#include "plan/blocks/tile_fused_time.hpp"
#include "plan/layer/intermediates.hpp"
#include "theory/block_costs.hpp"

namespace ioattn::plan {
namespace {

double time_of(index_t fma, const IoCost& cost, double per_word) {
  return static_cast<double>(fma) + per_word * static_cast<double>(cost.words());
}

Variant row_variant(Schedule schedule, Form form) {
  return {Pass::backward, schedule, form, Products::stored};
}

// Results in f32, of all entries, that are rounded at the end.
index_t words_to_round(const LayerProblem& problem, const GradientSet& set) {
  return set.rounds(problem.dtype) ? gradient_numbers(problem.shape, set, problem.batch) : 0;
}

// Schedules that the pass over the queries may take.
bool is_candidate(const LayerRequest& request, const GradientSet& set, Schedule schedule) {
  if (!leaves_u(schedule)) return false;
  if (request.schedule) return schedule == *request.schedule;
  if (schedule == Schedule::row_stream) return true;
  return steps_of(set, request.problem.shape.tie, Form::h).rows &&
         request.memory_limit_bytes >= 0 && !request.problem.shape.mask.hides();
}

// By pairs of score tiles, U too.
bool may_be_tiles(const LayerRequest& request) {
  const bool is_asked = !request.schedule || *request.schedule == Schedule::tile_fused;
  return is_asked && takes_dtype(Schedule::tile_fused, request.problem.dtype, request.tile.isa);
}

}  // namespace

std::vector<Way> ways_of(const LayerRequest& request, const GradientSet& set) {
  std::vector<Way> ways;
  for (const Schedule schedule : {Schedule::row_stream, Schedule::q_stored, Schedule::half_dim}) {
    if (!is_candidate(request, set, schedule)) continue;
    for (const Form form : {Form::g, Form::h}) {
      if (!has_gradients(set, form)) continue;
      ways.push_back({schedule, form});
      const GradientSteps steps = steps_of(set, request.problem.shape.tie, form);
      if (schedule == Schedule::row_stream && steps.rows && steps.keys && !request.schedule) {
        ways.push_back({schedule, form, true});
      }
    }
  }
  if (may_be_tiles(request)) {
    const GradientSteps steps = steps_of(set, request.problem.shape.tie, Form::h);
    ways.push_back({Schedule::row_stream, Form::h, steps.rows, Schedule::tile_fused});
  }
  return ways;
}

theory::ScheduleCost cost_of(const LayerRequest& request, const GradientSet& set,
                             const LayerBlocks& blocks) {
  return theory::gradients_cost(request.problem.shape, set, blocks, {}, request.problem.dtype);
}

LayerBlocks least_blocks(const Way& way) {
  LayerBlocks blocks;
  blocks.schedule = way.schedule;
  blocks.rows = unit_blocks(row_variant(way.schedule, way.form));
  blocks.keys = unit_blocks({Pass::backward_keys, way.by_keys, way.form});
  blocks.by_keys = way.by_keys;
  blocks.keys.one_pass = way.one_pass;
  for (const GradientProduct& product : gradient_products) blocks.*product.blocks = {1, 1, 1};
  blocks.sum = 1;
  return blocks;
}

LayerBlocks choose_gradient_blocks(const LayerShape& shape, const GradientSet& set, const Way& way,
                                   const FastMemory& memory, const TileShape& tile) {
  const auto [n, m, d, e, tie, mask] = shape;
  const Form form = way.form;
  const index_t M = memory.is_outer() ? memory.inner_M : memory.M;
  const GradientSteps steps = steps_of(set, tie, form);
  LayerBlocks blocks = least_blocks(way);
  // All their results are row-major: SIMD lanes are columns.
  const auto product = [&](const ProductShape& size) {
    return choose_product(size, M, {.step = {tile.rows, tile.cols}, .price = memory.price});
  };
  if (has_row_pass(steps, blocks)) {
    const Variant variant = row_variant(way.schedule, form);
    blocks.rows = choose_row_blocks(variant, shape, {M, 0, memory.price}, tile, {.room = true});
    if (memory.is_outer()) {
      take_rows(choose_row_blocks(variant, shape, memory, tile), &blocks.rows);
    }
  } else {
    choose_thin_products(shape, {steps.values, steps.dx}, M, memory.price, tile, &blocks.rows);
  }
  if (has_key_pass(steps, blocks)) {
    const KeyPassKind kind = key_pass(steps, blocks);
    blocks.keys = blocks.by_keys == Schedule::tile_fused
                      ? choose_tile_fused(shape.without_mask(), of_layer(kind, tile), memory, tile)
                      : choose_col_stream(shape, form, kind, memory, tile);
  }
  if (steps.da3) blocks.da3 = product({m, e, d});
  if (steps.dy) blocks.dy = product({d, m, e});
  if (steps.da1) blocks.da1 = product({n, d, d});
  if (steps.dw_q || steps.dw_k) blocks.dw = product({d, d, set.dk});
  blocks.sum = std::min(d, M / 2);
  return blocks;
}

double gradients_time(const LayerRequest& request, const GradientSet& set,
                      const LayerBlocks& blocks, const FastMemory& memory) {
  const LayerShape& shape = request.problem.shape;
  const TileShape& tile = request.tile;
  const GradientSteps steps = steps_of(set, shape.tie, blocks.rows.form);
  double time = time_of(theory::gradients_fma(shape, set, blocks),
                        cost_of(request, set, blocks).total(), request.per_word());
  // What kernels take besides. The estimates of passes count a number, of whatever bytes, as a
  // word.
  const double per_word = memory.price.per_word;
  if (blocks.schedule != Schedule::row_stream) return time;
  const LayerShape unmasked = shape.without_mask();
  const index_t v = blocks.rows.form == Form::h ? shape.dv : shape.d;
  if (has_row_pass(steps, blocks)) {
    time += row_pass_time(row_variant(Schedule::row_stream, blocks.rows.form), unmasked,
                          blocks.rows, memory, tile) -
            time_of(shape.n * shape.m * (2 * shape.d + v),
                    theory::row_stream_backward_pass(unmasked, blocks.rows), per_word);
  }
  if (has_key_pass(steps, blocks)) {
    const KeyPassKind kind = key_pass(steps, blocks);
    const bool by_tiles = blocks.by_keys == Schedule::tile_fused;
    time += by_tiles ? tile_fused_time(unmasked, blocks.keys, of_layer(kind, tile), memory, tile)
                     : col_stream_time(unmasked, blocks.keys, kind, memory, tile);
    if (by_tiles) time -= saved_of_thin_products(shape, tile);
    const index_t fma = theory::col_stream_fma(unmasked, blocks.rows.form, kind);
    time -= by_tiles
                ? time_of(fma, theory::tile_fused(unmasked, blocks.keys, kind, request.weights()),
                          request.per_word())
                : time_of(fma, theory::col_stream(unmasked, blocks.keys, kind), per_word);
  }
  return time;
}

index_t scratch_bytes(const LayerRequest& request, const GradientSet& set, const Way& way) {
  LayerProblem problem = request.problem;
  if (scales_scores(way.by_keys, is_half(problem.dtype))) problem.scale = 1;
  const bool dx = set.dX || set.dW_Q || set.dW_K;
  return intermediates(problem.shape, set, way.schedule, way.by_keys, way.form, problem.dtype)
             .bytes() +
         (batch_scratch_words(problem, dx, set.dY) + words_to_round(problem, set)) *
             bytes_of_sum(problem.dtype);
}

LayerRequest request_alone(const LayerRequest& request, const GradientSet& set) {
  const LayerProblem& problem = request.problem;
  const Way way = {Schedule::row_stream, Form::h};
  LayerRequest backward = request;
  backward.pass = Pass::backward;
  backward.beside_bytes =
      intermediates(problem.shape, set, way.schedule, way.by_keys, way.form, problem.dtype)
          .bytes() +
      words_to_round(problem, set) * bytes_of_sum(problem.dtype);
  return backward;
}

}  // namespace ioattn::plan
