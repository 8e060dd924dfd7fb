#include "plan/blocks/blocking_stationary.hpp"

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/product_blocks.hpp"
#include "plan/blocks/thin_products.hpp"

namespace ioattn::plan {
namespace {

// Columns of what is summed over the keys: Z or O, U.
index_t sum_width(const Variant& variant, const LayerShape& shape) {
  return variant.pass == Pass::forward && variant.form == Form::h ? shape.dv : shape.d;
}

Blocks choose_forward(const Variant& variant, const LayerShape& shape, index_t M,
                      const Price& price) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool rows_stay = variant.schedule == Schedule::score_stored;
  Blocks blocks = smallest_stationary(variant, shape);
  blocks.f = choose_product(
      {n, d, m}, M,
      {.per_row = 2, .stays = rows_stay ? Stays::rows_of_a : Stays::tile, .price = price});
  blocks.u = choose_product(
      {n, m, sum_width(variant, shape)}, M,
      {.per_row = 1, .stays = rows_stay ? Stays::rows_of_c : Stays::tile, .price = price});
  if (variant.form == Form::g) blocks.x = choose_product({n, d, e}, M, {.price = price});
  return blocks;
}

Blocks choose_backward(const Variant& variant, const LayerShape& shape, index_t M,
                       const Price& price) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool h_form = variant.form == Form::h;
  Blocks blocks = smallest_stationary(variant, shape);
  const Blocks of_delta = choose_delta_blocks(shape, M);
  blocks.w = of_delta.w;
  blocks.o = of_delta.o;
  if (!h_form) blocks.g = choose_product({n, e, d}, M, {.price = price});
  if (!h_form && tie != Tie::none) {
    blocks.f = blocks.q = choose_product(
        {n, d, m}, M, {.per_row = 2, .tiles = 2, .stays = Stays::tile, .price = price});
  } else {
    blocks.f = choose_product({n, d, m}, M, {.per_row = 1, .stays = Stays::tile, .price = price});
    blocks.q = choose_product({n, h_form ? e : d, m}, M,
                              {.per_row = 1, .stays = Stays::tile, .price = price});
  }
  blocks.u = choose_product({n, m, d}, M, {.stays = Stays::tile, .price = price});
  blocks.x = choose_product({d, n, d}, M, {.price = price});
  return blocks;
}

}  // namespace

Blocks smallest_stationary(const Variant& variant, const LayerShape& shape) {
  Blocks blocks = unit_blocks(variant);
  if (variant.schedule == Schedule::score_stored) {
    blocks.f.keep_a = true;
    blocks.u.cols = sum_width(variant, shape);
  }
  return blocks;
}

Blocks choose_stationary(const Variant& variant, const LayerShape& shape, index_t M,
                         const Price& price) {
  Blocks blocks = variant.pass == Pass::forward ? choose_forward(variant, shape, M, price)
                                                : choose_backward(variant, shape, M, price);
  blocks.s = choose_product({shape.n, shape.d, shape.d}, M, {.price = price});
  if (variant.form == Form::h)
    blocks.h = choose_product({shape.m, shape.d, shape.dv}, M, {.price = price});
  return blocks;
}

}  // namespace ioattn::plan
