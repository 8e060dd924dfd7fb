#include "plan/blocks/product_blocks.hpp"

#include <algorithm>
#include <limits>

namespace ioattn::plan {

ProductBlocks choose_product(const ProductShape& shape, index_t M, const ProductNeeds& needs) {
  const index_t n1 = shape.n1, k = shape.k, n2 = shape.n2;
  const index_t per_row = needs.per_row, tiles = needs.tiles;
  const Stays stays = needs.stays;
  const KernelStep step = needs.step;
  const double fma =
      static_cast<double>(tiles * n1) * static_cast<double>(k) * static_cast<double>(n2);
  ProductBlocks best = {1, stays == Stays::rows_of_c ? n2 : 1, 1, stays == Stays::rows_of_a};
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](const ProductBlocks& blocks) {
    const index_t of_a = tiles * n1 * (blocks.keep_a ? 1 : ceil_div(n2, blocks.cols));
    const index_t reads = k * (of_a + n2 * ceil_div(n1, blocks.rows));
    const index_t computed = round_up(blocks.rows, step.rows) * round_up(blocks.cols, step.cols);
    const double waste =
        static_cast<double>(computed) / static_cast<double>(blocks.rows * blocks.cols);
    const double time = needs.price.per_word * static_cast<double>(reads) +
                        waste * fma / efficiency(std::min(blocks.depth, k));
    if (time < least) {
      least = time;
      best = blocks;
    }
  };
  constexpr index_t longest_depth = 256;
  // Where words decide, sums of a few terms would save the last of them and crawl.
  const index_t shortest_depth = needs.price.of_words() ? 8 : 1;
  if (needs.price.of_words()) {
    ProductNeeds of_time = needs;
    of_time.price = Price();
    consider(choose_product(shape, M, of_time));
  }
  for (index_t depth = longest_depth; depth >= 1; depth /= 2) {
    if (depth < shortest_depth && least < std::numeric_limits<double>::infinity()) break;
    if (depth < longest_depth && depth >= k) continue;  // cut to k, as the one before
    index_t cols = 0;
    for (index_t parts = 1; parts <= n2; parts = parts < 64 ? parts + 1 : parts * 2) {
      if (cols == ceil_div(n2, parts)) continue;
      cols = ceil_div(n2, parts);
      const index_t left = M - std::min(depth, k) * cols;
      const index_t rows = std::min(n1, left / (tiles * cols + std::min(depth, k) + per_row));
      if (rows >= 1 && stays != Stays::rows_of_a) {
        consider({rows, cols, depth});
      }
      if (stays == Stays::rows_of_c) break;  // all columns, the first of the partitions
      if (stays == Stays::tile) continue;
      const index_t kept = std::min(n1, left / (tiles * (k + cols) + per_row));
      if (kept >= 1) {
        consider({kept, cols, depth, true});
      }
    }
  }
  // As few rows as divide the matrix into so many parts: threads and tails share evenly.
  best.rows = ceil_div(n1, ceil_div(n1, best.rows));
  return best;
}

}  // namespace ioattn::plan
