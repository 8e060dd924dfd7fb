#include "plan/blocks/blocking_pair_rows.hpp"

#include <algorithm>

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/pair_speed.hpp"
#include "theory/block_costs.hpp"
#include "theory/sdpa_half_cost.hpp"

namespace ioattn::plan {
namespace {

// Keys and queries of a strip's score tile. Forward, scores and their weights are to stay in L1,
// and strips of as many queries as a panel has lanes are two tiles.
struct Longest {
  index_t c, rho;
};
constexpr Longest of_forward(const TileShape& tile) {
  return {multiplies_tiles(tile.isa) ? 512 : 256, tile.cols};
}
// Backward, measured without tiles: 1 to 4 % faster than the same.
constexpr Longest of_backward(const TileShape& tile) {
  return multiplies_tiles(tile.isa) ? of_forward(tile) : Longest{128, 2 * index_t(tile.cols)};
}

Blocks blocks_of(index_t r, index_t c, index_t rho) {
  Blocks blocks;
  blocks.form = Form::h;
  blocks.products = Products::stored;
  blocks.r = r;
  blocks.c = c;
  blocks.rho = rho;
  return blocks;
}

// Words of 16 bits per query and per key that are read for a strip and a block of keys, and those
// of sums.
struct Streams {
  index_t of_query, of_key, sums;
};

// Words of 16 bits between an outer cache and the inner one, of which inner_M are 32 bits: strips
// meet a block of keys, whose panels stay in the inner cache if they fit beside a strip.
double inner_words(const LayerShape& shape, const Blocks& blocks, const Streams& words,
                   const FastMemory& memory) {
  if (!memory.is_outer()) return 0;
  const double n = static_cast<double>(shape.n), m = static_cast<double>(shape.m);
  const index_t c = std::min(blocks.c, shape.m), panels = c * words.of_key;
  const double strips = n / static_cast<double>(blocks.rho), met = m / static_cast<double>(c);
  const bool stay = panels + blocks.rho * (words.of_query + words.sums) <= 2 * memory.inner_M;
  return met * n * static_cast<double>(words.of_query + 2 * words.sums) +
         (stay ? 0 : met * strips * static_cast<double>(panels));
}

double time_of(const FastMemory& memory, const TileShape& tile, const IoCost& cost, double inner,
               double products) {
  const double words = memory.price.per_word * static_cast<double>(cost.words()) +
                       fma_per_packed_word(tile.isa) * static_cast<double>(cost.reads) +
                       memory.price.per_inner_word * inner;
  return words / word_speed(tile.isa) + products / product_speed(tile.isa);
}

// Strips of fewer queries, or keys, only where memory is short.
template <class Footprint, class Time>
Blocks search(const LayerShape& shape, const FastMemory& memory, const TileShape& tile,
              const Longest& limits, const Footprint& footprint, const Time& time) {
  const index_t lanes = tile.cols;
  Blocks best;
  double least = 0;
  const auto consider = [&](index_t c, index_t rho) {
    const index_t most = largest(round_up(shape.n, rho), [&](index_t r) {
      return ceil_div(footprint(blocks_of(r, c, rho)), 2) <= memory.M;
    });
    index_t r = most >= shape.n ? shape.n : round_down(most, rho);
    if (r < 1) return;
    r = std::min(shape.n, round_up(ceil_div(shape.n, ceil_div(shape.n, r)), rho));
    const Blocks blocks = blocks_of(r, c, rho);
    const double of_blocks = time(blocks);
    if (best.r == 0 || of_blocks < least) {
      least = of_blocks;
      best = blocks;
    }
  };
  // A second block of a few keys takes longer than a longer first one.
  const bool is_one = 4 * shape.m <= 5 * limits.c;
  const index_t longest = is_one ? round_up(shape.m, lanes) : limits.c;
  for (index_t c = longest; c >= lanes; c = c > 2 * lanes ? round_up(c / 2, lanes) : c - lanes)
    consider(c, std::min(limits.rho, round_up(shape.n, lanes)));
  for (index_t side = lanes; best.r == 0 && side >= 1; side /= 2) consider(side, side);
  return best;
}

// As wasted_lanes, of all keys, by blocks of so many.
double lanes_of_keys(index_t m, index_t c, const TileShape& tile) {
  const index_t last = m % c;
  double lanes = static_cast<double>(m - last) * wasted_lanes(c, tile);
  if (last > 0) lanes += static_cast<double>(last) * wasted_lanes(last, tile);
  return lanes / static_cast<double>(m);
}

}  // namespace

// Keys and values are packed once per block of queries.
double pair_rows_time(const LayerShape& shape, const Blocks& blocks, const FastMemory& memory,
                      const TileShape& tile) {
  const double n = static_cast<double>(shape.n), m = static_cast<double>(shape.m);
  const double d = static_cast<double>(shape.d), e = static_cast<double>(shape.dv);
  const index_t c = std::min(blocks.c, shape.m);
  const double of_scores = d / word_efficiency(tile.isa, shape.d) * lanes_of_keys(shape.m, c, tile);
  const double of_values = e * wasted_lanes(shape.dv, tile) / word_efficiency(tile.isa, c);
  const Streams streams = {shape.d, shape.d + shape.dv, 2 * shape.dv};
  return time_of(memory, tile, theory::row_stream_forward_pass(shape, blocks),
                 inner_words(shape, blocks, streams, memory), n * m * (of_scores + of_values));
}

double pair_rows_time(const LayerShape& shape, const SdpaSet& set, const Blocks& blocks,
                      const FastMemory& memory, const TileShape& tile) {
  const double n = static_cast<double>(shape.n), m = static_cast<double>(shape.m);
  const index_t d = shape.d, e = shape.dv, c = std::min(blocks.c, shape.m);
  const auto product = [&](index_t width, index_t depth) {
    return static_cast<double>(width) / word_efficiency(tile.isa, depth);
  };
  const double of_scores = (product(d, d) + product(e, e)) * wasted_lanes(c, tile);
  const double of_dq = set.dQ ? product(d, c) : 0;
  const Streams streams = {d + e, d + e + (set.dQ ? d : 0), set.dQ ? 2 * d : 0};
  return time_of(memory, tile, theory::row_stream_backward_pass(shape, blocks),
                 inner_words(shape, blocks, streams, memory), n * m * (of_scores + of_dq));
}

Blocks choose_pair_rows(const LayerShape& shape, const FastMemory& memory, const TileShape& tile) {
  return search(
      shape, memory, tile, of_forward(tile),
      [&](const Blocks& blocks) { return theory::pair_rows_forward_footprint(shape, blocks); },
      [&](const Blocks& blocks) { return pair_rows_time(shape, blocks, memory, tile); });
}

Blocks choose_pair_rows(const LayerShape& shape, const SdpaSet& set, const FastMemory& memory,
                        const TileShape& tile) {
  return search(
      shape, memory, tile, of_backward(tile),
      [&](const Blocks& blocks) {
        return theory::pair_rows_backward_footprint(shape, blocks, set.dQ, set.dBias);
      },
      [&](const Blocks& blocks) { return pair_rows_time(shape, set, blocks, memory, tile); });
}

}  // namespace ioattn::plan
