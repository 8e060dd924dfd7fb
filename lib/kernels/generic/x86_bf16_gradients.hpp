#pragma once

#include "kernels/generic/x86_bf16_weights.hpp"

// Softmax weights and their gradients from scores and q that stay in L1. See scalar_vector.hpp
// about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// Scores and q of some queries and a panel of keys at a time.
template <int max_rows>
struct X86Bf16Gradients : X86Bf16Weights<max_rows> {
  static constexpr PairKernels table() {
    PairKernels pairs = X86Bf16Weights<max_rows>::table();
    pairs.gradients = gradients;
    return pairs;
  }

 private:
  using Pairs = X86Bf16Pairs<max_rows>;
  using Product = kernels::Product<float, bf16x2>;
  static constexpr index_t nr = Pairs::nr;
  static constexpr index_t most_rows = 64;

  struct alignas(64) Scratch {
    float scores[most_rows * nr], q[most_rows * nr];
    GradientRows<most_rows, nr> made;
  };

  static IOATTN_INLINE void multiply(const Product& all, index_t row, index_t rows, index_t col,
                                     float* c) {
    Product p;
    p.rows = rows;
    p.cols = nr;
    p.depth = all.depth;
    p.a = all.a + row * all.a_row;
    p.a_row = all.a_row;
    p.a_depth = all.a_depth;
    p.b = all.b + col / nr * all.b_panel;
    p.b_panel = all.b_panel;
    p.b_row = all.b_row;
    p.c = c;
    p.c_panel = p.c_row = nr;
    p.padded = true;
    Pairs::table.product(p);
  }

  static IOATTN_INLINE void of_rows(const Product& scores, const Product& q, const PairGradients& g,
                                    index_t row, Scratch* scratch) {
    const index_t rows = scores.rows - row < most_rows ? scores.rows - row : most_rows;
    scratch->made.begin(g, row, rows);
    for (index_t col = 0; col < scores.cols; col += nr) {
      multiply(scores, row, rows, col, scratch->scores);
      multiply(q, row, rows, col, scratch->q);
      ScorePairs made = scratch->made.panel(scratch->scores, scratch->q, col, scores.cols - col);
      take_rows<Pairs, nr>(&made, rows);
    }
  }

  static IOATTN_KERNEL void gradients(const Product& scores, const Product& q,
                                      const PairGradients& gradients) {
    const typename Pairs::GradientMode mode;
    Scratch scratch;
    for (index_t row = 0; row < scores.rows; row += most_rows)
      of_rows(scores, q, gradients, row, &scratch);
  }
};

}  // namespace
}  // namespace ioattn::kernels
