#include "plan/blocks/tile_fused_time.hpp"

#include <algorithm>

#include "base/tile_steps.hpp"
#include "plan/blocks/block_search.hpp"
#include "plan/blocks/pair_speed.hpp"
#include "theory/block_costs.hpp"

namespace ioattn::plan {
namespace {

// Multiply-adds that take as long as a score on its way through memory to its weight, or to that
// and its gradient: row_stream, and tiles made at once, make them of scores in L1.
double fma_per_stored_score(const TileShape& tile) { return multiplies_tiles(tile.isa) ? 64 : 0; }
double fma_per_stored_gradient(const TileShape& tile) {
  return multiplies_tiles(tile.isa) ? 64 : multiplies_pairs(tile.isa) ? 8 : 0;
}

// The same where S has two parts: of a score on its way through memory, and of a number of S that
// is rounded twice.
constexpr double fma_per_score_of_parts = 4, fma_per_number_of_parts = 48;

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

}  // namespace ioattn::plan
