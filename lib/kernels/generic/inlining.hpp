#pragma once

#include "base/types.hpp"

// A kernel is one function: everything that it calls is inlined, so that no code is shared between
// the objects of different ISAs.
#define IOATTN_KERNEL __attribute__((flatten, noinline))
#define IOATTN_INLINE inline __attribute__((always_inline))
