#include <algorithm>

#include "theory/block_costs.hpp"
#include "theory/block_sums.hpp"

// row_stream: N = ceil(n / r) passes over the keys. e is dv; block sizes are cut to the matrix.
// Under a mask a footprint is that without it, which the run may stay below.
namespace ioattn::theory {
namespace {

// Words of a key and its value; tied operands are the same memory.
index_t pair_of(const LayerShape& shape, Form form, const Weights& w = {}) {
  if (form == Form::h) return w.operand * shape.d + w.sum * shape.dv;
  return w.operand * (shape.tie == Tie::none ? 2 * shape.d : shape.d);
}

// The passes over the keys, what they stream and make: without a mask, m keys per row block, every
// pair of a query and a key, and ceil(m / c) tiles per query.
struct Passes {
  RowCut cut;
  bool h_form;
  index_t keys, pairs, tiles;

  Passes(const LayerShape& shape, const Blocks& blocks)
      : cut(shape, blocks), h_form(blocks.form == Form::h) {
    const BlockSums strips = strip_sums(shape.mask, shape.n, shape.m, cut.r, cut.rho, cut.c);
    keys = block_sums(shape.mask, shape.n, shape.m, cut.r, cut.c).columns;
    pairs = strips.pairs;
    tiles = strips.row_tiles;
  }
};

ScheduleCost stored_backward(const LayerShape& shape, const Blocks& blocks, const Weights& w) {
  ScheduleCost cost;
  add_thin_products(shape, blocks, w, &cost);
  cost.add("row_stream", row_stream_backward_pass(shape, blocks, w));
  add_dx_product(shape, blocks, w, &cost);
  return cost;
}

// O of the product Z Y is made in f32 and rounded.
ScheduleCost stored_forward(const LayerShape& shape, const Blocks& blocks, const Weights& w) {
  const auto [n, m, d, e, tie, mask] = shape;
  ScheduleCost cost;
  add_s_product(shape, blocks, w, &cost);
  if (blocks.form == Form::h) add_h_product(shape, blocks, w, &cost);
  cost.add("row_stream", row_stream_forward_pass(shape, blocks, w));
  if (blocks.form == Form::h) return cost;
  cost.add("O", product_cost(n, d, e, blocks.x, false, {w.sum, w.operand, w.sum}));
  if (w.sum != w.operand) cost.add("round", round_cost(n * e));
  return cost;
}

}  // namespace

index_t row_tile_words(const LayerShape& shape, const Blocks& blocks) {
  return Passes(shape, blocks).pairs;
}

index_t row_streamed_keys(const LayerShape& shape, const Blocks& blocks) {
  return Passes(shape, blocks).keys;
}

index_t row_pass_footprint(Pass pass, const LayerShape& shape, const Blocks& blocks) {
  const RowCut cut(shape, blocks);
  const bool h_form = blocks.form == Form::h, forward = pass == Pass::forward;
  const index_t d = shape.d, values = h_form ? shape.dv : d;
  // Of a row S, G (or dO), U, LSE and delta, or S, the running sum, maximum and sum of weights;
  // forward, a tile has a factor per row.
  const index_t row = (forward ? d : 2 * d) + values + 2;
  return cut.r * row + pair_of(shape, blocks.form) * cut.c + cut.rho * (cut.c + (forward ? 1 : 0));
}

// S, G (or dO), delta and LSE are read; U is written.
IoCost row_stream_backward_pass(const LayerShape& shape, const Blocks& blocks, const Weights& w) {
  const auto [n, m, d, e, tie, mask] = shape;
  const Passes passes(shape, blocks);
  const index_t kept_words = w.sum * d + (passes.h_form ? w.operand * e : w.sum * d);
  return {n * (kept_words + 2 * w.sum) + passes.keys * pair_of(shape, blocks.form, w),
          w.sum * n * d, w.sum * (n * d + passes.pairs),
          w.sum * row_pass_footprint(Pass::backward, shape, blocks)};
}

// S is read; O (or Z) and LSE are written.
IoCost row_stream_forward_pass(const LayerShape& shape, const Blocks& blocks, const Weights& w) {
  const auto [n, m, d, e, tie, mask] = shape;
  const Passes passes(shape, blocks);
  const index_t sum = passes.h_form ? e : d;  // columns of the running sum: O or Z
  return {w.sum * n * d + passes.keys * pair_of(shape, blocks.form, w),
          n * ((passes.h_form ? w.operand : w.sum) * sum + w.sum),
          w.sum * (n * sum + 2 * n + passes.pairs + passes.tiles),
          w.sum * row_pass_footprint(Pass::forward, shape, blocks)};
}

ScheduleCost row_stream_backward(const LayerShape& shape, const Blocks& blocks,
                                 const Weights& weights) {
  const auto [n, m, d, e, tie, mask] = shape;
  const auto [of_operand, of_sum, of_x, of_factor] = weights;
  const Passes passes(shape, blocks);
  const auto [r, c, rho, w, w_e, o, a, b] = passes.cut;
  const index_t count = ceil_div(n, r);
  if (blocks.products == Products::stored) return stored_backward(shape, blocks, weights);

  ScheduleCost cost;
  if (passes.h_form) add_h_product(shape, blocks, weights, &cost);
  IoCost stream;
  stream.reads = of_operand * (2 * n * d + 2 * n * e) + of_sum * n +
                 passes.keys * pair_of(shape, blocks.form, weights) +
                 count * (of_x * d * d + (passes.h_form ? 0 : of_operand * d * e)) +
                 of_sum * (count - 1) * d * d;
  stream.writes = of_sum * count * d * d;
  stream.created = of_sum * ((passes.h_form ? 2 : 3) * n * d + n + d * d +
                             passes.pairs);  // S, U(, G), v, first g, tiles
  const index_t projecting = std::max(
      2 * r * d + d * w,
      std::max(r * (d + e + 1) + o * e, passes.h_form ? index_t(0) : r * (2 * d + e + 1) + w * e));
  const index_t streaming = row_pass_footprint(Pass::backward, shape, blocks);
  stream.footprint = of_sum * std::max({projecting, streaming, 2 * r * d + a * b});
  cost.add("row_stream", stream);
  return cost;
}

ScheduleCost row_stream_forward(const LayerShape& shape, const Blocks& blocks,
                                const Weights& weights) {
  if (blocks.products == Products::stored) return stored_forward(shape, blocks, weights);
  const auto [n, m, d, e, tie, mask] = shape;
  const auto [of_operand, of_sum, of_x, of_factor] = weights;
  const Passes passes(shape, blocks);
  const auto [r, c, rho, w, w_e, o, a, b] = passes.cut;
  const index_t count = ceil_div(n, r);
  const index_t sum = passes.h_form ? e : d;  // columns of the running sum: O or Z

  ScheduleCost cost;
  if (passes.h_form) add_h_product(shape, blocks, weights, &cost);
  const index_t streaming = row_pass_footprint(Pass::forward, shape, blocks);
  IoCost stream;
  stream.reads = of_operand * n * d + passes.keys * pair_of(shape, blocks.form, weights) +
                 count * (of_x * d * d + (passes.h_form ? 0 : of_operand * d * e));
  stream.writes = n * (of_operand * e + of_sum);
  // S, Z and O (or O), running max and sum, tiles and their rescale factors
  stream.created = of_sum * (n * d + n * sum + (passes.h_form ? 0 : n * e) + 2 * n + passes.pairs +
                             passes.tiles);
  stream.footprint = of_sum * std::max({2 * r * d + d * w, streaming,
                                        passes.h_form ? index_t(0) : r * (d + e) + d * w_e});
  cost.add("row_stream", stream);
  return cost;
}

}  // namespace ioattn::theory
