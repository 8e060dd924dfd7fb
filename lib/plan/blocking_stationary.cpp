#include "plan/blocking_stationary.hpp"

#include <algorithm>

#include "plan/product_blocks.hpp"

namespace ioattn::plan {

Blocks unit_stationary(const Variant& variant) {
  constexpr ProductBlocks unit = {1, 1, 1};
  Blocks blocks;
  blocks.form = variant.form;
  for (const SizeField& field : size_fields()) {
    if (uses(variant, field.name)) blocks.*field.size = 1;
  }
  for (const ProductField& field : product_fields()) {
    if (uses(variant, field.name)) blocks.*field.product = unit;
  }
  return blocks;
}

Blocks choose_stationary(const Variant& variant, const LayerShape& shape, index_t M) {
  const auto [n, m, d, e, tie] = shape;
  Blocks blocks = unit_stationary(variant);
  // Columns of O and dO first, so that sums are long.
  blocks.w = std::min(e, (M - 1) / 2);
  blocks.o = std::min(n, M / (2 * blocks.w + 1));
  blocks.s = choose_product({n, d, d}, M);
  if (variant.form == Form::h) {
    blocks.h = choose_product({m, d, e}, M);
  } else {
    blocks.g = choose_product({n, e, d}, M);
  }
  if (variant.form == Form::g && tie != Tie::none) {
    blocks.f = blocks.q = choose_product({n, d, m}, M, 2, 0, 2, false);
  } else {
    blocks.f = choose_product({n, d, m}, M, 1, 0, 1, false);
    blocks.q = choose_product({n, variant.form == Form::h ? e : d, m}, M, 1, 0, 1, false);
  }
  blocks.u = choose_product({n, m, d}, M, 0, 0, 1, false);
  blocks.x = choose_product({d, n, d}, M);
  return blocks;
}

}  // namespace ioattn::plan
