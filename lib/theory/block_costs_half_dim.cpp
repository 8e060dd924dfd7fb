#include "theory/block_costs.hpp"

// half_dim: q_stored with the inner dimension in two halves. e is dv; block sizes are cut to the
// matrix.
namespace ioattn::theory {

ScheduleCost half_dim_backward(const LayerShape& shape, const Blocks& blocks, const Weights& w) {
  const auto [n, m, d, e, tie, mask] = shape;
  const RowCut cut(shape, blocks);
  const index_t first = d / 2, second = d - first;
  const bool halved = first > 0;
  ScheduleCost cost;
  add_thin_products(shape, blocks, w, &cost);
  add_q_product(shape, blocks, w, &cost);
  if (halved)
    cost.add("scores", product_cost(n, first, m, blocks.f, false, {w.sum, w.operand, w.sum}));
  cost.add(
      "half_dim",
      {w.sum * (n * second + 2 * n + (halved ? 2 : 1) * n * m) +
           w.operand * ceil_div(n, cut.r) * m * second,
       w.sum * (n * second + (halved ? n * m : 0)), w.sum * (n * second + (halved ? 0 : n * m)),
       w.sum * (cut.r * (2 * second + 2) + cut.c * second + cut.rho * (cut.c + 1))});
  if (halved) cost.add("U", product_cost(n, m, first, blocks.u, false, {w.sum, w.operand, w.sum}));
  add_dx_product(shape, blocks, w, &cost);
  return cost;
}

}  // namespace ioattn::theory
