#include "plan/blocks/thin_products.hpp"

#include <algorithm>

#include "plan/blocks/product_blocks.hpp"

namespace ioattn::plan {

Blocks choose_delta_blocks(const LayerShape& shape, index_t M) {
  Blocks blocks;
  blocks.w = std::clamp<index_t>((M - 1) / 2, 1, shape.dv);
  blocks.o = std::clamp<index_t>(M / (2 * blocks.w + 1), 1, shape.n);
  return blocks;
}

void choose_thin_products(const LayerShape& shape, const ThinNeeds& needs, index_t M,
                          const Price& price, const TileShape& tile, Blocks* blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  // All their results are row-major: SIMD lanes are columns.
  const auto product = [&](const ProductShape& size) {
    return choose_product(size, M, {.step = {tile.rows, tile.cols}, .price = price});
  };
  blocks->s = product({n, d, d});
  if (blocks->form == Form::h && needs.values) blocks->h = product({m, d, e});
  if (blocks->form == Form::g) blocks->g = product({n, e, d});
  if (needs.dx) blocks->x = product({d, n, d});
  const Blocks of_delta = choose_delta_blocks(shape, M);
  blocks->w = of_delta.w;
  blocks->o = of_delta.o;
}

}  // namespace ioattn::plan
