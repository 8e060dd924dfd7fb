#include "plan/blocks/block_search.hpp"
#include "plan/blocks/blocking_pair_rows.hpp"
#include "plan/blocks/blocking_rows.hpp"
#include "plan/blocks/blocking_tile_fused.hpp"
#include "plan/blocks/tile_fused_time.hpp"
#include "plan/sdpa/sdpa_least.hpp"
#include "plan/sdpa/sdpa_trial.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn::plan {
namespace {

// Whether no tiles can cost less than something does, by a time: most short passes need no search.
bool are_tiles_slower(const LayerShape& head, const FastMemory& memory, const TileShape& tile,
                      double cost) {
  if (memory.price.of_words() || cost <= 0) return false;
  constexpr double rounding = 1 - 1e-9;
  const double least = least_tile_fused_forward_time(head, memory, tile);
  return cost_that_tiles_count(least, memory.price, tile) * rounding > cost;
}

// How many queries blocks of rho have for each that sees a key: strips of rows leave out the
// others.
double queries_of_tiles(const SdpaShape& shape, index_t rho) {
  const index_t see = shape.mask.transposed().of_any({0, shape.m}, shape.n).size();
  return see == 0 || rho == 0 ? 1
                              : static_cast<double>(std::min(round_up(see, rho), shape.n)) /
                                    static_cast<double>(see);
}

}  // namespace

Status plan_forward(const SdpaRequest& request, SdpaPlan* plan, Estimate* estimate) {
  const LayerShape head = request.shape.head().without_mask();
  const Variant variant = row_variant(Pass::forward);
  const index_t of_rows = least_fast_memory(variant, head);
  const Status fits = check_memory(
      request, Pass::forward,
      std::min(of_rows * theory::resident_words(request.dtype), least_of_tiles(request)));
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
      best.blocks.rows =
          by_pairs ? choose_pair_rows(head, memory, request.tile)
                   : choose_row_blocks(variant, head, memory, request.tile, {.products = false});
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
    if (!request.takes(SdpaForm::tiles) ||
        are_tiles_slower(head, memory, request.tile, best.cost)) {
      return best;
    }
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

}  // namespace ioattn::plan
