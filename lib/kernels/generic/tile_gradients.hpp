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
    GradientRows<nr, nr> rows[2];  // of a strip that waits and of the next one
    bf16x2 copies[2][most_terms * nr];
    bf16x2 last_b[side * nr];
  };

  // A whole panel whose products are done: two of its rows at a time become f and p beside products
  // of the next panel, `often` times in a step of four, but not between a step and the loads of the
  // next one if it can be helped; or once in some steps.
  template <RowKinds kinds, int often>
  struct Waiting {
    typename Pairs::GradientConstants constants;
    index_t every, left = 1;  // steps
    ScorePairs next = {};     // rows
    index_t pairs = 0;

    IOATTN_INLINE void begin(const ScorePairs& panel) {
      next = panel;
      pairs = nr / 2;
      left = 1;
    }
    template <int product>
    IOATTN_INLINE void go_on() {
      if constexpr (product % (4 / often) == 0) {
        if (often == 1 && --left > 0) return;
        left = every;
        if (pairs > 0) take_two_rows();
      }
    }
    IOATTN_INLINE void finish() {
      while (pairs > 0) take_two_rows();
    }

   private:
    IOATTN_INLINE void take_two_rows() {
      Pairs::template gradients_of<true, kinds>(next, constants);
      go_to_next_rows<nr>(&next);
      --pairs;
    }
  };

  // No lambda, which is inlined only when structures have their places in memory.
  template <class Work>
  struct Beside {
    Work* work;
    template <int product>
    IOATTN_INLINE void operator()(typename Base::template Index<product>) const {
      work->template go_on<product>();
    }
  };

  // Rows and panels that are whole.
  template <RowKinds kinds, int often>
  static IOATTN_KERNEL void of_whole(const Product* const (&products)[2], const PairGradients& g,
                                     index_t every, Scratch* scratch) {
    Waiting<kinds, often> waiting = {typename Pairs::GradientConstants(g.scale), every};
    waiting.constants.hold();
    const index_t panels = products[0]->cols / nr;
    for (index_t row = 0; row + nr <= products[0]->rows; row += nr) {
      Strip strips[2];
      strips_of(products, row, scratch, &strips);
      auto* const rows = scratch->rows + row / nr % 2;
      rows->begin(g, row, nr);
      if (kinds == RowKinds::ordinary) rows->template take_binary<Pairs>();
      for (index_t panel = 0; panel < panels; ++panel) {
        float* const made[] = {scratch->scores[(row / nr * panels + panel) % 2], scratch->q};
        for (int k = 0; k < 2; ++k) {
          multiply<2>(*products[k], strips[k], panel, scratch,
                      Beside<Waiting<kinds, often>>{&waiting});
          if (k == 1) waiting.finish();
          Base::template end<2>(made[k], nr);
        }
        waiting.begin(rows->panel(made[0], made[1], panel * nr, nr));
      }
    }
    waiting.finish();
  }
  // Beside so many steps.
  template <RowKinds kinds>
  static IOATTN_INLINE void of_whole(const Product* const (&products)[2], const PairGradients& g,
                                     Scratch* scratch) {
    constexpr index_t pairs = nr / 2;
    const index_t steps = (products[0]->depth + products[1]->depth) / side;
    if (steps >= pairs) {
      of_whole<kinds, 1>(products, g, steps / pairs, scratch);
    } else if (2 * steps >= pairs) {
      of_whole<kinds, 2>(products, g, 1, scratch);
    } else {
      of_whole<kinds, 4>(products, g, 1, scratch);
    }
  }

  static IOATTN_INLINE void strips_of(const Product* const (&products)[2], index_t row,
                                      Scratch* scratch, Strip (*strips)[2]) {
    for (int k = 0; k < 2; ++k)
      (*strips)[k] = Base::strip_of(*products[k], row, 0, scratch->copies[k]);
  }

  // Tiles of a panel of a product.
  template <int row_tiles, class Between>
  static IOATTN_INLINE void multiply(const Product& p, const Strip& strip, index_t panel,
                                     Scratch* scratch, const Between& between) {
    Base::template begin<row_tiles>(nullptr, 0);
    Base::template add_terms<row_tiles, Base::Panels::stream>(strip, p.b.row_of(panel, 0), p.b.row,
                                                              scratch->last_b, between);
  }

  // Panels of some rows that are not whole, or of fewer rows.
  template <int row_tiles>
  static IOATTN_KERNEL void of_others(const Product* const (&products)[2], const PairGradients& g,
                                      index_t row, index_t col, Scratch* scratch) {
    Strip strips[2];
    strips_of(products, row, scratch, &strips);
    scratch->rows[0].begin(g, row, strips[0].rows);
    float* const made[] = {scratch->scores[0], scratch->q};
    const index_t cols = products[0]->cols;
    for (; col < cols; col += nr) {
      for (int k = 0; k < 2; ++k) {
        multiply<row_tiles>(*products[k], strips[k], col / nr, scratch, [](auto) {});
        Base::template end<row_tiles>(made[k], nr);
      }
      ScorePairs panel = scratch->rows[0].panel(made[0], made[1], col, cols - col);
      take_rows<Pairs, nr, RowKinds::any>(&panel, nr);
    }
  }

  static IOATTN_KERNEL void gradients(const Product& scores, const Product& q,
                                      const PairGradients& gradients) {
    [[maybe_unused]] const typename Pairs::WithoutDenormals mode{};
    Scratch scratch;
    const Product* const products[] = {&scores, &q};
    const index_t rows = scores.rows, whole = scores.cols / nr * nr;
    if (rows >= nr && whole > 0) {
      bool all_ordinary = true;
      for (index_t i = 0; i < rows; ++i)
        all_ordinary = all_ordinary && Pairs::is_ordinary(gradients.lse[i]);
      if (all_ordinary) {
        of_whole<RowKinds::ordinary>(products, gradients, &scratch);
      } else {
        of_whole<RowKinds::any>(products, gradients, &scratch);
      }
    }
    for (index_t row = 0; row < rows; row += nr) {
      const index_t left = rows - row, first = left >= nr ? whole : 0;
      if (first == scores.cols) continue;
      if (left > side) {
        of_others<2>(products, gradients, row, first, &scratch);
      } else {
        of_others<1>(products, gradients, row, first, &scratch);
      }
    }
  }
};

}  // namespace
}  // namespace ioattn::kernels
