#pragma once

#include <optional>
#include <string_view>

#include "api/kernels_in_use.hpp"
#include "api/known/price.hpp"
#include "api/run_options.hpp"
#include "base/layer_inputs.hpp"
#include "base/problem.hpp"
#include "base/status.hpp"
#include "kernels/registry.hpp"
#include "plan/layer/planner.hpp"
#include "wisdom/wisdom.hpp"

namespace ioattn::api {

// What plans are compared by: of time as it was measured, where wisdom has a say; and where that is
// from.
plan::Price price_of(const RunOptions& options, Isa isa, DType dtype);
KnownPrice known_price(const RunOptions& options, Isa isa, DType dtype);

// min(requested, what affinity, now, and the CPU quota leave), at least 1.
int granted_threads(int requested);

// Words of L3 that blocks may be held in where L2 decides and is too small for the fastest ones; 0
// without L3. At most untrusted_outer_bytes in a virtual machine, which may tell the size of an L3
// of which it has a part.
inline constexpr index_t untrusted_outer_bytes = index_t(4) << 20;
index_t outer_fast_memory(DType dtype);

// What a plan for a dtype may take.
Status find_resources(DType dtype, const RunOptions& options, plan::Resources* resources);

// What the planner is asked, for shape_to_plan.
Status plan_request(Pass pass, LayerProblem problem, const RunOptions& options,
                    plan::LayerRequest* request);

// The plan of one pass; *request and *chosen, if not null, tell how it came about.
Status plan_pass(Pass pass, const LayerProblem& problem, const RunOptions& options,
                 plan::Plan* plan, plan::LayerRequest* request = nullptr,
                 plan::Candidate* chosen = nullptr);

}  // namespace ioattn::api
