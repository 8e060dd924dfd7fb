#pragma once

#include "base/sdpa.hpp"
#include "theory/bounds.hpp"

namespace ioattn::theory {

// F where one pass makes the gradients; P where dQ is made by a pass of its own beside that over
// the keys, which computes scores and q again.
AlgorithmClass class_of(const SdpaSet& set, const SdpaBlocks& blocks);

// Lower bounds for SDPA, whose Q, K, V and dO are distinct memory; O, LSE and delta may be given to
// the backward pass or computed in it. Heads of a group share K and V, all share M; entries and
// groups are independent. Sizes and M at least 1 but for dv, which is 0 where O is not wanted.
BoundSet sdpa_forward_bounds(const SdpaShape& shape, index_t M, bool lse = true);
BoundSet sdpa_backward_bounds(const SdpaShape& shape, const SdpaSet& set, index_t M);

}  // namespace ioattn::theory
