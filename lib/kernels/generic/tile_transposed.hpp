#pragma once

#include "kernels/generic/tile_product.hpp"

// Products by tiles whose C is transposed. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// C^T = B^T A^T: columns of A, which are adjacent, are B's layout in a tile as they stand, and rows
// of B^T are A's. `Pairs` makes these: X86Bf16Pairs or EmulatedPairs.
template <class Tiles, class V, class Terms, class Pairs>
struct TransposedTileProduct : TileProduct<Tiles, V, Terms> {
  static constexpr PairKernels table(PairKernels pairs) {
    pairs.product = product;
    pairs.transpose = Pairs::transpose_pairs;
    return pairs;
  }

 private:
  using Base = TileProduct<Tiles, V, Terms>;
  using Base::most_terms;
  using Base::nr;
  using Base::side;
  using typename Base::Fetcher;
  using typename Base::Panels;
  using typename Base::Product;
  using typename Base::Strip;
  using typename Base::Word;

  struct alignas(64) Scratch {
    Word of_b[most_terms * nr];  // rows that do not fill tiles
    Word of_a[most_terms * nr];  // columns, the same
    Word last[side * nr];
    float edge[nr * nr];
  };

  // At most nr columns of B and of A each.
  template <Panels panels>
  struct Part {
    const Product& p;
    index_t col, row, q;
    Scratch* scratch;
    Fetcher* fetcher;

    template <int col_tiles>
    IOATTN_INLINE void multiply(const Strip& strip) const {
      const index_t rows = Base::at_most(nr, p.rows - row);
      float* const whole = p.c.data + col * p.c.row + row;
      if (rows == nr) {
        add<col_tiles>(strip, p.a.at(row, q), p.a.depth, whole, p.c.row);
        return;
      }
      for (index_t k = 0; k < strip.depth; ++k) {
        Word* const copy = scratch->of_a + k * nr;
        std::memset(copy, 0, nr * sizeof(Word));
        std::memcpy(copy, p.a.at(row, q + k), static_cast<std::size_t>(rows) * sizeof(Word));
      }
      const std::size_t bytes = static_cast<std::size_t>(rows) * sizeof(float);
      float* const edge = scratch->edge;
      for (index_t j = 0; j < strip.rows && accumulates(); ++j)
        std::memcpy(edge + j * nr, whole + j * p.c.row, bytes);
      add<col_tiles>(strip, scratch->of_a, nr, edge, nr);
      for (index_t j = 0; j < strip.rows; ++j)
        std::memcpy(whole + j * p.c.row, edge + j * nr, bytes);
    }

   private:
    IOATTN_INLINE bool accumulates() const { return p.accumulate || q > 0; }

    template <int col_tiles>
    IOATTN_INLINE void add(const Strip& strip, const Word* a, index_t a_row, float* c,
                           index_t c_row) const {
      Base::template begin<col_tiles>(accumulates() ? c : nullptr, c_row);
      fetcher->begin_block();
      Base::template add_terms_beside<col_tiles, panels>(strip, a, a_row, scratch->last, fetcher);
      Base::template end<col_tiles>(c, c_row);
    }
  };

  template <Panels panels>
  static IOATTN_INLINE void all_panels(const Product& product) {
    const Product p = product;
    Scratch scratch;
    const index_t chunks = p.depth > 0 ? (p.depth + most_terms - 1) / most_terms : 1;
    Fetcher fetcher(p.ahead, chunks * ((p.rows + nr - 1) / nr) * ((p.cols + nr - 1) / nr));
    Product turned;
    turned.rows = p.cols;
    turned.depth = p.depth;
    turned.a = {p.b.data, p.b.row, 1};
    for (index_t col = 0; col < p.cols; col += nr) {
      for (index_t chunk = 0; chunk < chunks; ++chunk) {
        const index_t q = chunk * most_terms;
        const Strip strip = Base::strip_of(turned, col, q, scratch.of_b);
        for (index_t row = 0; row < p.rows; row += nr) {
          const Part<panels> part = {p, col, row, q, &scratch, &fetcher};
          if (strip.rows > side) {
            part.template multiply<2>(strip);
          } else {
            part.template multiply<1>(strip);
          }
        }
      }
    }
  }

  static IOATTN_KERNEL void product(const Product& product) {
    if (!product.transposed) {
      Base::all_strips(product);
    } else if (product.rows * product.depth > Base::most_that_stay) {
      all_panels<Panels::stream>(product);
    } else {
      all_panels<Panels::stay>(product);
    }
  }
};

}  // namespace
}  // namespace ioattn::kernels
