#pragma once

#include <iterator>

#include "base/matrix_view.hpp"
#include "base/observer.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"

namespace ioattn {

// Gradients of <O, dO>, any subset. dA is the sum over the operands that share memory: dA2 + dA3
// where A2 = A3, and dA1 besides where A1 = A2 = A3.
struct GradientSet {
  bool dX = false, dY = false, dA1 = false, dA2 = false, dA3 = false, dA = false;
  bool dW_Q = false, dW_K = false;
  index_t dk = 0;       // columns of W_Q and W_K, for dW_Q and dW_K alone
  bool in_f32 = false;  // of a problem in 16 bits: not rounded

  bool rounds(DType dtype) const { return is_half(dtype) && !in_f32; }
  // Whether a backward pass is enough: of dX, and of dW_Q and dW_K, which are made of it.
  bool is_dx_alone() const { return !(dY || dA1 || dA2 || dA3 || dA); }
  bool operator==(const GradientSet&) const = default;
};

// dA is of operands that share memory.
Status check_tie(const GradientSet& set, Tie tie);

// They by name, in the order in which they are told.
struct NamedGradient {
  const char* name;
  Operand operand;
  bool GradientSet::*wanted;
  index_t LayerShape::*rows;
  index_t LayerShape::*cols;  // null: as many as W_Q and W_K have
  bool by_entry;              // of each entry of a batch; others are sums over the entries

  index_t cols_of(const LayerShape& shape, const GradientSet& set) const {
    return cols != nullptr ? shape.*cols : set.dk;
  }
  index_t entries(index_t batch) const { return by_entry ? batch : 1; }
};
inline constexpr NamedGradient named_gradients[] = {
    {"dX", Operand::dX, &GradientSet::dX, &LayerShape::d, &LayerShape::d, false},
    {"dY", Operand::dY, &GradientSet::dY, &LayerShape::d, &LayerShape::dv, false},
    {"dA1", Operand::dA1, &GradientSet::dA1, &LayerShape::n, &LayerShape::d, true},
    {"dA2", Operand::dA2, &GradientSet::dA2, &LayerShape::m, &LayerShape::d, true},
    {"dA3", Operand::dA3, &GradientSet::dA3, &LayerShape::m, &LayerShape::d, true},
    {"dA", Operand::dA, &GradientSet::dA, &LayerShape::m, &LayerShape::d, true},
    {"dW_Q", Operand::dW_Q, &GradientSet::dW_Q, &LayerShape::d, nullptr, false},
    {"dW_K", Operand::dW_K, &GradientSet::dW_K, &LayerShape::d, nullptr, false}};
constexpr std::size_t gradient_count = std::size(named_gradients);

// Numbers of those of a set.
index_t gradient_numbers(const LayerShape& shape, const GradientSet& set, index_t batch);

// The matrices; null data: not wanted. S: of the weights, which are inputs.
template <class T, class S = T>
struct LayerGradients {
  MatrixView<T> dx;              // [d, d]
  MatrixView<T> dy;              // [d, dv]
  MatrixView<T> da1;             // [n, d]
  MatrixView<T> da2, da3, da;    // [m, d]
  MatrixView<T> dw_q, dw_k;      // [d, dk]
  MatrixView<const S> w_q, w_k;  // [d, dk]: w_k for dw_q, w_q for dw_k

  // In the order of named_gradients.
  static constexpr MatrixView<T> LayerGradients::*matrices[gradient_count] = {
      &LayerGradients::dx,  &LayerGradients::dy, &LayerGradients::da1,  &LayerGradients::da2,
      &LayerGradients::da3, &LayerGradients::da, &LayerGradients::dw_q, &LayerGradients::dw_k};

