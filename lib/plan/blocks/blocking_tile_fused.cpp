#include "plan/blocks/blocking_tile_fused.hpp"

#include <algorithm>
#include <optional>

#include "base/tile_steps.hpp"
#include "plan/blocks/block_search.hpp"
#include "plan/blocks/thin_products.hpp"
#include "plan/blocks/tile_fused_time.hpp"
#include "theory/block_costs.hpp"
#include "theory/sdpa_half_cost.hpp"

namespace ioattn::plan {
namespace {

// The kernels' sums have blocks of fewer terms: a longer depth is no faster.
constexpr index_t longest_w = 256;

// One key, one query and one column.
Blocks smallest_tiles(KeyPassKind kind) {
  Blocks blocks;
  blocks.form = Form::h;
  blocks.c = blocks.rho = blocks.w = 1;
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

// How many keys a block has at most, and how many of them a share: longer ones are of whole shares.
struct LongestKeys {
  index_t keys, share;
};

// What the choices for both passes search: c up to longest(price), any rho, w. Lanes of score tiles
// are keys or queries.
enum class Lanes : std::uint8_t { keys, queries };
template <class Longest, class Footprint, class Time, class BySteps>
struct TilePass {
  Lanes lanes;
  Blocks smallest;
  Longest longest;
  Footprint footprint;
  Time time;
  BySteps by_steps;
};
template <class Longest, class Footprint, class Time, class BySteps>
TilePass(Lanes, Blocks, Longest, Footprint, Time, BySteps)
    -> TilePass<Longest, Footprint, Time, BySteps>;

// The blocks of a pass that take the least time within a memory.
template <class Pass>
class TileSearch {
 public:
  TileSearch(const LayerShape& shape, const Pass& pass, const TileShape& tile,
             const FastMemory& within, const LeastBlocks& whole)
      : shape_(shape),
        pass_(pass),
        tile_(tile),
        within_(within),
        longest_(pass.longest(within.price)),
        least_c_(std::min(pass.lanes == Lanes::keys ? whole.lanes : whole.rows, shape.m)),
        least_rho_(std::min(pass.lanes == Lanes::keys ? whole.rows : whole.lanes, shape.n)),
        least_w_(whole.lanes > 1 ? std::max(whole.lanes, least_width(within.M)) : 1) {}

  std::optional<Blocks> run() {
    const index_t widest = std::max(shape_.d, shape_.dv);
    const index_t narrowest = std::min({least_w_, line, widest});
    const index_t words_per_term = multiplies_tiles(tile_.isa)   ? 4
                                   : multiplies_pairs(tile_.isa) ? 2
                                                                 : 1;
    for (index_t w = longest_w * words_per_term; w >= narrowest; w /= 2)
      if (w <= 1 || w / 2 < widest) consider_width(w);
    return best_;
  }

 private:
  void consider_width(index_t w) {
    const index_t longest_rho = keeps_sides_short(tile_, within_.price)
                                    ? std::min(shape_.n, longest_side_of_tiles)
                                    : shape_.n;
    for (index_t rho = round_up_to_power(longest_rho); rho >= least_rho_; rho /= 2) {
      consider_keys(rho, w);
      for (const index_t eighths : {7, 6})
        if (rho >= 8 && eighths * rho / 8 >= least_rho_) consider_keys(eighths * rho / 8, w);
    }
  }

  void consider_keys(index_t rho, index_t w) {
    const auto [longest_c, share] = longest_;
    index_t most = largest(longest_c, [&](index_t c) { return fits(with(c, rho, w)); });
    if (most < least_c_) return;
    for (index_t count = ceil_div(shape_.m, most); ceil_div(shape_.m, count) > share; ++count) {
      Blocks shares = with(round_up(ceil_div(shape_.m, count), share), rho, w);
      shares.share = share;
      if (fits(shares)) consider(shares);
    }
    most = std::min(most, share);
    const index_t panel = tile_.cols;
    const index_t even = ceil_div(shape_.m, ceil_div(shape_.m, most));
    const bool is_whole = multiplies_tiles(tile_.isa) && round_up(even, panel) <= most;
    consider(with(is_whole ? round_up(even, panel) : even, rho, w));
    // As many words: longer blocks, and a short last one, leave the rest of a cache less room.
    const bool is_lean = within_.price.of_words() && even % panel == 0;
    if (most < shape_.m && most > panel && !is_lean)
      consider(with(round_down(most, panel), rho, w));
    // Of an outer cache fewer may be faster.
    if (!within_.is_outer()) return;
    for (index_t c = most; c >= 4 * panel; c = round_down(3 * c / 4, panel))
      consider(with(c, rho, w));
  }

  void consider(const Blocks& blocks) {
    if ((blocks.w < least_w_ && !pass_.by_steps(blocks)) || is_crowded(blocks)) return;
    const double estimate = pass_.time(blocks, within_);
    if (best_ && estimate >= least_) return;
    least_ = estimate;
    best_ = blocks;
  }

  Blocks with(index_t c, index_t rho, index_t w) const {
    Blocks blocks = pass_.smallest;
    blocks.c = c;
    blocks.rho = rho;
    blocks.w = w;
    return blocks;
  }
  bool fits(const Blocks& blocks) const { return pass_.footprint(blocks) <= within_.M; }
  // Columns that leave a tile no room in the cache are narrowed; not where kernels' sums would have
  // fewer than 64 terms.
  bool is_crowded(const Blocks& blocks) const {
    constexpr index_t short_sums = 64;
    return !within_.is_outer() && !multiplies_pairs(tile_.isa) && blocks.w > short_sums &&
           words_in_use(shape_, blocks, tile_) > cache_words(within_.M);
  }

  const LayerShape& shape_;
  const Pass& pass_;
  const TileShape& tile_;
  const FastMemory& within_;
  LongestKeys longest_;
  index_t least_c_, least_rho_, least_w_;
  std::optional<Blocks> best_;
  double least_ = 0;
};

template <class Pass>
Blocks search_tiles(const LayerShape& shape, const Pass& pass, const FastMemory& memory,
                    const TileShape& tile) {
  const auto search = [&](const FastMemory& within, const LeastBlocks& whole) {
    return TileSearch<Pass>(shape, pass, tile, within, whole).run();
  };
  return choose_by_price(memory, tile, pass.smallest, search,
                         [&](const Blocks& blocks) { return pass.time(blocks, memory); });
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
    Blocks smallest = smallest_tiles(kind);
    smallest.parked = parked;
    const TilePass pass = {Lanes::keys, smallest, longest, footprint, time, by_steps};
    return whole(search_tiles(shape, pass, memory, tile));
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
  const auto longest = [&](const Price& price) -> LongestKeys {
    const index_t keys =
        keeps_sides_short(tile, price) ? std::min(shape.m, longest_side_of_tiles) : shape.m;
    return {keys, keys};
  };
  const auto footprint = [&](const Blocks& blocks) {
    return multiplies_pairs(tile.isa)
               ? ceil_div(theory::pair_tiles_forward_footprint(shape, blocks, parts), 2)
               : theory::tile_fused_forward_pass(shape, blocks).footprint;
  };
  const auto time = [&](const Blocks& blocks, const FastMemory& within) {
    return tile_fused_forward_time(shape, blocks, within, tile, parts);
  };
  const auto by_steps = [](const Blocks&) { return false; };
  const Blocks smallest = smallest_tiles(KeyGradients::both);
  const TilePass pass = {Lanes::queries, smallest, longest, footprint, time, by_steps};
  return search_tiles(shape, pass, memory, tile);
}

Blocks choose_layer_forward_tiles(const LayerShape& shape, const FastMemory& memory,
                                  const TileShape& tile) {
  const Blocks tiles =
      choose_tile_fused_forward(shape.without_mask(), memory, tile, multiplies_pairs(tile.isa));
  return between_thin_products(tiles, shape, {.dx = false}, memory, tile);
}

}  // namespace ioattn::plan
