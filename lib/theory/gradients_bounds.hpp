#pragma once

#include "base/gradients.hpp"
#include "theory/bounds.hpp"

namespace ioattn::theory {

// F where every product of pairs is computed once; P where gradients of queries and of keys are
// made by a pass each, or dX alone by a schedule that is outside F.
AlgorithmClass class_of(const GradientSet& set, const LayerBlocks& blocks, Tie tie);

// Lower bounds for a set of gradients of the layer problem, as layer_bounds says for dX; the F
// bounds are those of dX, and 0 where it is not in the set.
BoundSet gradients_bounds(const LayerShape& shape, const GradientSet& set, index_t M,
                          index_t batch = 1);

}  // namespace ioattn::theory
