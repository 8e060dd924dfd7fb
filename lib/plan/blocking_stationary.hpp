#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"

namespace ioattn::plan {

// Every block that the variant uses is one word.
Blocks unit_stationary(const Variant& variant);

// Blocks of `stationary` for M words, at least the footprint of unit_stationary: each product alone
// takes the least time, with one tile of its result resident where the product is n x m.
Blocks choose_stationary(const Variant& variant, const LayerShape& shape, index_t M);

}  // namespace ioattn::plan
