#pragma once

#include <string>

#include "theory/bounds.hpp"
#include "tune/text/report_json.hpp"

// What `ioattn bounds` tells beside schedules and their costs.
namespace ioattn::tune {

// Every bound of a class, the best and its name.
Json class_json(theory::AlgorithmClass algorithms, const theory::BoundSet& bounds);
// A table of both classes, and what the best were proved for.
std::string classes_text(const theory::BoundSet& bounds);

// Bounds of a layer or SDPA problem in text form, with its mask, batch and heads.
void print_problem_bounds(const std::string& text, index_t M, bool json);

// Members n, m, d, dv, tie and M.
Json sizes_json(const LayerShape& shape, index_t M);

// The re-associated products of attention without softmax, beside the bounds with it.
void print_linear(const LayerShape& shape, index_t M, bool json);

}  // namespace ioattn::tune
