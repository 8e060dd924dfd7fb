#include <algorithm>

#include "theory/block_costs.hpp"

namespace ioattn::theory {

IoCost product_cost(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks,
                    bool accumulate) {
  const index_t i = std::min(blocks.rows, n1), j = std::min(blocks.cols, n2);
  const index_t q = std::min(blocks.depth, k);
  const index_t result = n1 * n2;
  IoCost cost;
  cost.reads = (blocks.keep_a ? n1 * k + k * n2 * ceil_div(n1, blocks.rows)
                              : product_reads(n1, k, n2, blocks.rows, blocks.cols)) +
               (accumulate ? result : 0);
  cost.writes = result;
  cost.created = accumulate ? 0 : result;
  cost.footprint = i * j + q * j + i * (blocks.keep_a ? k : q);
  return cost;
}

void add_thin_products(const LayerShape& shape, const Blocks& blocks, ScheduleCost* cost) {
  const auto [n, m, d, e, tie, mask] = shape;
  cost->add("delta", delta_cost(shape, blocks));
  if (blocks.products == Products::stored) cost->add("S", product_cost(n, d, d, blocks.s));
  if (blocks.form == Form::h) {
    cost->add("h", product_cost(m, d, e, blocks.h));
  } else {
    cost->add("G", product_cost(n, e, d, blocks.g));
  }
}

void add_q_product(const LayerShape& shape, const Blocks& blocks, ScheduleCost* cost) {
  const index_t terms = blocks.form == Form::h ? shape.dv : shape.d;
  cost->add("q", product_cost(shape.n, terms, shape.m, blocks.q));
}

void add_dx_product(const LayerShape& shape, const Blocks& blocks, ScheduleCost* cost) {
  if (blocks.products != Products::stored) return;
  cost->add("dX", product_cost(shape.d, seeing_queries(shape).size(), shape.d, blocks.x));
}

}  // namespace ioattn::theory
