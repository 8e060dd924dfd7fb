#include <algorithm>

#include "theory/block_costs.hpp"

// row_stream: N = ceil(n / r) passes over the keys. e is dv; block sizes are cut to the matrix.
namespace ioattn::theory {
namespace {

// S, G (or dO), delta and LSE are read; U is written.
ScheduleCost stored_backward(const LayerShape& shape, const Blocks& blocks, index_t pair) {
  const auto [n, m, d, e, tie] = shape;
  const RowCut cut(shape, blocks);
  const index_t kept = blocks.form == Form::h ? d + e : 2 * d;  // per row: S and G or dO
  ScheduleCost cost;
  add_thin_products(shape, blocks, &cost);
  cost.add("row_stream", {n * (kept + 2) + ceil_div(n, cut.r) * m * pair, n * d, n * d + n * m,
                          cut.r * (kept + d + 2) + pair * cut.c + cut.rho * cut.c});
  add_dx_product(shape, blocks, &cost);
  return cost;
}

}  // namespace

ScheduleCost row_stream_backward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie] = shape;
  const auto [r, c, rho, w, w_e, o, a, b] = RowCut(shape, blocks);
  const bool h_form = blocks.form == Form::h;
  const index_t passes = ceil_div(n, r);
  // Words of a key and its value; tied operands are the same memory.
  const index_t pair = h_form ? d + e : tie == Tie::none ? 2 * d : d;
  if (blocks.products == Products::stored) return stored_backward(shape, blocks, pair);

  ScheduleCost cost;
  if (h_form) cost.add("h", product_cost(m, d, e, blocks.h));
  IoCost stream;
  stream.reads = 2 * n * d + 2 * n * e + n + passes * (m * pair + d * d + (h_form ? 0 : d * e)) +
                 (passes - 1) * d * d;
  stream.writes = passes * d * d;
  stream.created = (h_form ? 2 : 3) * n * d + n + d * d + n * m;  // S, U(, G), v, first g, tiles
  const index_t projecting = std::max(
      2 * r * d + d * w,
      std::max(r * (d + e + 1) + o * e, h_form ? index_t(0) : r * (2 * d + e + 1) + w * e));
  const index_t streaming = r * (h_form ? 2 * d + e + 2 : 3 * d + 2) + pair * c + rho * c;
  stream.footprint = std::max({projecting, streaming, 2 * r * d + a * b});
  cost.add("row_stream", stream);
  return cost;
}

ScheduleCost row_stream_forward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie] = shape;
  const auto [r, c, rho, w, w_e, o, a, b] = RowCut(shape, blocks);
  const bool h_form = blocks.form == Form::h;
  const index_t passes = ceil_div(n, r);
  const index_t pair = h_form ? d + e : tie == Tie::none ? 2 * d : d;
  const index_t sum = h_form ? e : d;  // columns of the running sum: O or Z
  const bool stored = blocks.products == Products::stored;

  ScheduleCost cost;
  if (stored) cost.add("S", product_cost(n, d, d, blocks.s));
  if (h_form) cost.add("h", product_cost(m, d, e, blocks.h));
  const index_t streaming = r * (d + sum + 2) + pair * c + rho * (c + 1);
  if (stored) {
    cost.add("row_stream", {n * d + passes * m * pair, n * (sum + 1),
                            n * sum + 2 * n + n * m + n * ceil_div(m, c), streaming});
    if (!h_form) cost.add("O", product_cost(n, d, e, blocks.x));
    return cost;
  }
  IoCost stream;
  stream.reads = n * d + passes * (m * pair + d * d + (h_form ? 0 : d * e));
  stream.writes = n * (e + 1);
  // S, Z and O (or O), running max and sum, tiles and their rescale factors
  stream.created = n * d + n * sum + (h_form ? 0 : n * e) + 2 * n + n * m + n * ceil_div(m, c);
  stream.footprint =
      std::max({2 * r * d + d * w, streaming, h_form ? index_t(0) : r * (d + e) + d * w_e});
  cost.add("row_stream", stream);
  return cost;
}

}  // namespace ioattn::theory
