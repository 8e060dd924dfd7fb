#include <algorithm>

#include "theory/block_costs.hpp"

// The paper's schedules. e is dv, i, j, ... are block sizes cut to the matrix.
namespace ioattn::theory {
namespace {

// Phase 1 of the large-cache algorithms: S = A1 X and h = A3 Y, in one loop when n = m.
IoCost projections(const LayerShape& shape, const Blocks& blocks) {
  const index_t n = shape.n, m = shape.m, d = shape.d, e = shape.dv;
  IoCost cost;
  cost.reads = n * d + m * d + d * d * ceil_div(n, blocks.r) + d * e * ceil_div(m, blocks.r);
  cost.writes = cost.created = n * d + m * e;
  const auto loop = [&](index_t rows, index_t cols) {
    const index_t r = std::min(blocks.r, rows), c = std::min(blocks.c, cols);
    return (n == m ? 2 : 1) * r * d + d * c + r * c;
  };
  cost.footprint = std::max(loop(n, d), loop(m, e));
  return cost;
}

}  // namespace

ScheduleCost naive_backward(const LayerShape& shape) {
  const auto [n, m, d, e, tie, mask] = shape;
  ScheduleCost cost;
  cost.add("forward", {n * d + m * d + d * d, 0, 2 * n * m + n * d + n,
                       std::max(2 * n * d + m * d + d * d + n * m, n * d + m * d + 2 * n * m + n)});
  const index_t resident = n * d + m * d;  // A1, A2
  cost.add("backward", {m * d + d * e + n * e, d * d, m * e + 2 * n * m + n + m * d + d * d,
                        std::max({resident + n * m + m * d + d * e + m * e,  // A3, Y, h
                                  resident + 2 * n * m + m * e + n * e,      // h, dO, f, q
                                  resident + 3 * n * m + n,                  // f, q, p, v
                                  resident + n * m + m * d + d * d})});      // p, T, g
  return cost;
}

ScheduleCost paper_small_backward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t b = blocks.r;
  const ProductBlocks tiles = {b, b, blocks.c};
  const index_t i = std::min(b, n), j = std::min(b, m), q = std::min(blocks.c, d);
  ScheduleCost cost;
  cost.add("1a", product_cost(n, d, d, tiles));
  cost.add("1b", {product_reads(n, d, m, b, b) + n * m, 2 * n * m, 2 * n + 2 * n * m,
                  2 * i + std::max(i * j + q * (i + j), 2 * i * j)});
  cost.add("2a", product_cost(m, d, e, tiles));
  cost.add("2b", product_cost(n, e, m, tiles));
  cost.add("3", {4 * n * m, n * m, n + n * m, i + 3 * i * j});
  cost.add("4a", product_cost(d, n, m, tiles));
  cost.add("4b", product_cost(d, m, d, tiles));
  return cost;
}

ScheduleCost paper_small_forward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t b = blocks.r;
  const ProductBlocks tiles = {b, b, blocks.c};
  const index_t i = std::min(b, n), j = std::min(b, m), q = std::min(blocks.c, d);
  const index_t k = std::min(b, e);
  ScheduleCost cost;
  cost.add("S", product_cost(n, d, d, tiles));
  cost.add("h", product_cost(m, d, e, tiles));
  cost.add("softmax",
           {product_reads(n, d, m, b, b) + product_reads(n, m, e, b, b), n * m + n + n * e,
            2 * n + n * m + n * e, std::max(2 * i + i * j + q * (i + j), i + i * k + j * (i + k))});
  return cost;
}

ScheduleCost paper_large_backward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t r = std::min(blocks.r, n), c = std::min(blocks.c, m);
  const index_t kept = blocks.literal ? c * e : 0;  // h_J is not deleted after q
  ScheduleCost cost;
  cost.add("P1", projections(shape, blocks));
  IoCost p2;
  p2.reads = 2 * n * d + 2 * n * e + n + m * (d + e) * ceil_div(n, r);
  p2.writes = d * d;
  p2.created = d * d + n + 3 * n * m + n * m + m * d * ceil_div(n, r);  // g, v, q, s, f, p, T
  const index_t rows = r * (2 * d + e) + 2 * r;                         // S, A1, dO, L, v
  p2.footprint = d * d + std::max(rows + r * e,                         // O
                                  rows + std::max({c * e + r * c, kept + c * d + 3 * r * c,
                                                   kept + 2 * c * d + r * c}));
  cost.add("P2", p2);
  return cost;
}

ScheduleCost paper_large_forward(const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t r = std::min(blocks.r, n), c = std::min(blocks.c, m);
  ScheduleCost cost;
  cost.add("P1", projections(shape, blocks));
  cost.add("FA2", {n * d + m * (d + e) * ceil_div(n, r), n * e + n,
                   n * e + 2 * n + n * m + n * ceil_div(m, c),
                   r * (d + e + 2) + r * c + std::max(c * d, c * e + r)});
  return cost;
}

}  // namespace ioattn::theory