  GradientSet set() const {
    GradientSet set;
    for (std::size_t k = 0; k < gradient_count; ++k)
      set.*named_gradients[k].wanted = (this->*matrices[k]).data != nullptr;
    set.dk = set.dW_Q ? dw_q.cols : set.dW_K ? dw_k.cols : 0;
    return set;
  }
};

// The matrices of a set, each as take(rows, cols) gives it, of all entries.
template <class T, class S, class Take>
void take_gradients(const LayerShape& shape, const GradientSet& set, index_t batch,
                    const Take& take, LayerGradients<T, S>* result) {
  for (std::size_t k = 0; k < gradient_count; ++k) {
    const NamedGradient& gradient = named_gradients[k];
    if (!(set.*gradient.wanted)) continue;
    const index_t rows = shape.*gradient.rows;
    MatrixView<T> all = take(rows * gradient.entries(batch), gradient.cols_of(shape, set));
    all.rows = rows;
    result->*LayerGradients<T, S>::matrices[k] = all;
  }
}

// Block sizes of all phases. `rows` is a backward pass: alone it is any, with other gradients than
// dX one that leaves U and stores its thin products; its form is that of the pass over the keys,
// which makes U itself where it is `one_pass`: tile_fused also where U is all that it makes.
struct LayerBlocks {
  Schedule schedule = Schedule::row_stream;
  Blocks rows;
  Blocks keys;
  Schedule by_keys = Schedule::col_stream;  // what `keys` is of: this or tile_fused
  ProductBlocks da1;                        // dA1 = U X^T
  ProductBlocks da3;                        // dA3 = W Y^T
  ProductBlocks dy;                         // dY = A3^T W
  ProductBlocks dw;                         // dW_Q = dX W_K, dW_K = dX^T W_Q
  index_t sum = 0;  // words of a row of dA per step where it is a sum of matrices

  bool operator==(const LayerBlocks&) const = default;
};

// The phases that a set of gradients takes, in the order in which they run.
struct GradientSteps {
  bool alone = false;   // is_dx_alone(): no phase before dW_Q runs
  bool delta = false;   // delta = rowsum(O o dO)
  bool s = false;       // S = A1 X
  bool values = false;  // h = A3 Y or G = dO Y^T
  bool rows = false;    // U
  bool dx = false;      // dX = A1^T U
  bool keys = false;    // dA2, W or dA3, or their sum
  KeyGradients key_gradients = KeyGradients::both;
  bool da3 = false;  // dA3 = W Y^T, h-form
  bool dy = false;   // dY = A3^T W
  bool da1 = false;  // dA1 = U X^T
  bool dw_q = false, dw_k = false;
  bool one_sum = false;  // dA is the accumulator of the phases that contribute to it
  bool parts = false;    // some parts of dA are wanted as well: it is their sum, taken at the end
};
GradientSteps steps_of(const GradientSet& set, Tie tie, Form form);

// The products around the passes, in that order.
struct GradientProduct {
  const char* name;
  ProductBlocks LayerBlocks::*blocks;
  bool GradientSteps::*runs;
};
inline constexpr GradientProduct gradient_products[] = {
    {"dA3", &LayerBlocks::da3, &GradientSteps::da3},
    {"dY", &LayerBlocks::dy, &GradientSteps::dy},
    {"dA1", &LayerBlocks::da1, &GradientSteps::da1},
    {"dW_Q", &LayerBlocks::dw, &GradientSteps::dw_q},
    {"dW_K", &LayerBlocks::dw, &GradientSteps::dw_k}};

// `rows` is on the way of `keys` where their blocks say so.
constexpr bool has_row_pass(const GradientSteps& steps, const LayerBlocks& blocks) {
  return steps.rows && !blocks.keys.one_pass;
}
constexpr bool has_key_pass(const GradientSteps& steps, const LayerBlocks& blocks) {
  return steps.keys || (steps.rows && blocks.keys.one_pass);
}
constexpr KeyPassKind key_pass(const GradientSteps& steps, const LayerBlocks& blocks) {
  return {steps.keys ? steps.key_gradients : KeyGradients::none, blocks.keys.one_pass};
}

// What makes U, or the gradients of the keys.
inline Schedule score_pass(const GradientSet& set, const LayerBlocks& blocks) {
  return set.is_dx_alone() ? blocks.schedule : blocks.by_keys;
}

// Whether a set can be computed in a form: dY needs W = f^T dO, which the g-form never has.
constexpr bool has_gradients(const GradientSet& set, Form form) {
  return form == Form::h || !set.dY;
}

}  // namespace ioattn
