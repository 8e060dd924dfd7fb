#include <algorithm>

#include "theory/block_costs.hpp"

// weight_resident: N = ceil(n / r) passes over the keys. e is dv; block sizes are cut to the
// matrix.
namespace ioattn::theory {

ScheduleCost weight_resident_backward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t r = std::min(blocks.r, n), c = std::min(blocks.c, m), rho = std::min(blocks.rho, r);
  const index_t w = std::min(blocks.w, d), o = std::min(blocks.o, r);
  const bool h_form = blocks.form == Form::h;
  const index_t passes = ceil_div(n, r);
  const index_t value = h_form ? e : tie == Tie::none ? d : 0;  // words of a value beside its key

  ScheduleCost cost;
  if (h_form) cost.add("h", product_cost(m, d, e, blocks.h));
  IoCost stream;
  stream.reads = d * d + n * d + 2 * n * e + n + passes * (m * (d + value) + (h_form ? 0 : d * e));
  stream.writes = d * d;
  // dX, delta, G, tiles, A1 in panels, K', T
  stream.created =
      d * d + n + (h_form ? 0 : n * d) + n * m + n * d * ceil_div(m, c) + 2 * passes * m * d;
  const index_t projecting =
      std::max(r * (e + 1) + o * e, h_form ? index_t(0) : r * (d + e + 1) + w * e);
  const index_t rows = r * (d + (h_form ? e : d) + 2);  // A1, G or dO, delta, LSE
  // Sub-blocks of queries: K' and the values leave with the last, T comes with the first.
  const index_t tile = rho * c;
  index_t streaming = 0;
  if (rho == r) {
    streaming = tile + std::max({c * d + rho * d, c * value, c * d});
  } else {
    const index_t second = std::min(rho, r - rho);
    streaming = std::max({tile + c * d + rho * d, tile + c * (2 * d + value),
                          second * (c + d) + c * (2 * d + value)});
  }
  stream.footprint = 2 * d * d + std::max(projecting, rows + c * d + streaming);
  cost.add("weight_resident", stream);
  return cost;
}

}  // namespace ioattn::theory
