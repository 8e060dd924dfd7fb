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
  cost.writes = w.written * result;
  cost.created = accumulate ? 0 : w.c * result;
  cost.footprint = w.c * i * j + w.factors * (q * j + i * (blocks.keep_a ? k : q));
  return cost;
}

void add_s_product(const LayerShape& shape, const Blocks& blocks, const Weights& w,
                   ScheduleCost* cost) {
  cost->add("S", product_cost(shape.n, shape.d, shape.d, blocks.s, false,
                              {w.operand, w.x, w.sum, w.sum, w.factor}));
}

void add_h_product(const LayerShape& shape, const Blocks& blocks, const Weights& w,
                   ScheduleCost* cost) {
  cost->add("h", product_cost(shape.m, shape.d, shape.dv, blocks.h, false,
                              {w.operand, w.operand, w.sum, w.factor, w.factor}));
}

void add_thin_products(const LayerShape& shape, const Blocks& blocks, const Weights& w,
                       ScheduleCost* cost) {
  cost->add("delta", delta_cost(shape, blocks, w));
  if (blocks.products == Products::stored) add_s_product(shape, blocks, w, cost);
  if (blocks.form == Form::h) {
    add_h_product(shape, blocks, w, cost);
  } else {
    cost->add("G", product_cost(shape.n, shape.dv, shape.d, blocks.g, false,
                                {w.operand, w.operand, w.sum}));
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
