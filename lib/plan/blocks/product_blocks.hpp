#pragma once

#include "base/schedule.hpp"
#include "plan/blocks/blocking.hpp"

namespace ioattn::plan {

// C[n1 x n2] = A[n1 x k] B[k x n2]
struct ProductShape {
  index_t n1, k, n2;
};

// Speed of a kernel whose sums have `depth` terms, 1 at best: longer ones amortise loading and
// storing the tile of C, which take as long as `overhead` terms.
constexpr double efficiency(index_t depth, double overhead = 12) {
  return static_cast<double>(depth) / (static_cast<double>(depth) + overhead);
}

// What of a product may stay in fast memory while the rest streams past: a tile of C, or also whole
// rows of A; whole rows of A only; whole rows of C only.
enum class Stays : std::uint8_t { any, tile, rows_of_a, rows_of_c };

// Rows and columns of C that a kernel computes at a time: the register tile, or its transpose where
// C is stored by columns. Tiles of C that are no multiple of it waste the rest.
struct KernelStep {
  index_t rows = 1, cols = 1;
};

// Besides the product itself.
struct ProductNeeds {
  index_t per_row = 0;  // words of vectors over the rows, for each row of a tile
  index_t tiles = 1;  // products of the same sizes that share the stream of B: tiles of C that stay
  Stays stays = Stays::any;
  KernelStep step = {};
  Price price = {};
};

// The tiles that take the least estimated time with M words of fast memory. M is at least the
// footprint with one row, and one column unless rows of C stay, and sums of one term.
ProductBlocks choose_product(const ProductShape& shape, index_t M, const ProductNeeds& needs = {});

}  // namespace ioattn::plan
