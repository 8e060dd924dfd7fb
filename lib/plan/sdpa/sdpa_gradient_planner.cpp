#include "plan/blocks/block_search.hpp"
#include "plan/blocks/blocking_col_stream.hpp"
#include "plan/blocks/blocking_pair_rows.hpp"
#include "plan/blocks/blocking_rows.hpp"
#include "plan/blocks/blocking_tile_fused.hpp"
#include "plan/blocks/thin_products.hpp"
#include "plan/blocks/tile_fused_time.hpp"
#include "plan/sdpa/sdpa_least.hpp"
#include "plan/sdpa/sdpa_scratch.hpp"
#include "plan/sdpa/sdpa_trial.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn::plan {
namespace {

// The gradient of a bias that is rounded is summed in memory of a worker, m floats for every row of
// a block: of no more rows than the operands have columns, lest it take more than they do.
Blocks within_operands(Blocks rows, const LayerShape& head, const TileShape& tile) {
  rows.r = std::min(rows.r, round_up(head.d + head.dv, index_t(tile.cols)));
  rows.rho = std::min(rows.rho, rows.r);
  take_whole_strips(Schedule::row_stream, head.n, &rows);
  return rows;
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
    const index_t least = least_of_rows(false) * theory::resident_words(request_.dtype);
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
      rows = choose_row_blocks(variant, head_, of_rows, request_.tile, {.products = false});
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

}  // namespace

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

}  // namespace ioattn::plan
