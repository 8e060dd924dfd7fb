#pragma once

#include "kernels/generic/tile_halves.hpp"

// Softmax weights straight from the tiles that make the scores. See scalar_vector.hpp about the
// anonymous namespace.
namespace ioattn::kernels {
namespace {

// Scores of 32 queries and 32 keys at a time become weights in L1, between the products that make
// the next ones: that is possible as long as no row's maximum, which all of its weights refer to,
// has to grow. `Pairs` makes weights of a row: X86Bf16Pairs or EmulatedPairs.
template <class Tiles, class V, class Terms, class Pairs>
struct TileWeights : TileHalves<Tiles, V, Terms> {
  static constexpr PairKernels table(PairKernels pairs) {
    pairs = TileProduct<Tiles, V, Terms>::table(pairs);
    pairs.weights = weights;
    return pairs;
  }

 protected:
  using Base = TileHalves<Tiles, V, Terms>;
  using Base::nr;
  using Base::side;
  using typename Base::Panels;
  using typename Base::Product;
  using typename Base::Strip;
  using typename Base::Word;

 private:
  // Sums of a panel that waits and of the next one are in `sums` and `edge`.
  struct alignas(64) Scratch : Base::Scratch {
    float binary_max[nr];
    float parts[nr * Pairs::part_lanes];  // of sums of weights

    float* sums_of(index_t panel) { return panel % 2 == 0 ? this->sums : this->edge; }
  };

  // Scores of a panel of keys that wait to become weights: at_once rows beside each product.
  template <bool whole, int at_once>
  struct Pending {
    typename Pairs::WeightConstants constants;
    index_t stride;
    index_t columns = nr, rows = 0;  // that are left
    const float *sums = nullptr, *binary_max = nullptr;
    float* part = nullptr;
    bf16x2* to = nullptr;

    IOATTN_INLINE void begin(const float* scores, index_t count, Scratch* of, bf16x2* weights) {
      sums = scores;
      binary_max = of->binary_max;
      part = of->parts;
      rows = count;
      to = weights;
    }
    IOATTN_INLINE void go_on() {
      if (rows < at_once) return;
#pragma GCC unroll 4
      for (int i = 0; i < at_once; ++i) weigh();
    }
    IOATTN_INLINE void finish(index_t some) {
      for (index_t left = rows < some ? rows : some; left > 0; --left) weigh();
    }
    IOATTN_INLINE void finish() { finish(rows); }

   private:
    IOATTN_INLINE void weigh() {
      Pairs::template weigh<whole>(sums, columns, constants, *binary_max, part, to);
      sums += nr;
      ++binary_max;
      part += Pairs::part_lanes;
      to += stride;
      --rows;
    }
  };

  // As TileGradients::Beside.
  template <int row_tiles, int half, class Waiting>
  struct Beside {
    Waiting* waiting;
    float* last;
    index_t rows;  // of the panel that there is then
    Scratch* scratch;
    bf16x2* to;
    template <class Product>
    IOATTN_INLINE void operator()(Product) const {
      waiting->go_on();
    }
    IOATTN_INLINE void end_last() const {
      Base::template store_half<row_tiles, 1 - half>(last);
      if (half == 1 || to == nullptr) return;
      waiting->finish();
      waiting->begin(last, rows, scratch, to);
    }
  };

  // While the tiles make one panel of scores, the one before becomes weights.
  template <int row_tiles, Panels panels, int at_once>
  static IOATTN_KERNEL void weigh_by_halves(const Product& p, const PairWeights& weights,
                                            Scratch* scratch) {
    using Waiting = Pending<true, at_once>;
    const Strip strip = Base::strip_of(p, 0, 0, scratch->a);
    Waiting waiting = {typename Pairs::WeightConstants(weights.scale), weights.dst_stride};
    waiting.constants.hold();
    float* last = scratch->sums_of(1);  // of none yet
    bf16x2* to = nullptr;
    index_t panel = 0;
    for (; panel * nr < p.cols; ++panel) {
      const Word* const b = p.b.row_of(panel, 0);
      Base::template multiply_half<row_tiles, 0, panels>(
          strip, b, p.b.row, scratch->b,
          Beside<row_tiles, 0, Waiting>{&waiting, last, strip.rows, scratch, to});
      last = scratch->sums_of(panel);
      to = weights.dst + panel * nr / 2;
      Base::template multiply_half<row_tiles, 1, panels>(
          strip, b, p.b.row, scratch->b,
          Beside<row_tiles, 1, Waiting>{&waiting, last, strip.rows, scratch, to});
    }
    Base::template store_half<row_tiles, 1>(last);
    waiting.finish();
    end(p, weights, strip.rows, scratch, last, to);
  }

