#pragma once

#include "base/types.hpp"

// Terms of a product that kernels sum in registers before they add them to C: what the planner
// takes C's traffic from, and the kernels their loops.
namespace ioattn {

// Longest sum that one accumulator takes: error grows with 256 + depth/256 instead of depth.
constexpr index_t terms_per_accumulator = 256;

// Where rows of A are adjacent each term has a cache line of its own beside one of B, and 256 of
// both would be all of a small L1.
constexpr index_t adjacent_terms_per_accumulator = 128;

// Of single numbers: shorter sums err by less, what rounding pairs has cost is more than that.
template <class T>
constexpr index_t single_terms_per_accumulator = sizeof(T) == sizeof(float) ? 64 : 128;

}  // namespace ioattn
