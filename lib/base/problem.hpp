#pragma once

#include <string>
#include <string_view>

#include "base/types.hpp"

namespace ioattn {

// Sizes of the layer problem: A1 [n,d], A2, A3 [m,d], X [d,d], Y [d,dv], dO [n,dv].
struct LayerShape {
  index_t n = 0, m = 0, d = 0, dv = 0;
  Tie tie = Tie::none;
  bool operator==(const LayerShape&) const = default;
};

// A test, benchmark or command line case: shape x dtype x layout.
struct LayerProblem {
  LayerShape shape;
  DType dtype = DType::f32;
  index_t row_padding = 0;  // elements between the rows of every input and output
  bool operator==(const LayerProblem&) const = default;
};

// Text form, e.g. "layer:n512,m512,d385,v32,f32,tied". Fields in any order, each at most once; n
// and d are required, m defaults to n, v to d, f32; "tied" is A2 = A3, "self" is A1 = A2 = A3 (and
// needs n = m); "padK" sets the row padding. On failure returns false and says why.
bool parse_problem(std::string_view text, LayerProblem* problem, std::string* error);
std::string to_text(const LayerProblem& problem);

}  // namespace ioattn
