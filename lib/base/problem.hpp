#pragma once

#include <string>
#include <string_view>

#include "base/mask.hpp"
#include "base/types.hpp"

namespace ioattn {

// Sizes of the layer problem: A1 [n,d], A2, A3 [m,d], X [d,d], Y [d,dv], dO [n,dv]. Of a batch,
// those of one entry.
struct LayerShape {
  index_t n = 0, m = 0, d = 0, dv = 0;
  Tie tie = Tie::none;
  Mask mask = {};
  bool operator==(const LayerShape&) const = default;

  LayerShape without_mask() const { return {n, m, d, dv, tie, {}}; }
};

// Sizes of 0 cost nothing: blocks are chosen, and costs told, for at least 1.
LayerShape shape_to_plan(LayerShape shape);

// Queries that see a key, and keys that a query sees: the others take no part in sums over all.
inline Interval seeing_queries(const LayerShape& shape) {
  return shape.mask.transposed().of_any({0, shape.m}, shape.n);
}
inline Interval seen_keys(const LayerShape& shape) {
  return shape.mask.of_any({0, shape.n}, shape.m);
}

// A test, benchmark or command line case: shape x mask x dtype.
struct LayerProblem {
  LayerShape shape;
  DType dtype = DType::f32;
  index_t batch = 1;  // entries, which share X and Y
  double scale = 1;   // of the scores
  bool operator==(const LayerProblem&) const = default;
};

// Text form, e.g. "layer:n512,m512,d385,v32,f32,tied". Fields in any order, each at most once; n
// and d are required, m defaults to n, v to d, and f32 may be f64, bf16 or f16; "tied" is A2 = A3,
// "self" is A1 = A2 = A3 (and needs n = m); "causal" and "causal-bottom-right" are masks,
// "keys-3:0" lets query i see the keys i - 3 to i, where * is no limit; "bK" sets the
// batch, "sK" the scale. On failure returns false and says why.
bool parse_problem(std::string_view text, LayerProblem* problem, std::string* error);
std::string to_text(const LayerProblem& problem);
// The mask's field, e.g. "causal", or "none".
std::string mask_text(const LayerShape& shape);

}  // namespace ioattn
