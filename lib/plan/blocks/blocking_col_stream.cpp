#include "plan/blocks/blocking_col_stream.hpp"

#include <algorithm>
#include <optional>

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/product_blocks.hpp"
#include "theory/block_costs.hpp"

namespace ioattn::plan {
namespace {

Blocks blocks_of(Form form, index_t c, index_t rho) {
  Blocks blocks;
  blocks.form = form;
  blocks.c = c;
  blocks.rho = rho;
  return blocks;
}

}  // namespace

index_t least_col_stream(const LayerShape& shape, Form form, KeyPassKind kind) {
  return theory::col_stream(shape, blocks_of(form, 1, 1), kind).footprint;
}

// The sums over queries are as long as rho, those over keys as c, the others as d or the width of a
// value; keys are lanes of the score tiles, those beyond c are wasted, of a single block but half a
// panel of them: of many such blocks the rest takes nearly as long (MEASURED.md).
double col_stream_time(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                       const FastMemory& memory, const TileShape& tile) {
  const double pairs = static_cast<double>(shape.n) * static_cast<double>(shape.m);
  const index_t v = blocks.form == Form::g ? shape.d : shape.dv;
  const index_t scored = shape.d + (kind.makes_p() ? v : 0);
  const index_t over_keys = kind.queries ? shape.d : 0;
  const index_t over_queries =
      theory::col_stream_fma({1, 1, shape.d, shape.dv, shape.tie}, blocks.form, kind) - scored -
      over_keys;
  const index_t used = std::min(blocks.c, shape.m);
  const double lanes = blocks.c < shape.m
                           ? wasted_lanes(used, tile)
                           : time_of_columns(tile.computed(used), tile) / static_cast<double>(used);
  // Register tiles do not divide few rows of queries: products of 32 take a tenth longer.
  const double few = std::min(1.0, 32 / static_cast<double>(std::min(blocks.rho, shape.n)));
  const double by_rows = 1 + 0.1 * few * few * few;
  return memory.price.per_word *
             static_cast<double>(theory::col_stream(shape, blocks, kind).words()) +
         memory.price.per_inner_word * inner_words_of_keys(shape, blocks, kind, memory, tile) +
         pairs * (static_cast<double>(scored) * lanes * by_rows +
                  static_cast<double>(over_keys) / efficiency(used) * by_rows +
                  static_cast<double>(over_queries) / efficiency(std::min(blocks.rho, shape.n)));
}

Blocks choose_col_stream(const LayerShape& shape, Form form, KeyPassKind kind,
                         const FastMemory& memory, const TileShape& tile) {
  const theory::KeyPassWidths widths = theory::key_pass_widths(shape, form, kind);
  const auto with = [&](index_t c, index_t rho) {
    Blocks blocks = blocks_of(form, c, rho);
    blocks.one_pass = kind.queries;
    return blocks;
  };
  const auto search = [&](const FastMemory& within, const LeastBlocks& whole) {
    std::optional<Blocks> best;
    double least = 0;
    // A second block of a few keys saves other threads little, and all queries pass it.
    constexpr index_t one_block = 96;
    const index_t longest =
        shape.m <= one_block ? shape.m : longest_key_block(shape.m, kind, within.price);
    const auto consider = [&](index_t c, index_t rho) {
      const Blocks blocks = with(c, rho);
      const double time = col_stream_time(shape, blocks, kind, within, tile);
      if (best && time >= least) return;
      least = time;
      best = blocks;
    };
    for (index_t rho = 256; rho >= whole.rows; rho /= 2) {
      const index_t cut = std::min(rho, shape.n);
      const index_t most =
          std::min(longest, (within.M - widths.footprint(0, cut)) /
                                (widths.footprint(1, cut) - widths.footprint(0, cut)));
      if (most < std::min(whole.lanes, shape.m)) continue;
      // As few keys as make so many passes; whole panels where one more pass costs less.
      consider(ceil_div(shape.m, ceil_div(shape.m, most)), rho);
      if (most > tile.cols && most < shape.m) consider(round_down(most, tile.cols), rho);
      // Of an outer cache fewer may be faster; by halves, where threads take turns, so that there
      // are as many for each.
      if (!within.is_outer()) continue;
      const index_t panel = tile.cols;
      for (index_t c = most; c >= 4 * panel;
           c = round_down(kind.queries ? c / 2 : 3 * c / 4, panel)) {
        consider(c, rho);
      }
    }
    return best;
  };
  return choose_by_price(memory, tile, with(1, 1), search, [&](const Blocks& blocks) {
    return col_stream_time(shape, blocks, kind, memory, tile);
  });
}

}  // namespace ioattn::plan
