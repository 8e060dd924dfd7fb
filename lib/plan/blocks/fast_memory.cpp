#include "plan/blocks/fast_memory.hpp"

#include <algorithm>

#include "plan/blocks/key_products.hpp"

namespace ioattn::plan {

double inner_words_of_rows(const LayerShape& shape, const Variant& variant, const Blocks& blocks,
                           const FastMemory& memory) {
  if (!memory.is_outer()) return 0;
  const index_t d = shape.d, v = variant.form == Form::h ? shape.dv : d;
  const index_t r = std::min(blocks.r, shape.n), c = std::min(blocks.c, shape.m);
  const index_t rho = std::min(blocks.rho, r);
  const bool backward = variant.pass == Pass::backward;
  // Keys and values; panels of queries (and dO), sums that are read and written.
  const index_t streamed = c * (d + v);
  const index_t times = 2 * streamed <= memory.inner_M ? 1 : ceil_div(r, rho);
  const index_t resident = backward ? d + v + 2 * d : d + 2 * v;
  const double pairs = product(ceil_div(shape.n, r), ceil_div(shape.m, c));
  return pairs * (product(times, streamed) + product(r, resident));
}

double inner_words_of_keys(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                           const FastMemory& memory, const TileShape& tile) {
  if (!memory.is_outer()) return 0;
  const index_t d = shape.d, v = blocks.form == Form::h ? shape.dv : d;
  const index_t c = std::min(blocks.c, shape.m), rho = std::min(blocks.rho, shape.n);
  const bool tile_stays = 2 * rho * c <= memory.inner_M;
  const auto panels = [&](index_t cols) { return ceil_div(cols, index_t(tile.cols)); };
  const auto reread = [&](index_t words, index_t cols) {
    return product(words, 2 * words <= memory.inner_M ? 1 : panels(cols));
  };
  // Scores of a depth: rows of queries, panels of keys, the tile.
  const auto score = [&](index_t depth) {
    return reread(rho * depth, c) + product(c, depth) + (tile_stays ? 0 : product(rho, c));
  };
  // A sum over the tile, of a width.
  const auto sum = [&](Over over, index_t width) {
    const index_t rows = over == Over::queries ? c : rho, terms = over == Over::queries ? rho : c;
    return (tile_stays ? 0 : product(panels(width), rho * c)) + product(terms, width) +
           2 * product(rows, width);
  };
  return product(ceil_div(shape.n, rho), ceil_div(shape.m, c)) *
         over_key_products(kind, d, v, score, sum);
}

namespace {

// The words of products with score tiles, rho queries by c keys.
class InnerWordsOfTiles {
 public:
  InnerWordsOfTiles(const LayerShape& shape, const Blocks& blocks, const FastMemory& memory,
                    const TileShape& tile)
      : c_(std::min(blocks.c, shape.m)),
        rho_(std::min(blocks.rho, shape.n)),
        w_(blocks.w),
        panel_(tile.cols),
        inner_M_(memory.inner_M) {}

  // Of a depth, w terms at a time: `rows` that are read for every panel of `lanes`, these, and the
  // tile to and fro.
  double score(index_t rows, index_t lanes, index_t depth) const {
    const index_t w = std::min(w_, depth), times = ceil_div(depth, std::max<index_t>(w, 1));
    const index_t rereads = stays(rows * w) ? 1 : ceil_div(lanes, panel_);
    return product(rereads * rows + lanes, depth) + product(2 * times, rho_ * c_);
  }
  // Sums of a width over the tile, w columns at a time.
  double sum(index_t rows, index_t terms, index_t width) const {
    const index_t step = stays(rho_ * c_) ? w_ : panel_;
    return product(ceil_div(width, std::max<index_t>(step, 1)), rho_ * c_) +
           product(terms + 2 * rows, width);
  }
  index_t c() const { return c_; }
  index_t rho() const { return rho_; }

 private:
  // What is read again for every panel, if it does not stay beside some of these.
  bool stays(index_t words) const { return words + 2 * std::max(rho_, c_) * panel_ <= inner_M_; }

  index_t c_, rho_, w_, panel_, inner_M_;
};

}  // namespace

double inner_words_of_tiles(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                            const FastMemory& memory, const TileShape& tile) {
  if (!memory.is_outer()) return 0;
  const InnerWordsOfTiles of(shape, blocks, memory, tile);
  const index_t c = of.c(), rho = of.rho();
  const auto score = [&](index_t depth) { return of.score(rho, c, depth); };
  const auto sum = [&](Over over, index_t width) {
    return over == Over::queries ? of.sum(c, rho, width) : of.sum(rho, c, width);
  };
  return product(ceil_div(shape.n, rho), ceil_div(shape.m, c)) *
         over_key_products(kind, shape.d, shape.dv, score, sum);
}

double inner_words_of_tiles(const LayerShape& shape, const Blocks& blocks, const FastMemory& memory,
                            const TileShape& tile) {
  if (!memory.is_outer()) return 0;
  const InnerWordsOfTiles of(shape, blocks, memory, tile);
  const index_t c = of.c(), rho = of.rho();
  return product(ceil_div(shape.n, rho), ceil_div(shape.m, c)) *
         (of.score(c, rho, shape.d) + of.sum(rho, c, shape.dv));
}

}  // namespace ioattn::plan
