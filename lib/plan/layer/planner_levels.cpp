#include "plan/layer/planner_levels.hpp"

#include "plan/blocks/blocking_rows.hpp"
#include "plan/blocks/blocking_tile_fused.hpp"
#include "plan/blocks/tile_fused_time.hpp"
#include "theory/block_costs.hpp"

namespace ioattn::plan {
namespace {

// A pass whose blocks decide how fast its kernels are, among the phases of a candidate.
struct Share {
  index_t fma = 0, words = 0;
  double time = 0;
};

Share row_pass_of(const LayerRequest& request, const Candidate& c, const FastMemory& memory) {
  const LayerShape& shape = request.problem.shape;
  const auto [n, m, d, e, tie, mask] = shape;
  const Variant variant = variant_of(request.pass, c.schedule, c.blocks);
  const bool forward = request.pass == Pass::forward, fused = variant.products == Products::fused;
  const index_t v = variant.form == Form::h ? e : d;
  Share pass;
  pass.fma = visible_pairs(mask, n, m) * (forward ? d + v : 2 * d + v);
  pass.words = c.cost.total().words();
  if (!fused) {
    const theory::Weights weights = request.weights();
    pass.words = (forward ? theory::row_stream_forward_pass(shape, c.blocks, weights)
                          : theory::row_stream_backward_pass(shape, c.blocks, weights))
                     .words();
  } else if (!forward) {
    pass.fma += n * d * d;  // dX
  }
  pass.time = row_pass_time(variant, shape, c.blocks, memory, request.tile);
  return pass;
}

Share tiles_of(const LayerRequest& request, const Candidate& c, const FastMemory& memory) {
  const LayerShape& shape = request.problem.shape;
  if (request.pass == Pass::forward) {
    return {visible_pairs(shape.mask, shape.n, shape.m) * (shape.d + shape.dv),
            theory::tile_fused_forward_pass(shape, c.blocks, request.weights()).words(),
            tile_fused_forward_time(shape, c.blocks, memory, request.tile,
                                    multiplies_pairs(request.tile.isa))};
  }
  const KeyPassKind kind = tiles_of_u(request.tile);
  return {theory::col_stream_fma(shape, Form::h, kind),
          theory::tile_fused(shape, c.blocks, kind, request.weights()).words(),
          tile_fused_time(shape, c.blocks, kind, memory, request.tile)};
}

// In multiply-adds. Longer blocks make the pass faster, not the thin products around it.
double streaming_time(const LayerRequest& request, const Candidate& c, const FastMemory& memory) {
  const bool by_tiles = c.schedule == Schedule::tile_fused;
  const Share pass = by_tiles ? tiles_of(request, c, memory) : row_pass_of(request, c, memory);
  const double saved = by_tiles ? saved_of_thin_products(request.problem.shape, request.tile) : 0;
  return pass.time + static_cast<double>(c.fma - pass.fma) - saved +
         request.per_word() * static_cast<double>(c.cost.total().words() - pass.words);
}

bool streams(const Candidate& c) {
  return c.schedule == Schedule::row_stream || c.schedule == Schedule::tile_fused;
}

}  // namespace

bool may_be_outer(Pass pass, const Candidate& c) {
  return streams(c) && (pass == Pass::backward || c.blocks.products == Products::stored);
}

Candidate held_in_outer(const LayerRequest& request, const Candidate& inner) {
  const LayerShape& shape = request.problem.shape;
  const FastMemory memory = request.memory(true);
  const Variant variant = variant_of(request.pass, inner.schedule, inner.blocks);
  Candidate outer = inner;
  if (inner.schedule == Schedule::tile_fused) {
    outer.blocks = request.pass == Pass::forward
                       ? choose_layer_forward_tiles(shape, memory, request.tile)
                       : choose_tile_fused_backward(shape, memory, request.tile);
  } else if (variant.products == Products::fused) {
    outer.blocks = choose_row_blocks(variant, shape, memory, request.tile);
  } else {
    take_rows(choose_row_blocks(variant, shape, memory, request.tile), &outer.blocks);
  }
  outer.is_outer = true;
  outer.cost =
      theory::io_cost(request.pass, outer.schedule, shape, outer.blocks, request.weights());
  return outer;
}

double predicted_time(const LayerRequest& request, const Candidate& candidate) {
  return streams(candidate) ? streaming_time(request, candidate, request.memory(candidate.is_outer))
                            : estimated_time(request, candidate);
}

Candidate fastest(const LayerRequest& request, const Candidate& best,
                  const std::vector<Candidate>& all) {
  Candidate taken = best;
  if (request.literal || request.price.of_words()) return taken;
  const auto counted = [&](const Candidate& c, double time) {
    if (c.schedule != Schedule::tile_fused) return time;
    if (request.pass == Pass::backward) {
      time += longer_in_short_blocks(request.problem.shape, c.blocks, tiles_of_u(request.tile),
                                     request.memory(c.is_outer), request.tile);
    }
    return handicapped_tiles(time, request.price, request.tile);
  };
  double least = counted(best, predicted_time(request, best));
  const auto consider = [&](const Candidate& c) {
    const bool fused = c.blocks.products == Products::fused;
    const FastMemory memory = request.memory(c.is_outer);
    double time = predicted_time(request, c);
    time = handicapped(time, memory, fused ? handicap::outer_fused : handicap::outer);
    time = counted(c, time);
    if (time >= least) return;
    least = time;
    taken = c;
  };
  // With fewer columns of values than d rows of f32 take 0.95 to 0.99 of the time of tiles of f32
  // (forward, Zen 4), which are held here against one form of rows alone: tiles are for what rows
  // cannot do.
  const LayerShape& shape = request.problem.shape;
  const bool tiles_compete = request.pass == Pass::backward || shape.dv >= shape.d ||
                             multiplies_pairs(request.tile.isa) ||
                             best.schedule == Schedule::tile_fused;
  for (const Candidate& c : all) {
    if (!c.fits || !c.within_memory_limit) continue;
    const bool by_tiles = c.schedule == Schedule::tile_fused;
    if (by_tiles && !tiles_compete) continue;
    if (by_tiles) consider(c);
    if (!request.has_outer() || !may_be_outer(request.pass, c)) continue;
    if (by_tiles || best.schedule == Schedule::row_stream) consider(held_in_outer(request, c));
  }
  return taken;
}

}  // namespace ioattn::plan
