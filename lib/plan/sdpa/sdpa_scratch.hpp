#pragma once

#include "plan/sdpa/sdpa_planner.hpp"

namespace ioattn::plan {

// Numbers: sums of dQ that are made on the way of a pass over the keys and rounded at its end.
index_t sums_of_dq(const SdpaRequest& request, const SdpaSet& set, bool one_pass);

// Bytes of delta, of so many queries, and of sums of dQ.
index_t scratch_bytes(const SdpaSet& set, index_t queries, index_t sums, DType dtype);

}  // namespace ioattn::plan
