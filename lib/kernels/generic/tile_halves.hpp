#pragma once

#include "kernels/generic/tile_product.hpp"

// Panels of sums that vectors go on with, in halves. See scalar_vector.hpp about the anonymous
// namespace.
namespace ioattn::kernels {
namespace {

// To store a tile takes dozens of operations, which leave a CPU no room to look ahead while they
// wait for its sums. So two tiles at a time, 32 rows by half a panel, are stored one step after the
// products of the next two have begun.
template <class Tiles, class V, class Terms>
struct TileHalves : TileProduct<Tiles, V, Terms> {
 protected:
  using Base = TileProduct<Tiles, V, Terms>;
  using Base::nr;
  using Base::side;
  using typename Base::Panels;
  using typename Base::Strip;
  using typename Base::Word;
  template <int k>
  using Index = typename Base::template Index<k>;

  // Sums [rows][nr], their left or right half.
  template <int row_tiles, int half>
  static IOATTN_INLINE void store_half(float* sums) {
    Tiles::template store<2 * half>(sums + half * side, nr);
    if constexpr (row_tiles == 2)
      Tiles::template store<2 * half + 1>(sums + side * nr + half * side, nr);
  }

  // Of a strip of at most most_terms and a panel of B. `work` is called after every product of a
  // step, and its end_last() after the first step.
  template <int row_tiles, int half, Panels panels, class Work>
  static IOATTN_INLINE void multiply_half(const Strip& a, const Word* panel, index_t b_row,
                                          Word* last_b, const Work& work) {
    Tiles::template zero<2 * half>();
    if constexpr (row_tiles == 2) Tiles::template zero<2 * half + 1>();
    const index_t whole = a.depth / side, left = a.depth % side, a_step = a.step, a_row = a.row;
    const Word* at_a = a.whole;
    const Word* at_b = panel + half * side;
    for (index_t s = 0; s < whole; ++s, at_a += a_step, at_b += side * b_row) {
      step<row_tiles, half, panels>(at_a, a_row, at_b, b_row, work);
      if (s == 0) work.end_last();
    }
    if (left > 0) {
      std::memset(last_b, 0, side * side * sizeof(Word));
      for (index_t q = 0; q < left; ++q)
        std::memcpy(last_b + q * side, at_b + q * b_row, side * sizeof(Word));
      step<row_tiles, half, Panels::stay>(a.last, side, last_b, side, [](auto) {});
    }
    if (whole == 0) work.end_last();
  }

 private:
  template <int row_tiles, int half, Panels panels, class Work>
  static IOATTN_INLINE void step(const Word* a, index_t a_row, const Word* b, index_t b_row,
                                 const Work& work) {
    Tiles::template load<4>(a, a_row);
    if constexpr (panels == Panels::stream) {
      Tiles::template load_streaming<6 + half>(b, b_row);
    } else {
      Tiles::template load<6 + half>(b, b_row);
    }
    if constexpr (row_tiles == 2) Tiles::template load<5>(a + side * a_row, a_row);
    Tiles::template multiply_add<2 * half, 4, 6 + half>();
    work(Index<0>{});
    if constexpr (row_tiles == 2) {
      Tiles::template multiply_add<2 * half + 1, 5, 6 + half>();
      work(Index<1>{});
    }
  }
};

}  // namespace
}  // namespace ioattn::kernels
