#include "plan/sdpa/sdpa_planner.hpp"

#include <algorithm>

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/blocking_col_stream.hpp"
#include "plan/blocks/blocking_pair_rows.hpp"
#include "plan/blocks/blocking_rows.hpp"
#include "plan/blocks/blocking_tile_fused.hpp"
#include "plan/sdpa/sdpa_least.hpp"
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
  double outer_part = handicap::outer;
};

double outer_part_of_keys(const Price& price) {
  return price.is_calibrated ? handicap::outer_keys : handicap::outer;
}

double outer_part_of_rows(DType dtype, const Price& price) {
  return dtype == DType::f64 && price.is_calibrated ? handicap::outer_rows_of_f64 : handicap::outer;
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
  const bool competes = price.is_calibrated && !multiplies_tiles(tile.isa);
  return competes ? handicapped_tiles(cost, price) : cost;
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
    const bool is_less = best.cost == 0 || outer.cost < outer.outer_part * best.cost;
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
  const index_t queries = request.shape.all_queries();
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
  const index_t queries = request.shape.all_queries();
  estimate->cost =
      theory::sdpa_backward_cost(request.shape, *set, plan.blocks, request.dtype, pairs);
  estimate->fma = theory::sdpa_backward_fma(request.shape, *set, plan.blocks);
  const index_t sums = sums_of_dq(request, *set, set->in_one_pass(plan.blocks));
  estimate->scratch_bytes = scratch_bytes(*set, queries, sums, request.dtype);
}

namespace {

// How many queries blocks of rho have for each that sees a key: strips of rows leave out the
// others.
double queries_of_tiles(const SdpaShape& shape, index_t rho) {
  const index_t see = shape.mask.transposed().of_any({0, shape.m}, shape.n).size();
  return see == 0 || rho == 0 ? 1
                              : static_cast<double>(std::min(round_up(see, rho), shape.n)) /
                                    static_cast<double>(see);
}

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
      best.outer_part = outer_part_of_rows(request.dtype, memory.price);
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
      trial.outer_part = outer_part_of_keys(memory.price);
    }
    trial.cost = cost_that_tiles_count(trial.cost, memory.price, request.tile);
    trial.cost *= queries_of_tiles(request.shape, tiles.rho);
    count_words(memory.price, words, &trial);
    take_better(trial, memory.price, &best);
    return best;
  };
  return choose_level(request, choose, plan, estimate) ? Status::ok() : no_such_form();
}

// Blocks of a set of gradients at a level: of passes over rows and over keys, or by tiles.
class GradientBlockings {
 public:
  GradientBlockings(const SdpaRequest& request, const SdpaSet& set)
      : request_(request),
        set_(set),
        head_(request.shape.head().without_mask()),
        by_pairs_(multiplies_pairs(request.tile.isa)),
        tiles_make_dq_(set.may_be_one_pass(Schedule::tile_fused) && has_room(true)),
        rows_beside_tiles_(set.dBias || (set.dQ && !tiles_make_dq_)),
        may_be_tiles_(set.keys() || tiles_make_dq_) {}

  // Words of the request's dtype from which on there are any.
  index_t least_M() const {
    const index_t least = least_of_rows(false) * resident_words(request_.dtype);
    return may_be_tiles_ && !rows_beside_tiles_ ? std::min(least, least_of_tiles(request_, set_))
                                                : least;
  }

  Trial choose(const FastMemory& memory) const {
    Trial best;
    const bool rows_fit = memory.M >= least_of_rows(false);
    const Blocks rows = choose_rows(memory);
    for (const bool one_pass : {false, true}) {
      if (!rows_fit || !may_be_rows(one_pass) || memory.M < least_of_rows(one_pass)) continue;
      consider(trial_of_rows(one_pass, memory, rows), memory.price, &best);
    }
    if (may_be_tiles_ && (rows_fit || !rows_beside_tiles_) && request_.takes(SdpaForm::tiles)) {
      consider(trial_of_tiles(memory, rows), memory.price, &best);
    }
    return best;
  }

 private:
  void consider(Trial trial, const Price& price, Trial* best) const {
    const auto words = [&](const SdpaBlocks& blocks) {
      return theory::sdpa_backward_cost(request_.shape, set_, blocks, request_.dtype, by_pairs_)
          .total()
          .words();
    };
    count_words(price, words, &trial);
    take_better(trial, price, best);
  }
  // Scratch memory for sums of dQ.
  bool has_room(bool one_pass) const {
    const index_t queries = request_.shape.all_queries();
    const index_t sums = sums_of_dq(request_, set_, one_pass);
    return request_.memory_limit_bytes < 0 ||
           scratch_bytes(set_, queries, sums, request_.dtype) <= request_.memory_limit_bytes;
  }
  bool may_be_rows(bool one_pass) const {
    return request_.takes(one_pass ? SdpaForm::one_pass : SdpaForm::rows) &&
           (!one_pass || set_.may_be_one_pass(Schedule::col_stream)) && has_room(one_pass);
  }
  index_t apart() const { return set_.dBias ? 1 : 0; }  // words of dBias pass one at a time
  // Numbers that M has to hold for passes over rows and over keys.
  index_t least_of_rows(bool one_pass) const {
    const index_t rows = least_fast_memory(variant, head_) + apart();
    return set_.keys() ? std::max(rows, least_col_stream(head_, Form::h, set_.key_kind(one_pass)))
                       : rows;
  }

