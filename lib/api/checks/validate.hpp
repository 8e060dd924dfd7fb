#pragma once

#include <optional>

#include "base/layer_inputs.hpp"
#include "base/status.hpp"
#include "plan/layer/gradient_planner.hpp"

namespace ioattn::api {

Status invalid(const char* message);

// A scale is finite, and 0 only if it is given as 0, as the type that sums of the dtype have.
Status validate_scale(double scale, DType dtype);

// Sizes are not negative and the schedules' own products of sizes fit in 64 bits.
Status validate_shape(const LayerShape& shape);
// The same for a batch of at least 1, and the scale.
Status validate_problem(const LayerProblem& problem);

// The same for the products with W_Q or W_K [d, dk].
Status validate_weights(index_t d, index_t dk);

// Block sizes may exceed the problem's, but begin + size must not overflow.
constexpr index_t largest_block = index_t(1) << 40;

// The plan's schedule exists for the pass, takes the mask if there is one and operands of the
// dtype, and its blocks are positive where the schedule uses them.
Status validate_plan(Pass pass, const plan::Plan& plan, const Mask& mask, DType dtype);
// The same for every phase that the gradients take; no set: of the forward pass.
Status validate_plan(const plan::LayerPlan& plan, const std::optional<GradientSet>& gradients,
                     const LayerShape& shape, DType dtype);

}  // namespace ioattn::api
