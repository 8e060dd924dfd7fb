#pragma once

#include <algorithm>

#include "plan/blocks/tile_fused_time.hpp"
#include "plan/handicaps.hpp"
#include "plan/sdpa/sdpa_planner.hpp"

// What the plans of both passes of SDPA are chosen by: trials at each level, the better of two.
namespace ioattn::plan {

// Pass::backward: of the gradients of queries.
constexpr Variant row_variant(Pass pass) {
  return {pass, Schedule::row_stream, Form::h, Products::stored};
}

inline Status check_memory(const SdpaRequest& request, Pass pass, index_t least) {
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

inline double outer_part_of_keys(const Price& price) {
  return price.is_calibrated ? handicap::outer_keys : handicap::outer;
}

inline double outer_part_of_rows(DType dtype, const Price& price) {
  return dtype == DType::f64 && price.is_calibrated ? handicap::outer_rows_of_f64 : handicap::outer;
}

// Adds what `cost` says of a phase in a memory.
template <class Cost>
void add_phase(const FastMemory& memory, const Cost& cost, Trial* trial) {
  trial->cost += cost(memory);
  trial->time += cost(memory.of_time());
}

// Where words decide, blocks that are mostly padding, which is not counted, come last.
inline void take_better(const Trial& trial, const Price& price, Trial* best) {
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
inline double cost_that_tiles_count(double cost, const Price& price, const TileShape& tile) {
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

inline Status no_such_form() {
  return Status::error(StatusCode::unsupported, "the pass has no such form with this memory");
}

// The plans of each pass, with blocks that it may not take.
Status plan_forward(const SdpaRequest& request, SdpaPlan* plan, Estimate* estimate);
Status plan_gradients(const SdpaRequest& request, const SdpaSet& set, SdpaPlan* plan,
                      Estimate* estimate);

}  // namespace ioattn::plan
