#pragma once

#include "theory/io_cost.hpp"

namespace ioattn::theory {

// Reads of C[n1 x n2] = A[n1 x k] B[k x n2] with one tile rows x cols of C resident: every column
// of tiles reads A, every row of tiles reads B.
constexpr index_t product_reads(index_t n1, index_t k, index_t n2, index_t rows, index_t cols) {
  return k * (n1 * ceil_div(n2, cols) + n2 * ceil_div(n1, rows));
}

// The product alone, with the blocks cut to the matrices. With accumulate C is read and added to.
IoCost product_cost(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks,
                    bool accumulate = false);

ScheduleCost naive_backward(const LayerShape& shape);
ScheduleCost paper_small_forward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost paper_small_backward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost paper_large_forward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost paper_large_backward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost row_stream_forward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost row_stream_backward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost weight_resident_backward(const LayerShape& shape, const Blocks& blocks);
ScheduleCost resident_backward(const LayerShape& shape, const Blocks& blocks);

}  // namespace ioattn::theory
