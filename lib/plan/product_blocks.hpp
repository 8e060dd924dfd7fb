#pragma once

#include "base/schedule.hpp"
#include "plan/blocking.hpp"

namespace ioattn::plan {

// C[n1 x n2] = A[n1 x k] B[k x n2]
struct ProductShape {
  index_t n1, k, n2;
};

// Speed of a kernel whose sums have `depth` terms, 1 at best: longer ones amortise loading and
// storing the tile of C.
constexpr double efficiency(index_t depth) {
  return static_cast<double>(depth) / (static_cast<double>(depth) + 12);
}

// What of a product may stay in fast memory while the rest streams past: a tile of C, or also whole
// rows of A; whole rows of A only; whole rows of C only.
enum class Stays : std::uint8_t { any, tile, rows_of_a, rows_of_c };

// The tiles that take the least estimated time with M words of fast memory, of which each row of a
// tile needs `per_row` beside the product's own (vectors over the rows), and the whole `fixed`.
// `tiles` products of the same sizes may share the stream of B: so many tiles of C stay. M is at
// least the footprint with one row, and one column unless rows of C stay, and sums of one term.
ProductBlocks choose_product(const ProductShape& shape, index_t M, index_t per_row = 0,
                             index_t fixed = 0, index_t tiles = 1, Stays stays = Stays::any);

}  // namespace ioattn::plan