  // The same by whole panels: where these are many products halves take longer, which load rows
  // twice.
  template <int row_tiles, Panels panels>
  static IOATTN_KERNEL void weigh_by_panels(const Product& p, const PairWeights& weights,
                                            Scratch* scratch) {
    Strip strip = Base::strip_of(p, 0, 0, scratch->a);
    const index_t rows = strip.rows;
    Pending<true, 1> waiting = {typename Pairs::WeightConstants(weights.scale), weights.dst_stride};
    waiting.constants.hold();
    float* last = nullptr;
    bf16x2* to = nullptr;
    for (index_t col = 0; col < p.cols; col += nr) {
      if (col > 0 && p.depth > Base::most_terms) strip = Base::strip_of(p, 0, 0, scratch->a);
      if (col > 0) waiting.begin(last, rows, scratch, to);
      Base::template begin<row_tiles>(nullptr, 0);
      Base::template add_all_terms<row_tiles, panels>(p, 0, p.b.row_of(col / nr, 0), &strip,
                                                      scratch, &waiting);
      waiting.finish();
      last = scratch->sums_of(col / nr);
      to = weights.dst + col / 2;
      Base::template end<row_tiles>(last, nr);
    }
    end(p, weights, rows, scratch, last, to);
  }

  // The last panel's scores become weights.
  static IOATTN_KERNEL void end(const Product& p, const PairWeights& weights, index_t rows,
                                Scratch* scratch, const float* scores, bf16x2* to) {
    const typename Pairs::WeightConstants constants(weights.scale);
    const index_t columns = p.cols - (p.cols - 1) / nr * nr;
    if (columns == nr) {
      Pending<true, 1> whole = {constants, weights.dst_stride};
      whole.begin(scores, rows, scratch, to);
      whole.finish();
    } else {
      Pending<false, 1> part = {constants, weights.dst_stride, columns};
      part.begin(scores, rows, scratch, to);
      part.finish();
    }
  }

  template <int row_tiles, Panels panels>
  static IOATTN_INLINE void weigh_strip(const Product& p, const PairWeights& weights,
                                        Scratch* scratch) {
    constexpr index_t most_by_halves = 128;
    const index_t products = p.depth / side * 2 * row_tiles;
    if (p.depth > most_by_halves) {
      weigh_by_panels<row_tiles, panels>(p, weights, scratch);
    } else if (row_tiles == 1 || p.rows < nr || products >= nr) {
      weigh_by_halves<row_tiles, panels, 1>(p, weights, scratch);
    } else {
      weigh_by_halves<row_tiles, panels, 2>(p, weights, scratch);
    }
  }
  template <Panels panels>
  static IOATTN_INLINE void weigh(const Product& p, const PairWeights& weights, Scratch* scratch) {
    if (p.rows > side) {
      weigh_strip<2, panels>(p, weights, scratch);
    } else {
      weigh_strip<1, panels>(p, weights, scratch);
    }
  }

  static IOATTN_KERNEL bool weights(const Product& product, const PairWeights& weights) {
    [[maybe_unused]] const typename Pairs::WithoutDenormals mode{};
    const Product p = product;
    if (p.rows > nr) return false;
    for (index_t i = 0; i < p.rows; ++i)
      if (!Pairs::is_ordinary(weights.row_max[i])) return false;
    Scratch scratch;
    for (index_t i = 0; i < p.rows; ++i) scratch.binary_max[i] = Pairs::binary(weights.row_max[i]);
    for (float& part : scratch.parts) part = 0;
    if (p.cols > 0) {
      if (Base::panels_stream(p)) {
        weigh<Panels::stream>(p, weights, &scratch);
      } else {
        weigh<Panels::stay>(p, weights, &scratch);
      }
    }
    return Pairs::add_parts(scratch.parts, p.rows, weights.row_sum);
  }
};

}  // namespace
}  // namespace ioattn::kernels
