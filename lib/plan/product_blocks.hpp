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

// Rows and columns of C that a kernel computes at a time: the register tile, or its transpose where
// C is stored by columns. Tiles of C that are no multiple of it waste the rest.
struct KernelStep {
  index_t rows = 1, cols = 1;
};

// The tiles that take the least estimated time with M words of fast memory, of which each row of a
// tile needs `per_row` beside the product's own (vectors over the rows), and the whole `fixed`. M
// is at least 3 + per_row + fixed.
ProductBlocks choose_product(const ProductShape& shape, index_t M, index_t per_row = 0,
                             index_t fixed = 0, const KernelStep& step = {});

}  // namespace ioattn::plan