  // Of the pass over the queries, and of delta, which runs without it too.
  Blocks choose_rows(const FastMemory& memory) const {
    const Blocks delta = choose_delta_blocks(head_, memory.M);
    if (memory.M < least_of_rows(false)) return delta;
    Blocks rows;
    if (by_pairs_) {
      rows = choose_pair_rows(head_, set_, memory, request_.tile);
      rows.o = delta.o;
      rows.w = delta.w;
    } else {
      FastMemory of_rows = memory;
      of_rows.M -= apart();
      rows = choose_row_blocks(variant, head_, of_rows, request_.tile);
    }
    const bool rounds_bias = set_.dBias && set_.rounds(request_.dtype);
    return rounds_bias ? within_operands(rows, head_, request_.tile) : rows;
  }

  void add_row_pass(const FastMemory& memory, const Blocks& rows, Trial* trial) const {
    trial->fills_lanes &= fill_lanes(rows.rho, head_.n, request_.tile);
    const auto time = [&](const FastMemory& in) {
      return by_pairs_ ? pair_rows_time(head_, set_, rows, in, request_.tile)
                       : row_pass_time(variant, head_, rows, in, request_.tile);
    };
    add_phase(memory, time, trial);
  }

  Trial trial_of_rows(bool one_pass, const FastMemory& memory, const Blocks& rows) const {
    Trial trial;
    trial.blocks.rows = rows;
    if (set_.dBias || (set_.dQ && !one_pass)) {
      add_row_pass(memory, rows, &trial);
    } else {
      trial.outer_part = outer_part_of_keys(memory.price);
    }
    if (!set_.keys()) return trial;
    const KeyPassKind kind = set_.key_kind(one_pass);
    const Blocks keys = choose_col_stream(head_, Form::h, kind, memory, request_.tile);
    trial.blocks.keys = keys;
    trial.fills_lanes &= fill_lanes(keys.c, head_.m, request_.tile);
    const auto time = [&](const FastMemory& in) {
      return col_stream_time(head_, keys, kind, in, request_.tile);
    };
    add_phase(memory, time, &trial);
    return trial;
  }

  // By pairs of tiles: all of them, dQ on the way, or those of the keys.
  Trial trial_of_tiles(const FastMemory& memory, const Blocks& rows) const {
    const TileShape& tile = request_.tile;
    const KeyPassKind kind = set_.key_kind(tiles_make_dq_);
    const Blocks keys = choose_tile_fused(head_, kind, memory, tile);
    Trial trial;
    trial.blocks = {rows, keys, Schedule::tile_fused};
    trial.fills_lanes = fill_lanes(keys.c, head_.m, tile);
    const auto time = [&](const FastMemory& in) {
      return tile_fused_time(head_, keys, kind, in, tile);
    };
    add_phase(memory, time, &trial);
    if (!by_pairs_) {  // pairs have no other pass over the keys
      trial.cost += longer_in_short_blocks(request_.shape.head(), keys, kind, memory, tile);
    }
    trial.cost = cost_that_tiles_count(trial.cost, memory.price, tile);
    if (rows_beside_tiles_) {
      add_row_pass(memory, rows, &trial);
    } else if (!by_pairs_ || multiplies_tiles(tile.isa)) {
      trial.outer_part = outer_part_of_keys(memory.price);
    }
    return trial;
  }

  static constexpr Variant variant = row_variant(Pass::backward);
  const SdpaRequest& request_;
  const SdpaSet& set_;
  const LayerShape head_;
  const bool by_pairs_, tiles_make_dq_, rows_beside_tiles_, may_be_tiles_;
};

Status plan_gradients(const SdpaRequest& request, const SdpaSet& set, SdpaPlan* plan,
                      Estimate* estimate) {
  const index_t queries = request.shape.all_queries();
  const Status small = check_scratch(set, queries, request.dtype, request.memory_limit_bytes);
  if (!small.is_ok()) return small;
  const GradientBlockings blockings(request, set);
  const Status fits = check_memory(request, Pass::backward, blockings.least_M());
  if (!fits.is_ok()) return fits;
  const auto choose = [&](const FastMemory& memory) { return blockings.choose(memory); };
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
