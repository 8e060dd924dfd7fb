#include <algorithm>

#include "theory/block_costs.hpp"

namespace ioattn::theory {

IoCost product_cost(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks, bool accumulate,
                    const ProductWeights& w) {
  const index_t i = std::min(blocks.rows, n1), j = std::min(blocks.cols, n2);
  const index_t q = std::min(blocks.depth, k);
  const index_t result = n1 * n2;
  IoCost cost;
  const index_t reads_of_a = blocks.keep_a ? 1 : ceil_div(n2, blocks.cols);
  cost.reads = k * (w.a * n1 * reads_of_a + w.b * n2 * ceil_div(n1, blocks.rows)) +
               (accumulate ? w.c * result : 0);
  cost.writes = w.c * result;
  cost.created = accumulate ? 0 : w.c * result;
  cost.footprint = w.c * (i * j + q * j + i * (blocks.keep_a ? k : q));
  return cost;
}

void add_thin_products(const LayerShape& shape, const Blocks& blocks, const Weights& w,
                       ScheduleCost* cost) {
  const auto [n, m, d, e, tie, mask] = shape;
  const ProductWeights of_operands = {w.operand, w.operand, w.sum};
  cost->add("delta", delta_cost(shape, blocks, w));
  if (blocks.products == Products::stored) {
    cost->add("S", product_cost(n, d, d, blocks.s, false, {w.operand, w.x, w.sum}));
  }
  if (blocks.form == Form::h) {
    cost->add("h", product_cost(m, d, e, blocks.h, false, of_operands));
  } else {
    cost->add("G", product_cost(n, e, d, blocks.g, false, of_operands));
  }
}

// Of dO and h, or of G and A3.
void add_q_product(const LayerShape& shape, const Blocks& blocks, const Weights& w,
                   ScheduleCost* cost) {
  const bool h_form = blocks.form == Form::h;
  const ProductWeights weights = {h_form ? w.operand : w.sum, h_form ? w.sum : w.operand, w.sum};
  cost->add("q",
            product_cost(shape.n, h_form ? shape.dv : shape.d, shape.m, blocks.q, false, weights));
}

void add_dx_product(const LayerShape& shape, const Blocks& blocks, const Weights& w,
                    ScheduleCost* cost) {
  if (blocks.products != Products::stored) return;
  cost->add("dX", product_cost(shape.d, seeing_queries(shape).size(), shape.d, blocks.x, false,
                               {w.operand, w.sum, w.sum}));
}

}  // namespace ioattn::theory
