#include <algorithm>

#include "theory/block_costs.hpp"

// resident: every word moves once. e is dv; block sizes are cut to the matrix.
namespace ioattn::theory {

ScheduleCost resident_backward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t r = std::min(blocks.r, n), c = std::min(blocks.c, m);
  const index_t a1 = tie == Tie::all ? 0 : d;  // words of a row of A1 beside A2

  ScheduleCost cost;
  // Y, and the rows of A3 one block after the other, or A2 as a whole.
  cost.add("h", {m * d + d * e, 0, m * e, m * e + d * e + (tie == Tie::none ? c : m) * d});
  IoCost rows;
  rows.reads = (tie == Tie::none ? m * d : 0) + d * d + n * (a1 + e);
  rows.writes = d * d;
  rows.created = d * d + 3 * n * d + 2 * n * m + 3 * n;  // dX; A1 in panels, S, U; p, q; vectors
  const index_t kept = m * (d + e) + 2 * d * d + r * a1;
  rows.footprint = kept + r * std::max({2 * d, d + m, m + 2, 2 * m + e + 1, 2 * m + 2, m + d + 1});
  cost.add("resident", rows);
  return cost;
}

}  // namespace ioattn::theory
