#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "plan/objective.hpp"

namespace ioattn::plan {

// The smallest blocks of `stationary` and `score_stored`: one word, or one row where rows stay.
Blocks smallest_stationary(const Variant& variant, const LayerShape& shape);

// Blocks for M words, at least the footprint of the smallest ones: each product alone costs
// least. In the n x m products of `stationary` one tile of the result stays, in
// those of `score_stored` whole rows of S and then of Z (or O).
Blocks choose_stationary(const Variant& variant, const LayerShape& shape, index_t M,
                         const Price& price);

}  // namespace ioattn::plan
