#include "plan/sdpa_planner.hpp"

#include <algorithm>

#include "plan/block_search.hpp"
#include "plan/blocking_col_stream.hpp"
#include "plan/blocking_pair_rows.hpp"
#include "plan/blocking_rows.hpp"
#include "plan/blocking_tile_fused.hpp"
#include "plan/sdpa_least.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn::plan {
namespace {

constexpr Variant row_variant(Pass pass) {
  return {pass, Schedule::row_stream, Form::h, Products::stored};
}

using theory::resident_words;

Status check_memory(const SdpaRequest& request, Pass pass, index_t least) {
  if (request.M >= least) return Status::ok();
  return Status::error(StatusCode::fast_memory_too_small,
                       "M = %lld words is too small for the %s pass: the least is %lld",
                       static_cast<long long>(request.M), name_of(pass),
                       static_cast<long long>(least));
}

// Blocks at a level, what they cost, and their estimated time, in multiply-adds.
struct Trial {
  SdpaBlocks blocks;
  double cost = 0, time = 0;  // 0: none
  bool fills_lanes = true;    // of all score tiles
  double outer_time = usual_outer_time;
};

// Passes over the keys in f32 and f64 take 0.96 to 0.99 of their time in L2 where they are
// estimated to take as long (Zen 4, d = 80 to 160): longer blocks wait less often.
double outer_time_of_keys(const Price& price) { return price.is_known ? 0.99 : usual_outer_time; }

// Forward rows in f64, which pass by the keys more often, save what they are estimated to
// (MEASURED.md).
double outer_time_of_rows(DType dtype, const Price& price) {
  return dtype == DType::f64 && price.is_known ? 0.96 : usual_outer_time;
}

// Adds what `cost` says of a phase in a memory.
template <class Cost>
void add_phase(const FastMemory& memory, const Cost& cost, Trial* trial) {
  trial->cost += cost(memory);
  trial->time += cost(memory.of_time());
}

// Where words decide, blocks that are mostly padding, which is not counted, come last.
void take_better(const Trial& trial, const Price& price, Trial* best) {
  const bool preferred = price.of_words() && trial.fills_lanes && !best->fills_lanes;
  const bool allowed = !price.of_words() || trial.fills_lanes || !best->fills_lanes;
  if (best->cost == 0 || preferred || (allowed && trial.cost < best->cost)) *best = trial;
}

// Where words decide, what passes are estimated to take in numbers gives way to the exact count.
template <class Words>
void count_words(const Price& price, const Words& words, Trial* trial) {
  if (!price.of_words() || trial->cost == 0) return;
  trial->cost = trial->time + price.per_word * static_cast<double>(words(trial->blocks));
}

// Rows or columns in L3 take 0.91 to 0.98 of the time of tiles that were estimated to be as fast
// (MEASURED.md), where L3 is fast. Nobody measured it with AMX.
double cost_that_tiles_count(double cost, const Price& price, const TileShape& tile) {
  const bool competes = price.is_known && !multiplies_tiles(tile.isa);
  return competes ? time_that_tiles_count(cost, price) : cost;
}

// By pairs of tiles: all of them, dQ on the way, or those of the keys.
Trial trial_of_tiles(const LayerShape& head, const SdpaSet& set, bool one_pass,
                     const FastMemory& memory, const Blocks& rows, const TileShape& tile) {
  const LayerShape unmasked = head.without_mask();
  const KeyPassKind kind = set.key_kind(one_pass);
  Trial trial;
  trial.blocks = {rows, choose_tile_fused(unmasked, kind, memory, tile), Schedule::tile_fused};
  trial.fills_lanes = fill_lanes(trial.blocks.keys.c, head.m, tile);
  const Blocks& keys = trial.blocks.keys;
  add_phase(
      memory, [&](const FastMemory& in) { return tile_fused_time(unmasked, keys, kind, in, tile); },
      &trial);
  if (!multiplies_pairs(tile.isa)) {  // pairs have no other pass over the keys
    trial.cost += longer_in_short_blocks(head, keys, kind, memory, tile);
  }
  trial.cost = cost_that_tiles_count(trial.cost, memory.price, tile);
  return trial;
}

// The better of two levels; false if there is no plan at either.
template <class Choose>
bool choose_level(const SdpaRequest& request, const Choose& choose, SdpaPlan* plan,
                  Estimate* estimate) {
  Trial best;
  if (!request.outer_only) best = choose(request.memory(false));
  plan->level = request.level;
  if (request.has_outer()) {
    const Trial outer = choose(request.memory(true));
    const bool is_less = best.cost == 0 || outer.cost < outer.outer_time * best.cost;
    if (outer.cost > 0 && is_less) {
      best = outer;
      plan->level = outer_level;
    }
  }
  plan->blocks = best.blocks;
  plan->tile = request.tile;
  if (estimate != nullptr) estimate->time = best.time;
  return best.cost > 0;
}

Status no_such_form() {
  return Status::error(StatusCode::unsupported, "the pass has no such form with this memory");
}

// The gradient of a bias that is rounded is summed in memory of a worker, m floats for every row of
// a block: of no more rows than the operands have columns, lest it take more than they do.
Blocks within_operands(Blocks rows, const LayerShape& head, const TileShape& tile) {
  rows.r = std::min(rows.r, round_up(head.d + head.dv, index_t(tile.cols)));
  rows.rho = std::min(rows.rho, rows.r);
  return rows;
}

// Sums of dQ that are made on the way of a pass over the keys and rounded at its end.
index_t sums_of_dq(const SdpaRequest& request, const SdpaSet& set, bool one_pass) {
  const index_t queries = request.shape.all_heads() * request.shape.n;
  return one_pass && set.rounds(request.dtype) ? queries * request.shape.d : 0;
}

// Of delta, and of sums of dQ.
index_t scratch_bytes(const SdpaSet& set, index_t queries, index_t sums, DType dtype) {
  const index_t bytes = size_of(dtype) * resident_words(dtype);
  return ((set.delta() ? queries : 0) + sums) * bytes;
}

}  // namespace

