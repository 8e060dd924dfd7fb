#include <algorithm>

#include "theory/block_costs.hpp"

// q_stored: q passes through memory, rows of S and U stay. e is dv; block sizes are cut to the
// matrix.
namespace ioattn::theory {

ScheduleCost q_stored_backward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const auto [r, c, rho, w, w_e, o, a, b] = RowCut(shape, blocks);
  const index_t passes = ceil_div(n, r);
  ScheduleCost cost;
  add_thin_products(shape, blocks, &cost);
  add_q_product(shape, blocks, &cost);
  IoCost rows;
  rows.reads = 2 * n + n * m + passes * m * d;
  rows.created = 2 * n * d + n * m;
  rows.footprint = r * (2 * d + 2) + c * d + rho * (c + 1);
  if (blocks.products == Products::stored) {
    rows.reads += n * d;
    rows.writes = n * d;
    rows.created -= n * d;
  } else {
    rows.reads += 2 * n * d + (2 * passes - 1) * d * d;
    rows.writes = passes * d * d;
    rows.created += d * d;
    rows.footprint = std::max({rows.footprint, 2 * r * d + w * d, 2 * r * d + a * b});
  }
  cost.add("q_stored", rows);
  add_dx_product(shape, blocks, &cost);
  return cost;
}

}  // namespace ioattn::theory
