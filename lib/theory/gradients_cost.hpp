#pragma once

#include "base/gradients.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn::theory {

// Exact I/O of a set of gradients, phase by phase: the sum over the phases that it takes. Sizes at
// least 1, blocks positive where a phase uses them. Of a problem in 16 bits results are rounded at
// the end unless they are wanted in f32.
ScheduleCost gradients_cost(const LayerShape& shape, const GradientSet& set,
                            const LayerBlocks& blocks, const Batch& batch = {},
                            DType dtype = DType::f32);

// Multiply-adds as fma_count counts them.
index_t gradients_fma(const LayerShape& shape, const GradientSet& set, const LayerBlocks& blocks,
                      index_t entries = 1);

}  // namespace ioattn::theory
