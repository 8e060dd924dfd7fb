#include "plan/blocking_pair_rows.hpp"

#include <algorithm>

#include "plan/block_search.hpp"
#include "plan/pair_speed.hpp"
#include "theory/block_costs.hpp"
#include "theory/sdpa_half_cost.hpp"

namespace ioattn::plan {
namespace {

// Scores of a strip and their weights are to stay in L1.
constexpr index_t longest_c = 256;

Blocks blocks_of(index_t r, index_t c, index_t rho) {
  Blocks blocks;
  blocks.form = Form::h;
  blocks.products = Products::stored;
  blocks.r = r;
  blocks.c = c;
  blocks.rho = rho;
  return blocks;
}

// Words of 16 bits between an outer cache and the inner one, of which inner_M are 32 bits: strips
// meet a block of keys, whose panels stay in the inner cache if they fit beside a strip.
double inner_words(const LayerShape& shape, const Blocks& blocks, const FastMemory& memory) {
  if (!memory.is_outer()) return 0;
  const double n = static_cast<double>(shape.n), m = static_cast<double>(shape.m);
  const index_t c = std::min(blocks.c, shape.m), panels = c * (shape.d + shape.dv);
  const double strips = n / static_cast<double>(blocks.rho), met = m / static_cast<double>(c);
  const double sums = 2.0 * 2.0 * static_cast<double>(shape.dv);
  const bool stay = panels + blocks.rho * (shape.d + 2 * shape.dv) <= 2 * memory.inner_M;
  return met * n * (static_cast<double>(shape.d) + sums) +
         (stay ? 0 : met * strips * static_cast<double>(panels));
}

}  // namespace

// Keys and values are packed once per block of queries.
double pair_rows_time(const LayerShape& shape, const Blocks& blocks, const FastMemory& memory,
                      const TileShape& tile) {
  const double n = static_cast<double>(shape.n), m = static_cast<double>(shape.m);
  const double d = static_cast<double>(shape.d), e = static_cast<double>(shape.dv);
  const theory::IoCost cost = theory::row_stream_forward_pass(shape, blocks);
  const double words = memory.price.per_word * static_cast<double>(cost.words()) +
                       fma_per_packed_word * static_cast<double>(cost.reads) +
                       memory.price.per_inner_word * inner_words(shape, blocks, memory);
  const index_t c = std::min(blocks.c, shape.m);
  const double of_scores = d / word_efficiency(tile.isa, shape.d) * wasted_lanes(c, tile);
  const double of_values = e / word_efficiency(tile.isa, c);
  const double products = n * m * (of_scores + of_values);
  return words / word_speed(tile.isa) + products / product_speed(tile.isa);
}

// Strips of as many queries as a panel has lanes, which is two tiles; fewer, and fewer keys, only
// where memory is short.
Blocks choose_pair_rows(const LayerShape& shape, const FastMemory& memory, const TileShape& tile) {
  const index_t lanes = tile.cols;
  Blocks best;
  double least = 0;
  const auto consider = [&](index_t c, index_t rho) {
    const index_t most = largest(round_up(shape.n, rho), [&](index_t r) {
      return ceil_div(theory::pair_rows_forward_footprint(shape, blocks_of(r, c, rho)), 2) <=
             memory.M;
    });
    index_t r = most >= shape.n ? shape.n : round_down(most, rho);
    if (r < 1) return;
    r = std::min(shape.n, round_up(ceil_div(shape.n, ceil_div(shape.n, r)), rho));
    const Blocks blocks = blocks_of(r, c, rho);
    const double time = pair_rows_time(shape, blocks, memory, tile);
    if (best.r == 0 || time < least) {
      least = time;
      best = blocks;
    }
  };
  const index_t longest = std::min(longest_c, round_up(shape.m, lanes));
  for (index_t c = longest; c >= lanes; c = c > 2 * lanes ? round_up(c / 2, lanes) : c - lanes)
    consider(c, lanes);
  for (index_t side = lanes; best.r == 0 && side >= 1; side /= 2) consider(side, side);
  return best;
}

}  // namespace ioattn::plan
