#include <algorithm>

#include "theory/block_costs.hpp"

// q_stored: q passes through memory, rows of S and U stay. e is dv; block sizes are cut to the
// matrix.
namespace ioattn::theory {

ScheduleCost q_stored_backward(const LayerShape& shape, const Blocks& blocks, const Weights& w) {
  const auto [n, m, d, e, tie, mask] = shape;
  const auto [r, c, rho, w_d, w_e, o, a, b] = RowCut(shape, blocks);
  const index_t passes = ceil_div(n, r);
  ScheduleCost cost;
  add_thin_products(shape, blocks, w, &cost);
  add_q_product(shape, blocks, w, &cost);
  IoCost rows;
  rows.reads = w.sum * (2 * n + n * m) + w.operand * passes * m * d;
  rows.created = w.sum * (2 * n * d + n * m);
  rows.footprint = w.sum * (r * (2 * d + 2) + c * d + rho * (c + 1));
  if (blocks.products == Products::stored) {
    rows.reads += w.sum * n * d;
    rows.writes = w.sum * n * d;
    rows.created -= w.sum * n * d;
  } else {
    rows.reads += w.operand * 2 * n * d + (w.x * passes + w.sum * (passes - 1)) * d * d;
    rows.writes = w.sum * passes * d * d;
    rows.created += w.sum * d * d;
    rows.footprint = std::max(rows.footprint, w.sum * (2 * r * d + std::max(w_d * d, a * b)));
  }
  cost.add("q_stored", rows);
  add_dx_product(shape, blocks, w, &cost);
  return cost;
}

}  // namespace ioattn::theory
