#include "plan/product_blocks.hpp"

#include <algorithm>
#include <limits>

namespace ioattn::plan {

ProductBlocks choose_product(const ProductShape& shape, index_t M, index_t per_row, index_t fixed,
                             const KernelStep& step) {
  const index_t n1 = shape.n1, k = shape.k, n2 = shape.n2, room = M - fixed;
  const double fma = static_cast<double>(n1) * static_cast<double>(k) * static_cast<double>(n2);
  ProductBlocks best = {1, 1, 1};
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](const ProductBlocks& blocks, index_t reads) {
    const index_t computed = round_up(blocks.rows, step.rows) * round_up(blocks.cols, step.cols);
    const double waste =
        static_cast<double>(computed) / static_cast<double>(blocks.rows * blocks.cols);
    const double time = fma_per_word * static_cast<double>(reads) +
                        waste * fma / efficiency(std::min(blocks.depth, k));
    if (time < least) {
      least = time;
      best = blocks;
    }
  };
  for (index_t depth = 256; depth >= 1; depth /= 2) {
    for (index_t parts = 1; parts <= n2; parts = parts < 64 ? parts + 1 : parts * 2) {
      const index_t cols = ceil_div(n2, parts);
      const index_t left = room - std::min(depth, k) * cols;
      const index_t rows = std::min(n1, left / (cols + std::min(depth, k) + per_row));
      if (rows >= 1) {
        consider({rows, cols, depth}, k * (n1 * ceil_div(n2, cols) + n2 * ceil_div(n1, rows)));
      }
      const index_t kept = std::min(n1, left / (k + cols + per_row));
      if (kept >= 1) consider({kept, cols, depth, true}, k * (n1 + n2 * ceil_div(n1, kept)));
    }
  }
  // As few rows as divide the matrix into so many parts: threads and tails share evenly.
  best.rows = ceil_div(n1, ceil_div(n1, best.rows));
  return best;
}

}  // namespace ioattn::plan
