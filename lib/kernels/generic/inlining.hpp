#pragma once

#include "base/types.hpp"

// A kernel is one function: everything that it calls is inlined, so that no code is shared between
// the objects of different ISAs.
#define IOATTN_KERNEL __attribute__((flatten, noinline))
#define IOATTN_INLINE inline __attribute__((always_inline))

namespace ioattn::kernels {

// Longest sum that one accumulator takes: error grows with 256 + depth/256 instead of depth.
constexpr index_t terms_per_accumulator = 256;

}  // namespace ioattn::kernels
