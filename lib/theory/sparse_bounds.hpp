#pragma once

#include "base/types.hpp"

// Sparse matrices, by how many entries are not 0. The paper's formulas hold for the worst matrices
// with these counts, not for the ones at hand; the sound ones hold for the products that are made.
namespace ioattn::theory {

// Of E = A1 X A2^T, bracketed (A1 X) A2^T or A1 (X A2^T), A1 and A2 by rows of tokens.
struct SparseCounts {
  double a1 = 0, a2 = 0, x = 0;
  double a1_x = 0, x_a2 = 0;  // of A1 X and X A2^T
  double scores = 0;          // of A1 X A2^T
};

// The paper's theorem with constant 1, with Z_A = min{a1, a2}, Z_AX = min{a1_x, x_a2}:
// min{(Z_A^2 + Z_A Z_X) / M, (Z_A sqrt(Z_AXA) + sqrt(Z_A Z_X Z_AX)) / sqrt(M)}. Worst case over
// instances.
double paper_sparse_formula(const SparseCounts& counts, index_t M);
// The M at which its branches meet.
double paper_sparse_dividing_point(const SparseCounts& counts);

// Sound for the matrices at hand and class F: E from A1, X, A2 by `multiply_adds`, those of both
// products in one bracketing, whose first result has `intermediate` entries, so the lesser over
// both bracketings holds for all; all entries that are not 0 are used. `scores_written`: E is an
// output; otherwise it may live and die in fast memory. `tied`: A1 and A2 are one memory.
struct SparseProducts {
  double multiply_adds = 0, intermediate = 0;
  bool tied = false, scores_written = false;
};
double sparse_products_bound(const SparseCounts& counts, const SparseProducts& products, index_t M);

}  // namespace ioattn::theory
