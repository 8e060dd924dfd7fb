#pragma once

#include <optional>

#include "base/sdpa.hpp"
#include "plan/sdpa/sdpa_plan.hpp"

// What instruction sets are compared by.
namespace ioattn::plan {

// About how long the kernels of a plan take for a head without its mask, in multiply-adds that its
// instruction set makes: products with the lanes that are computed for nothing, on either side of
// them, and softmax. Estimates of plans of one instruction set leave out what all of these have
// alike. Of sums its vectors compute a multiple of so many columns. 0: not known, of products of
// pairs.
double kernel_time(const SdpaShape& shape, const std::optional<SdpaSet>& set, DType dtype,
                   const SdpaPlan& plan, index_t least_columns);

}  // namespace ioattn::plan
