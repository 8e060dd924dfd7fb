#include "plan/blocks/blocking_tile_fused.hpp"

#include <algorithm>
#include <optional>

#include "base/tile_steps.hpp"
#include "plan/blocks/block_search.hpp"
#include "plan/blocks/pair_speed.hpp"
#include "plan/blocks/product_blocks.hpp"
#include "plan/blocks/thin_products.hpp"
#include "theory/block_costs.hpp"
#include "theory/sdpa_half_cost.hpp"

namespace ioattn::plan {
namespace {

// The kernels' sums have blocks of fewer terms: a longer depth is no faster.
constexpr index_t longest_w = 256;

Blocks blocks_of(KeyPassKind kind, index_t c, index_t rho, index_t w) {
  Blocks blocks;
  blocks.form = Form::h;
  blocks.c = c;
  blocks.rho = rho;
  blocks.w = w;
  blocks.one_pass = kind.queries;
  return blocks;
}

index_t round_up_to_power(index_t n) {
  index_t power = 1;
  while (power < n) power *= 2;
  return power;
}

// Where words decide, a quarter of the side of a square of M words. Narrower blocks leave a little
// more to the tiles, but rows that lie a power of two apart meet in few of a cache's sets, the
// fewer the narrower: at n = 1024, d = 512 blocks of a line miss an L2 of 16 ways half as often
// again as one without ways. Those that come by steps do not meet.
constexpr index_t line = 16;  // words of 4 bytes
index_t least_width(index_t M) {
  index_t w = 1;
  while (64 * w * w <= M) w *= 2;
  return w;
}

// Sides of a score tile whose products are by tiles of AMX: strips and panels of so many terms, 16
// KiB each, share L1.
constexpr index_t longest_side_of_tiles = 256;
bool keeps_sides_short(const TileShape& tile, const Price& price) {
  return multiplies_tiles(tile.isa) && !price.of_words();
}
// And a memory of which such scores, f, q and a rounded one, take half: they are read so fast that
// more of them, to stream past less often, would cost more than that.
index_t half_for_scores(const LayerShape& shape, const Blocks& blocks) {
  return 5 * std::min(blocks.c, shape.m) * std::min(blocks.rho, shape.n);
}

// Multiply-adds that take as long as a score on its way through memory to its weight, or to that
// and its gradient: row_stream, and tiles made at once, make them of scores in L1.
double fma_per_stored_score(const TileShape& tile) { return multiplies_tiles(tile.isa) ? 64 : 0; }
double fma_per_stored_gradient(const TileShape& tile) {
  return multiplies_tiles(tile.isa) ? 64 : multiplies_pairs(tile.isa) ? 8 : 0;
}

// The same where S has two parts: of a score on its way through memory, and of a number of S that
// is rounded twice.
constexpr double fma_per_score_of_parts = 4, fma_per_number_of_parts = 48;

// A block of keys that several tiles of queries meet is packed once, unless words decide: that
// moves a few more. In f32 it is no faster.
Blocks with_packing(const LayerShape& shape, Blocks blocks, const TileShape& tile,
                    const Price& price) {
  blocks.packed = multiplies_pairs(tile.isa) && !price.of_words() && shape.n > blocks.rho;
  return blocks;
}

// Of rows that lie a multiple of 1 KiB apart so many have columns in few of a cache's sets.
bool crowds_sets(const LayerShape& shape, const Blocks& blocks, index_t operand_bytes) {
  constexpr index_t KiB = 1024, most_rows = 128;
  const bool are_far = shape.d * operand_bytes % KiB == 0 || shape.dv * operand_bytes % KiB == 0;
  return are_far && std::max(blocks.c, blocks.rho) > most_rows;
}

// f is parked for fewer words alone: passes take as long either way. LRU brings a tenth more than
// is counted, as it keeps f, which is dead, and drops q; of U alone it drops f anyway. Beside
// operands in 16 bits f weighs twice as much.
bool may_park(KeyPassKind kind, const FastMemory& memory, const TileShape& tile) {
  return kind.makes_p() && memory.price.of_words() && memory.operand_bytes >= 4 &&
         !multiplies_pairs(tile.isa);
}

// Words that a score tile goes through for w columns: itself, rows padded, the columns, the copy of
// those of queries and the panels of those of keys.
index_t words_in_use(const LayerShape& shape, const Blocks& blocks, const TileShape& tile) {
  const index_t c = std::min(blocks.c, shape.m), rho = std::min(blocks.rho, shape.n);
  const index_t w = std::min(blocks.w, std::max(shape.d, shape.dv));
  const auto padded = [&](index_t cols) { return round_up(cols + 1, index_t(tile.cols)); };
  return rho * padded(c) + (rho + c) * w + rho * padded(w) + round_up(c, index_t(tile.cols)) * w;
}

// Times of columns that come w at a time, in those of as many at full speed: the last ones may be
// few.
struct ColumnTimes {
  index_t w;
  const TileShape& tile;
  // Of S in two parts: rows of f32 compete, whose estimates leave out how sums over d end.
  bool parts = false;

