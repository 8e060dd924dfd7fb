#pragma once

#include "api/run_options.hpp"
#include "base/sdpa.hpp"
#include "plan/sdpa/sdpa_planner.hpp"

namespace ioattn::api {

// Multiply-adds of the forward pass, whatever the mask hides; and the threads that a call of so
// much work takes: those granted, but none for so little that it would start later than others
// could have ended.
index_t work_of(const SdpaShape& shape);
int threads_for(index_t work, const RunOptions& options);

// Plans a set of gradients of a valid problem: as wisdom says where there is some, else, unless it
// alone was asked for, as is estimated. Nothing is timed (search/sdpa_search.hpp).
Status plan_sdpa(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                 const RunOptions& options, plan::SdpaPlan* plan,
                 plan::Estimate* estimate = nullptr, PlanOrigin* origin = nullptr);

// What the planner is asked for a valid problem.
Status sdpa_request(const SdpaProblem& problem, const RunOptions& options,
                    plan::SdpaRequest* request);

}  // namespace ioattn::api
