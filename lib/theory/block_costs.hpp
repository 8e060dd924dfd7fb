#pragma once

#include <algorithm>

#include "theory/schedule_cost.hpp"

namespace ioattn::theory {

// Reads of C[n1 x n2] = A[n1 x k] B[k x n2] with one tile rows x cols of C resident: every column
// of tiles reads A, every row of tiles reads B.
constexpr index_t product_reads(index_t n1, index_t k, index_t n2, index_t rows, index_t cols) {
  return k * (n1 * ceil_div(n2, cols) + n2 * ceil_div(n1, rows));
}

// Words of a number of A and of B, of C while it is resident, of C in memory, if it is rounded, and
// of A and B while they are resident.
struct ProductWeights {
  index_t a = 1, b = 1, c = 1;
  index_t written = c, factors = c;
};
// The product alone, with the blocks cut to the matrices. With accumulate C is read and added to.
IoCost product_cost(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks,
                    bool accumulate = false, const ProductWeights& weights = {});

// delta = rowsum(O o dO) by blocks of o x w, into memory.
IoCost delta_cost(const LayerShape& shape, const Blocks& blocks, const Weights& weights = {});
// f = exp(S A2^T - LSE) into memory.
IoCost weights_cost(const LayerShape& shape, const ProductBlocks& blocks);
// Scores S A2^T into memory, with the row maxima and sums resident, and LSE.
IoCost scores_cost(const LayerShape& shape, const ProductBlocks& blocks);
// exp(scores - LSE) V for V of `width` columns: weights are made of scores as these are read.
IoCost weighted_sum_cost(index_t n, index_t m, index_t width, const ProductBlocks& blocks);
// p = f o (q - delta), q a product of k terms: f is read once the tile of q is complete, in blocks
// of `depth` keys.
IoCost gradient_cost(index_t n, index_t k, index_t m, const ProductBlocks& blocks);
// The same with tiles of scores and of q side by side, which share the second factor: f stays.
IoCost twin_cost(index_t n, index_t k, index_t m, const ProductBlocks& blocks);
// Phases "S", "h", "delta" with those of them that there are (stored; form h, else "G"), "q", and
// "dX" (stored): products whose results pass through memory.
void add_s_product(const LayerShape& shape, const Blocks& blocks, const Weights& weights,
                   ScheduleCost* cost);
void add_h_product(const LayerShape& shape, const Blocks& blocks, const Weights& weights,
                   ScheduleCost* cost);
void add_thin_products(const LayerShape& shape, const Blocks& blocks, const Weights& weights,
                       ScheduleCost* cost);
void add_q_product(const LayerShape& shape, const Blocks& blocks, const Weights& weights,
                   ScheduleCost* cost);
void add_dx_product(const LayerShape& shape, const Blocks& blocks, const Weights& weights,
                    ScheduleCost* cost);
// Results in f32 become 16 bits, a number at a time.
constexpr IoCost round_cost(index_t numbers) { return {2 * numbers, numbers, 0, 2}; }

// The blocks of a pass over rows, cut to the matrices; e is dv.
struct RowCut {
  index_t r, c, rho, w_d, w_e, o, a, b;

