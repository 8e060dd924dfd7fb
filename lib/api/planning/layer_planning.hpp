#pragma once

#include <optional>

#include "api/run_options.hpp"
#include "plan/layer/layer_candidates.hpp"

namespace ioattn::api {

// Whether wisdom has a say: not where the caller names a schedule, either.
bool takes_layer_wisdom(const RunOptions& options);

// plan_sdpa's counterpart. No set: the forward pass (plan/layer/layer_candidates.hpp).
Status plan_layer(const LayerProblem& problem, const std::optional<GradientSet>& set,
                  const RunOptions& options, plan::LayerPlan* plan,
                  plan::Estimate* estimate = nullptr, PlanOrigin* origin = nullptr);

// Of the forward pass that a backward one runs first where it is given neither O nor LSE.
Status plan_layer_before(const LayerProblem& problem, Schedule backward, const RunOptions& options,
                         plan::LayerPlan* plan);

}  // namespace ioattn::api
