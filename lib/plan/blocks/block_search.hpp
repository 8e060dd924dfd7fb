#pragma once

#include <algorithm>
#include <functional>
#include <optional>

#include "plan/blocks/blocking.hpp"
#include "plan/blocks/fast_memory.hpp"

// What the choices of blocks share.
namespace ioattn::plan {

// Least rows of a block whose product is one term of dX, where dX sums over pairs of blocks: with
// single rows it would be one chain of n m additions per entry, with errors to match, and T A2
// would cost d^2 multiply-adds per score. The paper's own blocks have d / 4 rows and more.
constexpr index_t least_block = 8;

// Threads divide the rows in multiples of rho: a longer one would leave cores idle on short
// problems.
constexpr index_t longest_rho = 64;

// Of a pass over rows. From an outer cache keys and values come once per sub-block: backward, where
// sixteen are left even so, they are twice as long.
constexpr index_t longest_sub_block(Pass pass, index_t n, const FastMemory& memory) {
  constexpr index_t least_shares = 16;
  const bool twice = pass == Pass::backward && memory.is_outer();
  return twice && n >= 2 * least_shares * longest_rho ? 2 * longest_rho : longest_rho;
}

// Keys of a block. Where U (or dQ) is made on the way they are the same for every number of
// threads: blocks have to be enough for many, unless they are not worth dividing, or words decide.
constexpr index_t longest_key_block(index_t m, KeyPassKind kind, const Price& price,
                                    index_t shortest_share = 64) {
  constexpr index_t least_shares = 8;
  return kind.queries && !price.of_words()
             ? std::min(m, std::max(ceil_div(m, least_shares), shortest_share))
             : m;
}

inline index_t longest_side(const LayerShape& shape) {
  return std::max({shape.n, shape.m, shape.d, shape.dv});
}

index_t footprint(const Variant& variant, const LayerShape& shape, const Blocks& blocks);

// The largest x in [1, limit] that satisfies a predicate which is true up to some x; 0 if none
// does. It is found sooner if it is not far above `guess`.
template <class Predicate>
index_t largest(index_t limit, Predicate fits, index_t guess = 0) {
  if (limit < 1 || fits(limit)) return limit;
  index_t low = 0, high = limit - 1;
  if (guess > 0 && guess <= high) {
    if (!fits(guess)) {
      high = guess - 1;
    } else {
      low = guess;
      for (index_t step = 1; low + step <= high; step *= 2) {
        if (fits(low + step)) {
          low += step;
        } else {
          high = low + step - 1;
        }
      }
    }
  }
  while (low < high) {
    const index_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// A number of rows or columns cut to a multiple of the register tile if it reaches one.
constexpr index_t whole_tiles(index_t size, index_t tile) {
  return size >= tile ? round_down(size, tile) : size;
}

// The r, c and rho, none below those of `smallest`, that cost least by the memory's price;
// `smallest` if nothing larger fits.
using Footprint = std::function<index_t(const Blocks&)>;
using Cost = std::function<double(const Blocks&, const Price&)>;
Blocks search_rows(Pass pass, const LayerShape& shape, const FastMemory& memory,
                   const TileShape& tile, const Blocks& smallest, const Footprint& footprint,
                   const Cost& cost);

// Where words decide, the last of them would be had from blocks of one row, whose kernels crawl and
// whose lanes are padded to more memory than is counted: blocks are no shorter than these, of whole
// register tiles, then at least of half their lanes, unless only shorter ones fit, or time takes
// such too.
struct LeastBlocks {
  index_t lanes = 1, rows = 1;  // of a score tile
};
constexpr LeastBlocks whole_tiles_of(const TileShape& tile) { return {tile.cols, tile.rows}; }

// Whether keys or queries that are lanes of a score tile, of a number that there are in all, use
// half of them at least. Panels are padded to whole lanes: what others hold is mostly that.
constexpr bool fill_lanes(index_t block, index_t all, const TileShape& tile) {
  return 2 * block >= std::min<index_t>(tile.cols, 2 * all);
}

// Of what choose(memory, least blocks) finds for the price and, where words decide, for time, what
// costs less; `smallest` if neither finds any.
template <class Choose, class Cost>
Blocks choose_by_price(const FastMemory& memory, const TileShape& tile, const Blocks& smallest,
                       const Choose& choose, const Cost& cost) {
  if (!memory.price.of_words()) return choose(memory, LeastBlocks()).value_or(smallest);
  const std::optional<Blocks> fast = choose(memory.of_time(), LeastBlocks());
  const LeastBlocks whole = whole_tiles_of(tile);
  std::optional<Blocks> lean;
  const index_t half = whole.lanes / 2;
  for (const LeastBlocks& least :
       {whole, LeastBlocks{half, whole.rows}, LeastBlocks{half, 1}, LeastBlocks()}) {
    if (!lean) lean = choose(memory, least);
  }
  if (!lean || (fast && cost(*fast) < cost(*lean))) lean = fast;
  return lean.value_or(smallest);
}

// Makes a streamed block as long as fits, up to `limit`, in multiples of the register tile.
void widen(const Variant& variant, const LayerShape& shape, index_t M, index_t limit,
           index_t multiple, index_t Blocks::*size, Blocks* blocks);

// Lanes that a score tile takes, of memory and, but for half a last panel, of time, per column with
// a query.
inline double wasted_lanes(index_t queries, const TileShape& tile) {
  const double lanes = static_cast<double>(round_up(queries, tile.cols));
  // AVX-512 multiplies panels two by two; the odd one takes a tenth longer.
  const bool is_odd = tile.isa == Isa::avx512 && ceil_div(queries, tile.cols) % 2 != 0;
  const double longer = is_odd ? 0.1 * static_cast<double>(tile.cols) : 0;
  return (lanes + longer) / static_cast<double>(queries);
}

// Of so many columns that are computed, those of whole panels as long as they take.
inline double time_of_columns(index_t columns, const TileShape& tile) {
  const index_t rest = columns % tile.cols, whole = columns - rest;
  const double panels = whole > 0 ? wasted_lanes(whole, tile) * static_cast<double>(whole) : 0;
  return panels + static_cast<double>(rest);
}

}  // namespace ioattn::plan
