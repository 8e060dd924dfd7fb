#include <algorithm>

#include "theory/block_costs.hpp"

// col_stream: T = ceil(m / c) passes over the queries.
namespace ioattn::theory {

KeyPassWidths key_pass_widths(const LayerShape& shape, Form form, KeyGradients wanted) {
  const index_t d = shape.d, v = form == Form::g ? d : shape.dv;
  const bool of_keys = wanted != KeyGradients::values;
  const bool own_values = form == Form::h || shape.tie == Tie::none;
  KeyPassWidths widths;
  widths.query = d + v + (of_keys ? 2 : 1);
  widths.key = d + (of_keys && own_values ? v : 0);
  widths.sums = wanted == KeyGradients::both ? d + v : wanted == KeyGradients::values ? v : d;
  return widths;
}

IoCost col_stream(const LayerShape& shape, const Blocks& blocks, KeyGradients wanted,
                  index_t heads) {
  const index_t n = shape.n, m = shape.m;
  const index_t c = std::min(blocks.c, m), rho = std::min(blocks.rho, n);
  const auto [query, key, sums] = key_pass_widths(shape, blocks.form, wanted);
  index_t queries = ceil_div(m, c) * n, pairs = n * m;
  if (shape.mask.hides()) {
    queries = pairs = 0;
    for (index_t j = 0; j < m; j += c) {
      const Interval keys = {j, std::min(j + c, m)};
      const index_t seeing = shape.mask.transposed().of_any(keys, n).size();
      queries += seeing;
      pairs += seeing * keys.size();
    }
  }
  IoCost cost;
  cost.reads = m * key + heads * queries * query;
  cost.writes = m * sums;
  cost.created = m * sums + heads * pairs;
  cost.footprint = c * (key + sums) + rho * query + rho * c;
  return cost;
}

index_t col_stream_fma(const LayerShape& shape, Form form, KeyGradients wanted) {
  const index_t d = shape.d, v = form == Form::g ? d : shape.dv;
  const index_t of_keys = wanted == KeyGradients::values ? 0 : v + d;  // q, p^T S
  const index_t of_values = wanted == KeyGradients::keys ? 0 : v;      // f^T dO
  return visible_pairs(shape.mask, shape.n, shape.m) * (d + of_keys + of_values);
}

}  // namespace ioattn::theory