  RowCut(const LayerShape& shape, const Blocks& blocks)
      : r(std::min(blocks.r, shape.n)),
        c(std::min(blocks.c, shape.m)),
        rho(std::min(blocks.rho, r)),
        w_d(std::min(blocks.w, shape.d)),
        w_e(std::min(blocks.w, shape.dv)),
        o(std::min(blocks.o, r)),
        a(std::min(blocks.a, shape.d)),
        b(std::min(blocks.b, shape.d)) {}
};

ScheduleCost naive_backward(const LayerShape& shape);
ScheduleCost paper_small_forward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost paper_small_backward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost paper_large_forward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost paper_large_backward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost row_stream_forward(const LayerShape& shape, const Blocks& blocks,
                                const Weights& weights = {});
ScheduleCost row_stream_backward(const LayerShape& shape, const Blocks& blocks,
                                 const Weights& weights = {});
// Products::stored: the pass alone, its operands are there.
IoCost row_stream_forward_pass(const LayerShape& shape, const Blocks& blocks,
                               const Weights& weights = {});
IoCost row_stream_backward_pass(const LayerShape& shape, const Blocks& blocks,
                                const Weights& weights = {});
// Numbers that a pass holds while keys stream past, wherever its thin products are.
index_t row_pass_footprint(Pass pass, const LayerShape& shape, const Blocks& blocks);
// Words of the score tiles of such a pass: pairs of a query and a key that are computed.
index_t row_tile_words(const LayerShape& shape, const Blocks& blocks);
// Keys that its blocks of rows read, in all.
index_t row_streamed_keys(const LayerShape& shape, const Blocks& blocks);
ScheduleCost stationary_forward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost stationary_backward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost q_stored_backward(const LayerShape& shape, const Blocks& blocks,
                               const Weights& weights = {});
ScheduleCost half_dim_backward(const LayerShape& shape, const Blocks& blocks,
                               const Weights& weights = {});
ScheduleCost weight_resident_backward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost resident_backward(const LayerShape& shape, const Blocks& blocks);

// Words of a pass over the keys per query (S, dO or G, LSE; delta where p is formed), per key (A2;
// its value where q is formed, unless it is the same memory), per key of gradients, and per query
// (U) and key (A2 as rows) where U is made as well.
struct KeyPassWidths {
  index_t query = 0, key = 0, sums = 0;
  index_t u = 0;

  // Of fast memory, for c keys and rho queries.
  index_t footprint(index_t c, index_t rho) const {
    return c * (key + sums + u) + rho * (query + u) + rho * c;
  }
};
// In numbers.
KeyPassWidths key_pass_widths(const LayerShape& shape, Form form, KeyPassKind kind);

// The pass alone: S, h or G and delta are there. `sum` is for tied operands in the g-form. `heads`
// of queries share the keys. `accumulate`: gradients are added to what memory holds.
IoCost col_stream(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                  index_t heads = 1, bool accumulate = false, const Weights& weights = {});
index_t col_tile_words(const LayerShape& shape, const Blocks& blocks);
// Queries that stream past blocks of keys, one for each block of a pass.
index_t col_streamed_queries(const LayerShape& shape, const Blocks& blocks);
index_t col_stream_fma(const LayerShape& shape, Form form, KeyPassKind kind);

// The same pass in the h-form by pairs of score tiles, past which w columns of everything else
// stream.
IoCost tile_fused(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                  index_t heads = 1, bool accumulate = false);
// The pass of the layer problem, whose sums are in f32 where operands are pairs of 16 bits.
IoCost tile_fused(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                  const Weights& weights);
// dX: U by tiles between thin products that are stored.
ScheduleCost tile_fused_backward(const LayerShape& shape, const Blocks& blocks,
                                 const Weights& weights = {});
// O by tiles of scores: S, keys and h are read, O and LSE are written.
IoCost tile_fused_forward_pass(const LayerShape& shape, const Blocks& blocks);
IoCost tile_fused_forward_pass(const LayerShape& shape, const Blocks& blocks,
                               const Weights& weights);
ScheduleCost tile_fused_forward(const LayerShape& shape, const Blocks& blocks,
                                const Weights& weights = {});  // and S and h
// Of all pairs of tiles of a pass over the keys: their queries, their keys, and their pairs of one
// and the other; and the keys of all blocks that have such.
struct TileSums {
  index_t queries = 0, keys = 0, pairs = 0;
  index_t blocks = 0;
};
TileSums tile_sums(const LayerShape& shape, index_t c, index_t rho);
TileSums forward_tile_sums(const LayerShape& shape, const Blocks& blocks);

}  // namespace ioattn::theory