  double terms(index_t cols) const {
    const bool ends_once = parts && cols <= w;
    return sum(cols, [&](index_t k) { return ends_once ? 1 : 1 / word_efficiency(tile.isa, k); });
  }
  double lanes(index_t cols) const {
    return sum(cols, [&](index_t k) { return wasted_lanes(k, tile); });
  }

 private:
  template <class Time>
  double sum(index_t cols, const Time& of_one) const {
    if (w < 1) return 0;
    const auto time = [&](index_t k) { return k > 0 ? static_cast<double>(k) * of_one(k) : 0; };
    const index_t whole = cols / w;
    return static_cast<double>(whole) * time(std::min(w, cols)) + time(cols % w);
  }
};

}  // namespace

// Sums over d and dv go into the tile w terms at a time, those over queries and keys are as long as
// the tile.
double tile_fused_time(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                       const FastMemory& memory, const TileShape& tile) {
  const index_t d = shape.d, e = shape.dv;
  const index_t c = std::min(blocks.c, shape.m), rho = std::min(blocks.rho, shape.n);
  const index_t over_keys = kind.queries ? d : 0;
  const IoCost cost = theory::tile_fused(shape, blocks, kind);
  const theory::TileSums tiles = theory::tile_sums(shape, c, rho);
  index_t packed = cost.reads;
  if (blocks.packed) {
    const index_t widths = d + (kind.makes_p() ? e : 0) + over_keys;
    packed -= (tiles.keys - shape.m) * widths;
  }
  if (multiplies_tiles(tile.isa)) {
    // Rows of some of many columns are copied to lie close, and sums over queries transpose the
    // tile for every w columns.
    const auto copied = [&](index_t cols) { return 2 * blocks.w <= cols ? cols : 0; };
    const auto times = [&](bool wanted, index_t cols) {
      return wanted ? ceil_div(cols, std::max<index_t>(blocks.w, 1)) : 0;
    };
    const index_t of_queries = copied(d) + (kind.makes_p() ? copied(e) : 0);
    packed += tiles.queries * of_queries;
    packed += shape.n * shape.m * (times(kind.of_keys(), d) + times(kind.of_values(), e));
  }
  const index_t share = blocks.share > 0 ? blocks.share : c;
  const double words =
      memory.price.per_word * static_cast<double>(cost.words()) +
      fma_per_packed_word(tile.isa) * static_cast<double>(packed) +
      memory.price.per_inner_word * inner_words_of_tiles(shape, blocks, kind, memory, tile);
  const ColumnTimes of = {blocks.w, tile, kind.parts};
  const int parts = kind.parts ? 2 : 1;
  const double scores = parts * of.terms(d) + (kind.makes_p() ? of.terms(e) : 0);
  const double over_queries =
      (kind.of_keys() ? parts * of.lanes(d) : 0) + (kind.of_values() ? of.lanes(e) : 0);
  const double products =
      product(shape.n, shape.m) *
      (scores * wasted_lanes(c, tile) + of.lanes(over_keys) / word_efficiency(tile.isa, share) +
       over_queries / word_efficiency(tile.isa, rho));
  const bool at_once = may_be_made_at_once(kind, blocks.w, d, e);
  double stored = at_once ? 0 : fma_per_stored_gradient(tile) * product(shape.n, shape.m);
  if (kind.parts) stored += fma_per_number_of_parts * product(shape.n, d);
  return words / word_speed(tile.isa) + products / product_speed(tile.isa) + stored;
}

double saved_of_thin_products(const LayerShape& shape, const TileShape& tile) {
  const double fma = product(shape.n * shape.d, shape.d) + product(shape.m * shape.d, shape.dv);
  return fma * (1 - 1 / product_speed(tile.isa));
}

double longer_in_short_blocks(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                              const FastMemory& memory, const TileShape& tile) {
  if (blocks.share == 0) return 0;
  const LayerShape unmasked = shape.without_mask();
  Blocks shortest = blocks;
  shortest.c = blocks.share;
  const double longer = tile_fused_time(unmasked, shortest, kind, memory, tile) -
                        tile_fused_time(unmasked, blocks, kind, memory, tile);
  return shape.mask.hides() ? longer : longer / 2;
}

double tile_fused_forward_time(const LayerShape& shape, const Blocks& blocks,
                               const FastMemory& memory, const TileShape& tile, bool parts) {
  const index_t c = std::min(blocks.c, shape.m), rho = std::min(blocks.rho, shape.n);
  const IoCost cost = theory::tile_fused_forward_pass(shape, blocks);
  const ColumnTimes of = {blocks.w, tile, parts};
  const double words =
      memory.price.per_word * static_cast<double>(cost.words()) +
      fma_per_packed_word(tile.isa) * static_cast<double>(cost.reads) +
      memory.price.per_inner_word * inner_words_of_tiles(shape, blocks, memory, tile);
  const double products =
      product(shape.n, shape.m) * ((parts ? 2 : 1) * of.terms(shape.d) * wasted_lanes(rho, tile) +
                                   of.lanes(shape.dv) / word_efficiency(tile.isa, c));
  const double per_score = std::max(fma_per_stored_score(tile), parts ? fma_per_score_of_parts : 0);
  return words / word_speed(tile.isa) + products / product_speed(tile.isa) +
         per_score * product(shape.n, shape.m) +
         (parts ? fma_per_number_of_parts * product(shape.n, shape.d) : 0);
}

double least_tile_fused_forward_time(const LayerShape& shape, const FastMemory& memory,
                                     const TileShape& tile) {
  const auto [n, m, d, e, tie, mask] = shape;
  Blocks whole;
  whole.c = m;
  whole.rho = n;
  const IoCost cost = theory::tile_fused_forward_pass(shape, whole);
  const double words = memory.price.per_word * static_cast<double>(cost.words()) +
                       fma_per_packed_word(tile.isa) * static_cast<double>(cost.reads);
  const double terms = static_cast<double>(d) / word_efficiency(tile.isa, d);
  const double lanes = n <= tile.cols ? wasted_lanes(n, tile) : 1;
  const double sums = static_cast<double>(e) / word_efficiency(tile.isa, m);
  return words / word_speed(tile.isa) +
         product(n, m) * (terms * lanes + sums) / product_speed(tile.isa);
}

namespace {

// How many keys a block has at most, and how many of them a share: longer ones are of whole shares.
struct LongestKeys {
  index_t keys, share;
};

// What the choices for both passes search: c up to longest(price), any rho, w. Lanes of score tiles
// are keys or queries.
enum class Lanes : std::uint8_t { keys, queries };
template <class Longest, class Footprint, class Time, class BySteps>
Blocks search_tiles(const LayerShape& shape, Lanes lanes, const Blocks& least_blocks,
                    const Longest& longest, const FastMemory& memory, const TileShape& tile,
                    const Footprint& footprint, const Time& time, const BySteps& by_steps) {
  const auto with = [&](index_t c, index_t rho, index_t w) {
    Blocks blocks = least_blocks;
    blocks.c = c;
    blocks.rho = rho;
    blocks.w = w;
    return blocks;
  };
  const auto with_shares = [&](index_t c, index_t share, index_t rho, index_t w) {
    Blocks blocks = with(round_up(c, share), rho, w);
    blocks.share = share;
    return blocks;
  };
  const auto search = [&](const FastMemory& within, const LeastBlocks& whole) {
    std::optional<Blocks> best;
    double least = 0;
    const bool by_keys = lanes == Lanes::keys;
    const index_t least_c = std::min(by_keys ? whole.lanes : whole.rows, shape.m);
    const index_t least_rho = std::min(by_keys ? whole.rows : whole.lanes, shape.n);
    const index_t least_w = whole.lanes > 1 ? std::max(whole.lanes, least_width(within.M)) : 1;
    // Columns that leave a tile no room in the cache are narrowed; not where kernels' sums would
    // have fewer than 64 terms.
    const auto is_crowded = [&](const Blocks& blocks) {
      constexpr index_t short_sums = 64;
      return !within.is_outer() && !multiplies_pairs(tile.isa) && blocks.w > short_sums &&
             words_in_use(shape, blocks, tile) > cache_words(within.M);
    };
    const auto consider = [&](const Blocks& blocks) {
      if ((blocks.w < least_w && !by_steps(blocks)) || is_crowded(blocks)) return;
      const double estimate = time(blocks, within);
      if (best && estimate >= least) return;
      least = estimate;
      best = blocks;
    };
    const auto consider_keys = [&](index_t rho, index_t w) {
      const auto [longest_c, share] = longest(within.price);
      const auto fits = [&](const Blocks& blocks) { return footprint(blocks) <= within.M; };
      index_t most = largest(longest_c, [&](index_t c) { return fits(with(c, rho, w)); });
      if (most < least_c) return;
      for (index_t count = ceil_div(shape.m, most); ceil_div(shape.m, count) > share; ++count) {
        const Blocks shares = with_shares(ceil_div(shape.m, count), share, rho, w);
        if (fits(shares)) consider(shares);
      }
      most = std::min(most, share);
      const index_t panel = tile.cols;
      const index_t even = ceil_div(shape.m, ceil_div(shape.m, most));
      const bool is_whole = multiplies_tiles(tile.isa) && round_up(even, panel) <= most;
      consider(with(is_whole ? round_up(even, panel) : even, rho, w));
      // As many words: longer blocks, and a short last one, leave the rest of a cache less room.
      const bool is_lean = within.price.of_words() && even % panel == 0;
      if (most < shape.m && most > panel && !is_lean)
        consider(with(round_down(most, panel), rho, w));
      // Of an outer cache fewer may be faster.
      if (!within.is_outer()) return;
      for (index_t c = most; c >= 4 * panel; c = round_down(3 * c / 4, panel))
        consider(with(c, rho, w));
    };
    const index_t narrowest = std::min(least_w, line);
    const index_t longest_words = longest_w * (multiplies_tiles(tile.isa)   ? 4
                                               : multiplies_pairs(tile.isa) ? 2
                                                                            : 1);
    for (index_t w = longest_words; w >= std::min(narrowest, std::max(shape.d, shape.dv)); w /= 2) {
      if (w > 1 && w / 2 >= std::max(shape.d, shape.dv)) continue;
      const index_t longest_rho = keeps_sides_short(tile, within.price)
                                      ? std::min(shape.n, longest_side_of_tiles)
                                      : shape.n;
      for (index_t rho = round_up_to_power(longest_rho); rho >= least_rho; rho /= 2) {
        consider_keys(rho, w);
        for (const index_t eighths : {7, 6})
          if (rho >= 8 && eighths * rho / 8 >= least_rho) consider_keys(eighths * rho / 8, w);
      }
    }
    return best;
  };
  return choose_by_price(memory, tile, least_blocks, search,
                         [&](const Blocks& blocks) { return time(blocks, memory); });
}

}  // namespace

Blocks choose_tile_fused(const LayerShape& shape, KeyPassKind kind, const FastMemory& memory,
                         const TileShape& tile) {
  const bool is_short = keeps_sides_short(tile, memory.price);
  const auto by_steps = [&](const Blocks& blocks) {
    return !multiplies_pairs(tile.isa) && !blocks.parked &&
           values_come_by_steps(kind, std::min(blocks.c, shape.m), std::min(blocks.rho, shape.n),
                                blocks.w, shape.dv);
  };
  const auto whole = [&](const Blocks& blocks) {
    return with_packing(shape, blocks, tile, memory.price);
  };
  const auto longest = [&](const Price& price) -> LongestKeys {
    const index_t keys = is_short ? std::min(shape.m, longest_side_of_tiles) : shape.m;
    // Tiles lose a fifth of their speed in shorter blocks.
    const index_t least_share = is_short ? longest_side_of_tiles : 64;
    const index_t share = longest_key_block(shape.m, kind, price, least_share);
    return {keys, std::min(keys, round_up(share, 32))};
  };
  const auto footprint = [&](const Blocks& blocks) {
    if (!multiplies_pairs(tile.isa)) return theory::tile_fused(shape, blocks, kind).footprint;
    const index_t words = ceil_div(theory::pair_tiles_footprint(shape, whole(blocks), kind, 2), 2);
    return is_short ? std::max(words, half_for_scores(shape, blocks)) : words;
  };
  const auto time = [&](const Blocks& blocks, const FastMemory& within) {
    const double taken = tile_fused_time(shape, whole(blocks), kind, within, tile);
    // Of blocks with as many words, those that do not lose others to few sets: half a word.
    const bool costs = within.price.of_words() && !by_steps(blocks);
    return costs ? taken + within.price.per_word / 2 : taken;
  };
  const auto choose = [&](bool parked) {
    Blocks least = blocks_of(kind, 1, 1, 1);
    least.parked = parked;
    return whole(
        search_tiles(shape, Lanes::keys, least, longest, memory, tile, footprint, time, by_steps));
  };
  const Blocks pair = choose(false);
  if (!may_park(kind, memory, tile)) return pair;
  const bool u_alone = !kind.of_keys() && !kind.of_values();
  if (!u_alone && by_steps(pair)) return pair;
  const Blocks parked = choose(true);
  if (!u_alone && crowds_sets(shape, parked, memory.operand_bytes)) return pair;
  const auto words = [&](const Blocks& blocks) {
    return static_cast<double>(theory::tile_fused(shape, blocks, kind).words());
  };
  constexpr double most_of_words = 0.85;
  return words(parked) < (u_alone ? 1 : most_of_words) * words(pair) ? parked : pair;
}

namespace {

index_t inner_words(const FastMemory& memory) {
  return memory.is_outer() ? memory.inner_M : memory.M;
}

// Tiles between thin products that are stored, of which those of delta have no blocks yet.
Blocks between_thin_products(const Blocks& tiles, const LayerShape& shape, const ThinNeeds& needs,
                             const FastMemory& memory, const TileShape& tile) {
  Blocks blocks;
  blocks.form = Form::h;
  blocks.products = Products::stored;
  choose_thin_products(shape, needs, inner_words(memory), memory.price, tile, &blocks);
  blocks.c = tiles.c;
  blocks.share = tiles.share;
  blocks.rho = tiles.rho;
  blocks.w = tiles.w;
  blocks.packed = tiles.packed;
  blocks.parked = tiles.parked;
  blocks.o = 0;
  return blocks;
}

}  // namespace

Blocks choose_tile_fused_backward(const LayerShape& shape, const FastMemory& memory,
                                  const TileShape& tile) {
  const Blocks tiles = choose_tile_fused(shape.without_mask(), tiles_of_u(tile), memory, tile);
  Blocks blocks = between_thin_products(tiles, shape, {}, memory, tile);
  // Columns of pairs take half of the words that those of O and dO take for delta.
  const index_t most = inner_words(memory);
  if (2 * std::min(blocks.w, shape.dv) >= most) blocks.w = std::max<index_t>((most - 1) / 2, 1);
  const index_t row = 2 * std::min(blocks.w, shape.dv) + 1;
  blocks.o = std::clamp<index_t>(most / row, 1, shape.n);
  return blocks;
}

Blocks choose_tile_fused_forward(const LayerShape& shape, const FastMemory& memory,
                                 const TileShape& tile, bool parts) {
  return search_tiles(
      shape, Lanes::queries, blocks_of(KeyGradients::both, 1, 1, 1),
      [&](const Price& price) -> LongestKeys {
        const index_t keys =
            keeps_sides_short(tile, price) ? std::min(shape.m, longest_side_of_tiles) : shape.m;
        return {keys, keys};
      },
      memory, tile,
      [&](const Blocks& blocks) {
        return multiplies_pairs(tile.isa)
                   ? ceil_div(theory::pair_tiles_forward_footprint(shape, blocks, parts), 2)
                   : theory::tile_fused_forward_pass(shape, blocks).footprint;
      },
      [&](const Blocks& blocks, const FastMemory& within) {
        return tile_fused_forward_time(shape, blocks, within, tile, parts);
      },
      [](const Blocks&) { return false; });
}

Blocks choose_layer_forward_tiles(const LayerShape& shape, const FastMemory& memory,
                                  const TileShape& tile) {
  const Blocks tiles =
      choose_tile_fused_forward(shape.without_mask(), memory, tile, multiplies_pairs(tile.isa));
  return between_thin_products(tiles, shape, {.dx = false}, memory, tile);
}

}  // namespace ioattn::plan
