#include "api/planning/sdpa_planning.hpp"

#include <algorithm>

#include "api/checks/validate_sdpa.hpp"
#include "api/planning/plan_cache.hpp"
#include "api/planning/plan_without_search.hpp"
#include "api/planning/sdpa_estimate.hpp"
#include "api/planning/session.hpp"
#include "plan/sdpa/sdpa_candidates.hpp"

namespace ioattn::api {

Status sdpa_request(const SdpaProblem& problem, const RunOptions& options,
                    plan::SdpaRequest* request) {
  const Status status = validate_problem(problem);
  if (!status.is_ok()) return status;
  if (options.schedule && *options.schedule != Schedule::row_stream) {
    return Status::error(StatusCode::unsupported,
                         "SDPA takes the schedules auto and row_stream, not %s",
                         name_of(*options.schedule));
  }
  request->shape = shape_to_plan(problem.shape);
  request->dtype = problem.dtype;
  const Status found = find_resources(problem.dtype, options, request);
  if (is_trivial(problem.shape)) request->memory_limit_bytes = -1;  // none is taken
  return found;
}

index_t work_of(const SdpaShape& s) { return s.all_heads() * s.n * s.m * (s.d + s.dv); }

int threads_for(index_t work, const RunOptions& options) {
  constexpr index_t worth_a_thread = index_t(1) << 19;  // 10 to 30 microseconds
  const index_t useful = 1 + work / worth_a_thread;
  if (useful == 1) return 1;
  return static_cast<int>(std::min<index_t>(granted_threads(options.threads), useful));
}

Status plan_sdpa(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                 const RunOptions& options, plan::SdpaPlan* plan, plan::Estimate* estimate,
                 PlanOrigin* origin) {
  plan::SdpaRequest request;
  const Status status = sdpa_request(problem, options, &request);
  if (!status.is_ok()) return status;
  const auto complete = [&](bool is_known) {
    Status made = Status::ok();
    if (!is_known) {
      made = estimate_sdpa(request, set, options, plan, estimate);
    } else {
      const index_t queries = request.shape.all_queries();
      if (set) made = plan::check_scratch(*set, queries, request.dtype, request.memory_limit_bytes);
      if (estimate != nullptr) plan::estimate_costs(request, set, *plan, estimate);
    }
    if (made.is_ok() && !set && request.shape.has_grouped_rows()) {
      plan::add_rows_of_group(request, plan);
      if (estimate != nullptr) plan::estimate_costs(request, set, *plan, estimate);
    }
    return made;
  };
  return plan_without_search(request, set, options, takes_wisdom(options), estimate != nullptr,
                             &sdpa_plans(), plan, origin, complete);
}

}  // namespace ioattn::api
