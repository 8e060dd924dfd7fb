#pragma once

#include "kernels/generic/pair_elements.hpp"
#include "kernels/generic/tile_transposed.hpp"
#include "kernels/generic/tile_weights.hpp"

// Softmax weights and their gradients straight from the tiles that make scores and q. See
// scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// Scores and q of 32 queries and 32 keys become f and p in L1, between the products that come next.
// `Pairs` makes them: X86Bf16Pairs or EmulatedPairs.
template <class Tiles, class V, class Terms, class Pairs>
struct TileGradients : TileWeights<Tiles, V, Terms, Pairs> {
  static constexpr PairKernels table(PairKernels pairs) {
    pairs = TransposedTileProduct<Tiles, V, Terms, Pairs>::table(
        TileWeights<Tiles, V, Terms, Pairs>::table(pairs));
    pairs.gradients = gradients;
    return pairs;
  }

 private:
  using Base = TileProduct<Tiles, V, Terms>;
  static constexpr index_t nr = Base::nr, side = Base::side, most_terms = Base::most_terms;
  using typename TileWeights<Tiles, V, Terms, Pairs>::Product;
  using typename TileWeights<Tiles, V, Terms, Pairs>::Strip;

  struct alignas(64) Scratch {
    float scores[2][nr * nr];  // those that wait and those that are made
    float q[nr * nr];
    GradientRows<nr, nr> rows;
    bf16x2 copies[2][most_terms * nr];
    bf16x2 last_b[side * nr];
  };

  // A panel whose products are done: two of its rows at a time become f and p beside every so many
  // products of the next panel.
  struct Waiting {
    ScorePairs panel = {};
    index_t every = 1, left = 1;

    IOATTN_INLINE void begin(const ScorePairs& of, index_t products) {
      const index_t pairs = (of.rows + 1) / 2;
      panel = of;
      left = every = products > pairs ? products / pairs : 1;
    }
    IOATTN_INLINE void go_on() {
      if (--left > 0) return;
      left = every;
      take_rows<Pairs, nr>(&panel, 2);
    }
    IOATTN_INLINE void finish() { take_rows<Pairs, nr>(&panel, nr); }
  };

  // Tiles of a panel of a product.
  template <int row_tiles>
  static IOATTN_INLINE void multiply(const Product& p, const Strip& strip, index_t col,
                                     Scratch* scratch, Waiting* waiting) {
    Base::template begin<row_tiles>(nullptr, 0);
    Base::template add_terms<row_tiles, Base::Panels::stream>(
        strip, p.b.row_of(col / nr, 0), p.b.row, scratch->last_b, [&] { waiting->go_on(); });
  }

  template <int row_tiles>
  static IOATTN_INLINE void of_strip(const Product& scores, const Product& q,
                                     const PairGradients& g, index_t row, Scratch* scratch) {
    const Strip of_scores = Base::strip_of(scores, row, 0, scratch->copies[0]);
    const Strip of_q = Base::strip_of(q, row, 0, scratch->copies[1]);
    const index_t products = Base::template products_of<row_tiles>(of_scores) +
                             Base::template products_of<row_tiles>(of_q);
    scratch->rows.begin(g, row, of_scores.rows);
    Waiting waiting;
    for (index_t col = 0; col < scores.cols; col += nr) {
      float* const made = scratch->scores[col / nr % 2];
      multiply<row_tiles>(scores, of_scores, col, scratch, &waiting);
      Base::template end<row_tiles>(made, nr);
      multiply<row_tiles>(q, of_q, col, scratch, &waiting);
      waiting.finish();
      Base::template end<row_tiles>(scratch->q, nr);
      waiting.begin(scratch->rows.panel(made, scratch->q, col, scores.cols - col), products);
    }
    waiting.finish();
  }

  static IOATTN_KERNEL void gradients(const Product& scores, const Product& q,
                                      const PairGradients& gradients) {
    [[maybe_unused]] const typename Pairs::WithoutDenormals mode{};
    Scratch scratch;
    for (index_t row = 0; row < scores.rows; row += nr) {
      if (scores.rows - row > side) {
        of_strip<2>(scores, q, gradients, row, &scratch);
      } else {
        of_strip<1>(scores, q, gradients, row, &scratch);
      }
    }
  }
};

}  // namespace
}  // namespace ioattn::kernels
