#pragma once

#include "kernels/generic/tile_product.hpp"

// Softmax weights straight from the tiles that make the scores. See scalar_vector.hpp about the
// anonymous namespace.
namespace ioattn::kernels {
namespace {

// Scores of 32 queries and 32 keys at a time become weights in L1, between the products that make
// the next ones: that is possible as long as no row's maximum, which all of its weights refer to,
// has to grow. `Pairs` makes weights of a row: X86Bf16Pairs or EmulatedPairs.
template <class Tiles, class V, class Terms, class Pairs>
struct TileWeights : TileProduct<Tiles, V, Terms> {
  static constexpr PairKernels table(PairKernels pairs) {
    pairs = Base::table(pairs);
    pairs.weights = weights;
    return pairs;
  }

 protected:
  using Base = TileProduct<Tiles, V, Terms>;
  using Base::nr;
  using Base::side;
  using typename Base::Panels;
  using typename Base::Product;
  using typename Base::Scratch;
  using typename Base::Strip;

  // Of a strip of queries.
  struct alignas(64) Rows {
    float binary_max[nr];
    float part[nr * Pairs::part_lanes];  // of the sum of weights
  };

  // Scores [rows][nr] that wait to become weights.
  struct Pending {
    Rows* of;
    float binary_scale;
    index_t stride;
    const float* sums = nullptr;
    index_t row = 0, rows = 0, columns = 0;
    bf16x2* to = nullptr;

    IOATTN_INLINE void finish(index_t some) {
      const index_t end = row + (rows < some ? rows : some);
      for (; row < end; ++row, --rows, to += stride)
        Pairs::weigh(sums + row * nr, columns, binary_scale, of->binary_max[row],
                     of->part + row * Pairs::part_lanes, to);
    }
    IOATTN_INLINE void finish() { finish(rows); }
  };

  // While the tiles make one panel of scores, the one before becomes weights.
  template <int row_tiles, Panels panels>
  static IOATTN_INLINE bool weigh_strip(const Product& p, const PairWeights& weights, Strip* strip,
                                        Scratch* scratch) {
    Rows rows;
    for (index_t i = 0; i < strip->rows; ++i)
      rows.binary_max[i] = Pairs::binary(weights.row_max[i]);
    for (float& part : rows.part) part = 0;
    Pending waiting = {&rows, Pairs::binary(weights.scale), weights.dst_stride};
    for (index_t col = 0; col < p.cols; col += nr) {
      if (col > 0 && p.depth > Base::most_terms) *strip = Base::strip_of(p, 0, 0, scratch->a);
      float* const sums = col / nr % 2 == 0 ? scratch->sums : scratch->edge;
      Base::template begin<row_tiles>(nullptr, 0);
      Base::template add_all_terms<row_tiles, panels>(p, 0, p.b.row_of(col / nr, 0), strip, scratch,
                                                      &waiting);
      waiting.finish();
      Base::template end<row_tiles>(sums, nr);
      waiting.sums = sums;
      waiting.row = 0;
      waiting.rows = strip->rows;
      waiting.columns = p.cols - col < nr ? p.cols - col : nr;
      waiting.to = weights.dst + col / 2;
    }
    waiting.finish();
    return Pairs::add_parts(rows.part, strip->rows, weights.row_sum);
  }
  template <Panels panels>
  static IOATTN_INLINE bool weigh_strip(const Product& p, const PairWeights& weights) {
    Scratch scratch;
    Strip strip = Base::strip_of(p, 0, 0, scratch.a);
    return strip.rows > side ? weigh_strip<2, panels>(p, weights, &strip, &scratch)
                             : weigh_strip<1, panels>(p, weights, &strip, &scratch);
  }

  static IOATTN_KERNEL bool weights(const Product& product, const PairWeights& weights) {
    [[maybe_unused]] const typename Pairs::WithoutDenormals mode{};
    const Product p = product;
    if (p.rows > nr) return false;
    for (index_t i = 0; i < p.rows; ++i)
      if (!Pairs::is_ordinary(weights.row_max[i])) return false;
    return Base::panels_stream(p) ? weigh_strip<Panels::stream>(p, weights)
                                  : weigh_strip<Panels::stay>(p, weights);
  }
};

}  // namespace
}  // namespace ioattn::kernels
