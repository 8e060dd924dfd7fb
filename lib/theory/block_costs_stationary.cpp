#include <algorithm>

#include "theory/block_costs.hpp"

// stationary: products through memory, each with its own blocks. e is dv; block sizes are cut to
// the matrix.
namespace ioattn::theory {
namespace {

// LSE of the rows of a tile is read and stays beside it.
IoCost with_row_vector(IoCost product, index_t rows, const ProductBlocks& blocks) {
  product.reads += rows;
  product.footprint += std::min(blocks.rows, rows);
  return product;
}

}  // namespace

IoCost delta_cost(const LayerShape& shape, const Blocks& blocks, const Weights& w) {
  const index_t n = shape.n, e = shape.dv;
  return {w.operand * 2 * n * e, w.sum * n, w.sum * n,
          w.sum * std::min(blocks.o, n) * (2 * std::min(blocks.w, e) + 1)};
}

IoCost weights_cost(const LayerShape& shape, const ProductBlocks& blocks) {
  return with_row_vector(product_cost(shape.n, shape.d, shape.m, blocks), shape.n, blocks);
}

IoCost scores_cost(const LayerShape& shape, const ProductBlocks& blocks) {
  IoCost cost = product_cost(shape.n, shape.d, shape.m, blocks);
  cost.created += 2 * shape.n;
  cost.writes += shape.n;
  cost.footprint += 2 * std::min(blocks.rows, shape.n);
  return cost;
}

IoCost weighted_sum_cost(index_t n, index_t m, index_t width, const ProductBlocks& blocks) {
  return with_row_vector(product_cost(n, m, width, blocks), n, blocks);
}

IoCost gradient_cost(index_t n, index_t k, index_t m, const ProductBlocks& blocks) {
  const index_t i = std::min(blocks.rows, n), j = std::min(blocks.cols, m);
  const index_t q = std::min(blocks.depth, k);
  IoCost cost = product_cost(n, k, m, blocks);
  cost.reads += n + n * m;  // delta, f
  const index_t kept = i * j + i + (blocks.keep_a ? i * k : 0);
  cost.footprint = kept + std::max(q * j + (blocks.keep_a ? 0 : i * q), i * std::min(q, j));
  return cost;
}

IoCost twin_cost(index_t n, index_t k, index_t m, const ProductBlocks& blocks) {
  const index_t i = std::min(blocks.rows, n), j = std::min(blocks.cols, m);
  const index_t q = std::min(blocks.depth, k);
  IoCost cost;
  cost.reads = 2 * n * k * (blocks.keep_a ? 1 : ceil_div(m, blocks.cols)) +
               k * m * ceil_div(n, blocks.rows) + 2 * n;  // S and G, A2, LSE and delta
  cost.writes = n * m;
  cost.created = 2 * n * m;
  cost.footprint = 2 * i * j + q * j + i * (blocks.keep_a ? 2 * k : q) + 2 * i;
  return cost;
}

ScheduleCost stationary_forward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool h_form = blocks.form == Form::h;
  ScheduleCost cost;
  cost.add("S", product_cost(n, d, d, blocks.s));
  if (h_form) cost.add("h", product_cost(m, d, e, blocks.h));
  cost.add("scores", scores_cost(shape, blocks.f));
  cost.add(h_form ? "O" : "Z", weighted_sum_cost(n, m, h_form ? e : d, blocks.u));
  if (!h_form) cost.add("O", product_cost(n, d, e, blocks.x));
  return cost;
}

ScheduleCost stationary_backward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool h_form = blocks.form == Form::h;
  ScheduleCost cost;
  cost.add("delta", delta_cost(shape, blocks));
  cost.add("S", product_cost(n, d, d, blocks.s));
  if (h_form) {
    cost.add("h", product_cost(m, d, e, blocks.h));
  } else {
    cost.add("G", product_cost(n, e, d, blocks.g));
  }
  if (!h_form && tie != Tie::none) {
    cost.add("p", twin_cost(n, d, m, blocks.f));
  } else {
    cost.add("f", weights_cost(shape, blocks.f));
    cost.add("p", gradient_cost(n, h_form ? e : d, m, blocks.q));
  }
  cost.add("U", product_cost(n, m, d, blocks.u));
  cost.add("dX", product_cost(d, n, d, blocks.x));
  return cost;
}

}  // namespace ioattn::theory