Status check_scratch(const SdpaSet& set, index_t queries, DType dtype, index_t limit) {
  const index_t bytes = scratch_bytes(set, queries, 0, dtype);
  if (limit < 0 || bytes <= limit) return Status::ok();
  return Status::error(StatusCode::memory_limit,
                       "the gradients need %lld bytes of scratch memory, more than %lld",
                       static_cast<long long>(bytes), static_cast<long long>(limit));
}

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
  const index_t queries = request.shape.all_heads() * request.shape.n;
  estimate->cost =
      theory::sdpa_backward_cost(request.shape, *set, plan.blocks, request.dtype, pairs);
  estimate->fma = theory::sdpa_backward_fma(request.shape, *set, plan.blocks);
  const index_t sums = sums_of_dq(request, *set, set->in_one_pass(plan.blocks));
  estimate->scratch_bytes = scratch_bytes(*set, queries, sums, request.dtype);
}

namespace {

Status plan_forward(const SdpaRequest& request, SdpaPlan* plan, Estimate* estimate) {
  const LayerShape head = request.shape.head().without_mask();
  const Variant variant = row_variant(Pass::forward);
  const index_t of_rows = least_fast_memory(variant, head);
  const Status fits =
      check_memory(request, Pass::forward,
                   std::min(of_rows * resident_words(request.dtype), least_of_tiles(request)));
  if (!fits.is_ok()) return fits;
  const bool by_pairs = multiplies_pairs(request.tile.isa);
  const auto words = [&](const SdpaBlocks& blocks) {
    return theory::sdpa_forward_cost(request.shape, blocks.rows, true, request.dtype, by_pairs)
        .total()
        .words();
  };
  const auto choose = [&](const FastMemory& memory) {
    Trial best;
    if (request.takes(SdpaForm::rows) && memory.M >= of_rows) {
      best.blocks.rows = by_pairs ? choose_pair_rows(head, memory, request.tile)
                                  : choose_row_blocks(variant, head, memory, request.tile);
      const auto time = [&](const FastMemory& in) {
        return by_pairs ? pair_rows_time(head, best.blocks.rows, in, request.tile)
                        : row_pass_time(variant, head, best.blocks.rows, in, request.tile);
      };
      const Blocks& rows = best.blocks.rows;
      best.fills_lanes = fill_lanes(rows.rho, head.n, request.tile);
      if (rows.r > 0) add_phase(memory, time, &best);
      count_words(memory.price, words, &best);
      best.outer_time = outer_time_of_rows(request.dtype, memory.price);
    }
    if (!request.takes(SdpaForm::tiles)) return best;
    const Blocks tiles = choose_tile_fused_forward(head, memory, request.tile);
    Trial trial = {{tiles, {}}};
    trial.fills_lanes = fill_lanes(tiles.rho, head.n, request.tile);
    add_phase(
        memory,
        [&](const FastMemory& in) {
          return tile_fused_forward_time(head, tiles, in, request.tile);
        },
        &trial);
    // Pairs gain more from long blocks than is estimated. Those of a window are the same for any
    // number of threads.
    const bool are_shared = !request.shape.mask.hides_first_of(head.n);
    if (by_pairs && !multiplies_tiles(request.tile.isa) && are_shared) {
      trial.outer_time = outer_time_of_keys(memory.price);
    }
    trial.cost = cost_that_tiles_count(trial.cost, memory.price, request.tile);
    count_words(memory.price, words, &trial);
    take_better(trial, memory.price, &best);
    return best;
  };
  return choose_level(request, choose, plan, estimate) ? Status::ok() : no_such_form();
}

Status plan_gradients(const SdpaRequest& request, const SdpaSet& set, SdpaPlan* plan,
                      Estimate* estimate) {
  const LayerShape head = request.shape.head().without_mask();
  const index_t queries = request.shape.all_heads() * request.shape.n;
  const Status small = check_scratch(set, queries, request.dtype, request.memory_limit_bytes);
  if (!small.is_ok()) return small;
  const Variant variant = row_variant(Pass::backward);
  const index_t apart = set.dBias ? 1 : 0;  // words of dBias pass one at a time
  const auto least_for = [&](bool one_pass) {
    const index_t rows = least_fast_memory(variant, head);
    return set.keys()
               ? std::max(rows + apart, least_col_stream(head, Form::h, set.key_kind(one_pass)))
               : rows + apart;
  };
  const auto has_room = [&](bool one_pass) {
    const index_t sums = sums_of_dq(request, set, one_pass);
    return request.memory_limit_bytes < 0 ||
           scratch_bytes(set, queries, sums, request.dtype) <= request.memory_limit_bytes;
  };
  const bool tiles_make_dq = set.may_be_one_pass(Schedule::tile_fused) && has_room(true);
  const bool rows_beside_tiles = set.dBias || (set.dQ && !tiles_make_dq);
  const bool may_be_tiles = set.keys() || tiles_make_dq;
  index_t least = least_for(false) * resident_words(request.dtype);
  if (may_be_tiles && !rows_beside_tiles) least = std::min(least, least_of_tiles(request, set));
  const Status fits = check_memory(request, Pass::backward, least);
  if (!fits.is_ok()) return fits;

  const bool by_pairs = multiplies_pairs(request.tile.isa);
  const auto words = [&](const SdpaBlocks& blocks) {
    return theory::sdpa_backward_cost(request.shape, set, blocks, request.dtype, by_pairs)
        .total()
        .words();
  };
  const auto choose_rows = [&](const FastMemory& memory) {
    const Blocks delta = choose_delta_blocks(head, memory.M);
    if (memory.M < least_for(false)) return delta;
    Blocks rows;
    if (by_pairs) {
      rows = choose_pair_rows(head, set, memory, request.tile);
      rows.o = delta.o;
      rows.w = delta.w;
    } else {
      FastMemory of_rows = memory;
      of_rows.M -= apart;
      rows = choose_row_blocks(variant, head, of_rows, request.tile);
    }
    const bool rounds_bias = set.dBias && set.rounds(request.dtype);
    return rounds_bias ? within_operands(rows, head, request.tile) : rows;
  };
  const auto choose = [&](const FastMemory& memory) {
    Trial best;
    const bool rows_fit = memory.M >= least_for(false);
    const Blocks rows = choose_rows(memory);
    const auto add_row_pass = [&](Trial* trial) {
      trial->fills_lanes &= fill_lanes(rows.rho, head.n, request.tile);
      add_phase(
          memory,
          [&](const FastMemory& in) {
            return by_pairs ? pair_rows_time(head, set, rows, in, request.tile)
                            : row_pass_time(variant, head, rows, in, request.tile);
          },
          trial);
    };
    for (const bool one_pass : {false, true}) {
      if (!request.takes(one_pass ? SdpaForm::one_pass : SdpaForm::rows)) continue;
      if (one_pass && !set.may_be_one_pass(Schedule::col_stream)) continue;
      if (!rows_fit || memory.M < least_for(one_pass)) continue;
      if (!has_room(one_pass)) continue;
      Trial trial;
      trial.blocks.rows = rows;
      const bool has_row_pass = set.dBias || (set.dQ && !one_pass);
      if (has_row_pass) {
        add_row_pass(&trial);
      } else {
        trial.outer_time = outer_time_of_keys(memory.price);
      }
      if (set.keys()) {
        const KeyPassKind kind = set.key_kind(one_pass);
        const Blocks keys = choose_col_stream(head, Form::h, kind, memory, request.tile);
        trial.blocks.keys = keys;
        trial.fills_lanes &= fill_lanes(keys.c, head.m, request.tile);
        add_phase(
            memory,
            [&](const FastMemory& in) {
              return col_stream_time(head, trial.blocks.keys, kind, in, request.tile);
            },
            &trial);
      }
      count_words(memory.price, words, &trial);
      take_better(trial, memory.price, &best);
    }
    if (may_be_tiles && (rows_fit || !rows_beside_tiles) && request.takes(SdpaForm::tiles)) {
      Trial trial =
          trial_of_tiles(request.shape.head(), set, tiles_make_dq, memory, rows, request.tile);
      if (rows_beside_tiles) {
        add_row_pass(&trial);
      } else if (!by_pairs || multiplies_tiles(request.tile.isa)) {
        trial.outer_time = outer_time_of_keys(memory.price);
      }
      count_words(memory.price, words, &trial);
      take_better(trial, memory.price, &best);
    }
    return best;
  };
  const bool found = choose_level(request, choose, plan, estimate);
  return found || set.is_empty() ? Status::ok() : no_such_form();
}

}  // namespace

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
