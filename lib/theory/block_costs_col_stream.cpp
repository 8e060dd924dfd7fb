#include <algorithm>

#include "base/tile_steps.hpp"
#include "theory/block_costs.hpp"
#include "theory/block_sums.hpp"

// col_stream: T = ceil(m / c) passes over the queries.
namespace ioattn::theory {

KeyPassWidths key_pass_widths(const LayerShape& shape, Form form, KeyPassKind kind) {
  const index_t d = shape.d, v = form == Form::g ? d : shape.dv;
  const bool own_values = form == Form::h || shape.tie == Tie::none;
  const bool sums_keys = kind.of_keys(), sums_values = kind.of_values() && !kind.is_sum();
  KeyPassWidths widths;
  widths.query = d + v + (kind.makes_p() ? 2 : 1);
  widths.key = d + (kind.makes_p() && own_values ? v : 0);
  widths.sums = (sums_keys ? d : 0) + (sums_values ? v : 0);
  widths.u = kind.queries ? d : 0;
  return widths;
}

namespace {

// Blocks of c keys and the queries that stream past them.
BlockSums streamed(const LayerShape& shape, index_t c) {
  return block_sums(shape.mask.transposed(), shape.m, shape.n, c, 1);
}

}  // namespace

index_t col_tile_words(const LayerShape& shape, const Blocks& blocks) {
  return streamed(shape, keys_of_block(shape, blocks)).pairs;
}

index_t col_streamed_queries(const LayerShape& shape, const Blocks& blocks) {
  return streamed(shape, std::min(blocks.c, shape.m)).columns;
}

IoCost col_stream(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind, index_t heads,
                  bool accumulate, const Weights& w) {
  const index_t n = shape.n, m = shape.m;
  const index_t c = std::min(blocks.c, m), rho = std::min(blocks.rho, n);
  const KeyPassWidths widths = key_pass_widths(shape, blocks.form, kind);
  const BlockSums sums = streamed(shape, c);
  const index_t queries = sums.columns, pairs = sums.pairs;
  const index_t key_sums = w.sum * m * widths.sums, u = w.sum * heads * n * widths.u;
  // In the h-form dO is an operand and h is none, in the g-form A3 is one and G is none.
  const bool h_form = blocks.form == Form::h;
  const index_t query_operands = h_form ? shape.dv : 0;
  const index_t key_sums_read = h_form ? widths.key - shape.d : 0;
  const index_t key = w.operand * (widths.key - key_sums_read) + w.sum * key_sums_read;
  const index_t query = w.operand * query_operands + w.sum * (widths.query - query_operands);
  IoCost cost;
  cost.reads = m * key + heads * queries * (query + w.sum * widths.u);
  cost.writes = key_sums + w.sum * heads * queries * widths.u;
  cost.created = w.sum * (m * widths.u + heads * pairs);
  cost.footprint = w.sum * widths.footprint(c, rho);
  if (accumulate) {
    cost.reads += key_sums;
    return cost;
  }
  cost.created += key_sums + u;
  if (shape.mask.hides()) {
    cost.writes += u;  // zeros: the first block of keys that a query sees need not see it all
  } else {
    cost.reads -= u;
  }
  return cost;
}

index_t col_stream_fma(const LayerShape& shape, Form form, KeyPassKind kind) {
  const index_t d = shape.d, v = form == Form::g ? d : shape.dv;
  index_t depth = d;                 // scores
  if (kind.makes_p()) depth += v;    // q
  if (kind.of_keys()) depth += d;    // p^T S
  if (kind.of_values()) depth += v;  // f^T dO
  if (kind.queries) depth += d;      // p A2
  return visible_pairs(shape.mask, shape.n, shape.m) * depth;
}

}  // namespace ioattn::theory
