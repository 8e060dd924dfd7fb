#pragma once

#include "base/sdpa.hpp"
#include "theory/io_cost.hpp"

namespace ioattn::theory {

// Exact I/O of the SDPA problem, phase by phase: the passes of its heads. Sizes at least 1 but for
// dv, which is 0 where O is not wanted; blocks positive where a phase uses them. The scale costs
// nothing: it is taken into rows of Q that are resident, and into those of dQ.
ScheduleCost sdpa_forward_cost(const SdpaShape& shape, const Blocks& blocks, bool lse = true);
ScheduleCost sdpa_backward_cost(const SdpaShape& shape, const SdpaSet& set,
                                const SdpaBlocks& blocks);

// Multiply-adds of visible pairs, as fma_count counts them.
index_t sdpa_forward_fma(const SdpaShape& shape);
index_t sdpa_backward_fma(const SdpaShape& shape, const SdpaSet& set, bool one_pass);

}  // namespace ioattn::theory
