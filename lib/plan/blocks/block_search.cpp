#include "plan/blocks/block_search.hpp"

#include <algorithm>
#include <vector>

#include "theory/schedule_cost.hpp"

namespace ioattn::plan {
namespace {

// Sub-blocks of whole panels, powers of two below a panel, and an even division of the rows that
// fit, each once.
std::vector<index_t> rho_candidates(const TileShape& tile, index_t longest, index_t rows) {
  std::vector<index_t> list;
  const auto add = [&list](index_t rho) {
    if (std::find(list.begin(), list.end(), rho) == list.end()) list.push_back(rho);
  };
  for (index_t rho = longest; rho >= tile.cols; rho -= tile.cols) add(rho);
  for (index_t rho = longest; rho >= 1; rho /= 2) add(rho);
  if (rows > 0) add(ceil_div(rows, ceil_div(rows, longest)));
  return list;
}

}  // namespace

index_t footprint(const Variant& variant, const LayerShape& shape, const Blocks& blocks) {
  // A mask does not change it, and takes longer to tell.
  return theory::io_cost(variant.pass, variant.schedule, shape.without_mask(), blocks)
      .total()
      .footprint;
}

Blocks search_rows(Pass pass, const LayerShape& shape, const FastMemory& memory,
                   const TileShape& tile, const Blocks& smallest, const Footprint& footprint,
                   const Cost& cost) {
  const index_t longest = longest_sub_block(pass, shape.n, memory);
  const auto search = [&](const FastMemory& within, const LeastBlocks& whole) {
    std::optional<Blocks> best;
    double least = 0;
    const auto most_rows = [&](Blocks trial, index_t rho, index_t guess) {
      const auto fits = [&](index_t r) {
        trial.r = r;
        trial.rho = std::min(rho, r);
        return footprint(trial) <= within.M;
      };
      return largest(shape.n, fits, guess);
    };
    index_t rows = 0;  // with the longest rho; about as many fit with others, and with fewer keys
    for (index_t c = 256; c >= std::max(smallest.c, std::min(whole.rows, shape.m)); c /= 2) {
      if (c > 1 && c / 2 >= shape.m) continue;
      Blocks trial = smallest;
      trial.c = c;
      rows = most_rows(trial, longest, rows);
      bool is_one = false;  // sub-block of all queries, as all longer than these are
      for (const index_t rho : rho_candidates(tile, longest, rows)) {
        if (rho < std::max(smallest.rho, whole.lanes) || (is_one && rho >= shape.n)) continue;
        index_t most = most_rows(trial, rho, rows);
        if (most < std::min(rho, shape.n)) continue;
        is_one = is_one || rho >= shape.n;
        if (most < shape.n) most = round_down(most, rho);
        const index_t passes = ceil_div(shape.n, most);
        trial.rho = rho;
        trial.r = std::min(most, round_up(ceil_div(shape.n, passes), rho));
        const double of_trial = cost(trial, within.price);
        if (best && of_trial >= least) continue;
        least = of_trial;
        best = trial;
      }
    }
    return best;
  };
  return choose_by_price(memory, tile, smallest, search,
                         [&](const Blocks& blocks) { return cost(blocks, memory.price); });
}

void widen(const Variant& variant, const LayerShape& shape, index_t M, index_t limit,
           index_t multiple, index_t Blocks::*size, Blocks* blocks) {
  const index_t most = largest(limit, [&](index_t x) {
    Blocks trial = *blocks;
    trial.*size = x;
    return footprint(variant, shape, trial) <= M;
  });
  blocks->*size = whole_tiles(std::max<index_t>(most, 1), multiple);
}

}  // namespace ioattn::plan
