#pragma once

#include <optional>

#include "base/sdpa.hpp"
#include "base/status.hpp"
#include "plan/sdpa/sdpa_plan.hpp"

namespace ioattn::api {

// Sizes are not negative, heads fit, the scale is finite, and products of sizes fit in 64 bits.
Status validate_problem(const SdpaProblem& problem);

// A backward pass has nothing to multiply: gradients are 0.
bool is_trivial(const SdpaShape& shape);

// The blocks are positive where a set of gradients takes them. No set, here and below: the forward
// pass.
Status validate_plan(const plan::SdpaPlan& plan, const std::optional<SdpaSet>& set);

}  // namespace ioattn::api
