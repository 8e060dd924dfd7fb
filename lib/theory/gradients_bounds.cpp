#include "theory/gradients_bounds.hpp"

#include <algorithm>

#include "theory/recomputation_bound.hpp"
#include "theory/segments.hpp"

namespace ioattn::theory {
namespace {

struct Needs {
  bool p, weights;      // p of every pair; some gradient by W_Q or W_K
  bool of_p_by_tokens;  // an output sums n m d products with p: dX, dA1, dA2

  explicit Needs(const GradientSet& set)
      : weights(set.dW_Q || set.dW_K), of_p_by_tokens(set.dX || set.dA1 || set.dA2 || set.dA) {
    p = of_p_by_tokens || weights;
  }
};

double compulsory(const LayerShape& shape, const GradientSet& set, double batch) {
  const LayerShape part = visible_part(shape);
  const double n = batch * double(part.n), m = batch * double(part.m);
  const double d = double(shape.d), e = double(shape.dv);
  const Needs needs(set);
  const bool a3 = needs.p || set.dY, y = needs.p || set.dA3;
  double words = n * e + d * d + (y ? d * e : 0);  // dO, X, Y
  switch (shape.tie) {
    case Tie::none: words += (n + m + (a3 ? m : 0)) * d; break;
    case Tie::kv: words += (n + m) * d; break;
    case Tie::all: words += std::max(n, m) * d; break;
  }
  if (set.dX) words += d * d;
  if (set.dY) words += d * e;
  if (set.dA1) words += n * d;
  for (const bool of_keys : {set.dA2, set.dA3, set.dA}) words += of_keys ? m * d : 0;
  for (const bool by_weight : {set.dW_Q, set.dW_K}) words += by_weight ? 2 * d * double(set.dk) : 0;
  return words;
}

// dA3 and dY alone need f of every pair, not p.
double a2_without_p(const LayerShape& shape, bool of_y_alone, double pairs, double M) {
  const double d = double(shape.d), both = d + double(std::min(shape.d, shape.dv));
  double c = 0;
  switch (shape.tie) {
    case Tie::none: c = block_constant(d, both); break;
    case Tie::kv: c = block_constant(d, of_y_alone ? d : both); break;
    case Tie::all: c = of_y_alone ? d * d : both * both; break;
  }
  return segment_bound(pairs, c, M);
}

}  // namespace

AlgorithmClass class_of(const GradientSet& set, const LayerBlocks& blocks, Tie tie) {
  const GradientSteps steps = steps_of(set, tie, blocks.rows.form);
  if (steps.alone) return class_of(Pass::backward, blocks.schedule);
  return has_row_pass(steps, blocks) && steps.keys ? AlgorithmClass::P : AlgorithmClass::F;
}

BoundSet gradients_bounds(const LayerShape& shape, const GradientSet& set, index_t M,
                          index_t batch) {
  const Needs needs(set);
  const LayerShape part = visible_part(shape);
  const double entries = double(batch), words = double(M);
  const double pairs = entries * pairs_of(shape);
  if (pairs == 0) return {};
  const double d = double(shape.d), narrow = double(std::min(shape.d, shape.dv));
  const auto scores_and = [&](double births) {  // E, and q or a product with f
    const Operands operands =
        shape.tie == Tie::all ? Operands::computed_and_shared : Operands::computed;
    return Recomputed{pairs * d, pairs * narrow, narrow, births, operands};
  };
  BoundSet bounds;
  bounds.compulsory = compulsory(shape, set, entries);
  if (needs.p) bounds.a3 = bound_a3(Pass::backward, shape, M, batch);
  if (needs.of_p_by_tokens) {
    bounds.a2 = bound_a2(Pass::backward, shape, M, batch);
    bounds.g3 = bound_g3(Pass::backward, shape, M, batch, set.dX);
  } else if (needs.p) {  // dX may never be formed, so of the products with p none are counted
    bounds.a2 = bound_a2(Pass::backward, shape, M, batch);
    const auto weigh = shape.tie == Tie::none ? weigh_backward : weigh_scores_and_q_tied;
    bounds.g3 = recomputation_bound(scores_and(0), weigh, words);
  } else if (set.dA3 || set.dY) {
    bounds.a2 = positive(a2_without_p(shape, !set.dA3, pairs, words));
    const double births =
        entries * double(std::max(part.n, part.m)) * double(std::max(shape.d, shape.dv));
    const auto weigh = shape.tie == Tie::none ? weigh_forward : weigh_forward_tied;
    bounds.g3 = recomputation_bound(scores_and(births), weigh, words);
  }
  if (set.dX) {
    bounds.b2 = bound_b2(Pass::backward, shape, M, batch);
    bounds.c = bound_c(Pass::backward, shape, M, batch);
    bounds.b3 = bound_b3(Pass::backward, shape, M, batch);
  }
  return bounds;
}

}  // namespace ioattn::theory
