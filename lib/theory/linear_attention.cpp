#include "theory/linear_attention.hpp"

#include "theory/block_costs.hpp"
#include "theory/word_level_products.hpp"

namespace ioattn::theory {
namespace {

struct NamedProduct {
  const char* name;
  index_t rows, inner, cols;
};

std::array<NamedProduct, linear_products> products_of(Pass pass, const LayerShape& shape) {
  const auto [n, m, d, e, tie, mask] = shape;
  if (pass == Pass::forward) {
    return {{{"A2^T A3", d, m, d}, {"X K", d, d, d}, {"X K Y", d, d, e}, {"O", n, d, e}}};
  }
  return {{{"A1^T dO", d, n, e}, {"A1^T G", d, e, d}, {"A3^T A2", d, m, d}, {"dX", d, d, d}}};
}

// One tile of the result stays while a column and a row pass by; or rows of A and a column of the
// result stay while B passes by.
std::optional<ProductBlocks> best_tile(const NamedProduct& product, index_t M) {
  std::optional<ProductBlocks> best;
  index_t least = 0;
  const auto visit = [&](index_t cols) {
    const index_t most = (M - cols) / (cols + 1);
    if (most < 1) return;
    // As few rows as need no further row of tiles.
    const index_t rows = ceil_div(product.rows, ceil_div(product.rows, most));
    const index_t words = product_reads(product.rows, product.inner, product.cols, rows, cols);
    if (best && words >= least) return;
    least = words;
    best = {rows, cols, 1, false};
  };
  word_level::for_each_tile_width(product.cols, visit);
  if (!best) visit(1);
  const index_t kept = std::min(product.rows, (M - 1) / (product.inner + 1));
  if (best && kept >= 1) {
    const index_t rows = ceil_div(product.rows, ceil_div(product.rows, kept));
    const ProductBlocks blocks = {rows, 1, 1, true};
    if (product_cost(product.rows, product.inner, product.cols, blocks).reads < least)
      best = blocks;
  }
  return best;
}

}  // namespace

std::optional<LinearBlocks> linear_blocks(Pass pass, const LayerShape& shape, index_t M) {
  LinearBlocks blocks;
  const auto products = products_of(pass, shape);
  for (std::size_t i = 0; i < products.size(); ++i) {
    const std::optional<ProductBlocks> tile = best_tile(products[i], M);
    if (!tile) return std::nullopt;
    blocks[i] = *tile;
  }
  return blocks;
}

ScheduleCost linear_cost(Pass pass, const LayerShape& shape, const LinearBlocks& blocks) {
  ScheduleCost cost;
  const auto products = products_of(pass, shape);
  for (std::size_t i = 0; i < products.size(); ++i) {
    const NamedProduct& p = products[i];
    cost.add(p.name, product_cost(p.rows, p.inner, p.cols, blocks[i]));
  }
  return cost;
}

}  // namespace ioattn::theory
