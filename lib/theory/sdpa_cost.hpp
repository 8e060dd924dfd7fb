#pragma once

#include "base/sdpa.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn::theory {

// Exact I/O of the SDPA problem, phase by phase: the passes of its heads. Sizes at least 1 but for
// dv, which is 0 where O is not wanted; blocks positive where a phase uses them. The scale costs
// nothing: it is taken into rows of Q that are resident, and into those of dQ. Words are of the
// dtype: of 16 bits, f32 weighs 2, and whatever is resident is f32 or, where tiles are products of
// `pairs`, all but these tiles and sums (sdpa_half_cost.hpp).
ScheduleCost sdpa_forward_cost(const SdpaShape& shape, const Blocks& blocks, bool lse = true,
                               DType dtype = DType::f32, bool pairs = false);
ScheduleCost sdpa_backward_cost(const SdpaShape& shape, const SdpaSet& set,
                                const SdpaBlocks& blocks, DType dtype = DType::f32,
                                bool pairs = false);

// Multiply-adds of visible pairs, as fma_count counts them.
index_t sdpa_forward_fma(const SdpaShape& shape);
index_t sdpa_backward_fma(const SdpaShape& shape, const SdpaSet& set, const SdpaBlocks& blocks);

}  // namespace ioattn::theory
