#include "api/sdpa.hpp"

#include <algorithm>

#include "api/plan_cache.hpp"
#include "api/plan_without_search.hpp"
#include "api/sdpa_estimate.hpp"
#include "api/sdpa_wisdom.hpp"
#include "api/validate.hpp"
#include "base/checked_size.hpp"
#include "plan/sdpa_candidates.hpp"

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

bool is_trivial(const SdpaShape& shape) {
  return shape.batch == 0 || shape.heads == 0 || shape.n == 0 || shape.dv == 0 ||
         seen_keys(shape.head()).is_empty();
}

SdpaShape shape_to_plan(SdpaShape shape) {
  for (index_t SdpaShape::*size : {&SdpaShape::batch, &SdpaShape::kv_heads, &SdpaShape::n,
                                   &SdpaShape::m, &SdpaShape::d, &SdpaShape::dv}) {
    shape.*size = std::max<index_t>(shape.*size, 1);
  }
  shape.heads = std::max(shape.heads, shape.kv_heads);
  return shape;
}

Status validate_problem(const SdpaProblem& problem) {
  const SdpaShape& s = problem.shape;
  for (const index_t size : {s.batch, s.heads, s.kv_heads, s.n, s.m, s.d, s.dv}) {
    if (size < 0) return invalid("a size is negative");
  }
  if (s.kv_heads == 0 ? s.heads != 0 : s.heads % s.kv_heads != 0) {
    return Status::error(StatusCode::invalid_argument,
                         "%lld query heads are no multiple of %lld heads of keys",
                         static_cast<long long>(s.heads), static_cast<long long>(s.kv_heads));
  }
  const auto fits = [](index_t given, index_t all) { return given == 1 || given == all; };
  if (s.bias_batch != 0 || s.bias_heads != 0) {
    if (!fits(s.bias_batch, s.batch)) return invalid("bias_batch is neither 1 nor batch");
    if (!fits(s.bias_heads, s.heads)) return invalid("bias_heads is neither 1 nor heads");
  }
  const Status scale = validate_scale(problem.scale, problem.dtype);
  if (!scale.is_ok()) return scale;
  // The largest figures anywhere: multiply-adds, words and bytes of all passes.
  const CheckedSize n = CheckedSize(s.n) + 1, m = CheckedSize(s.m) + 1;
  const CheckedSize width = CheckedSize(s.d) + CheckedSize(s.dv) + 1;
  const CheckedSize heads = (CheckedSize(s.batch) + 1) * (CheckedSize(s.heads) + 1);
  const CheckedSize pairs = n * m * width * heads * CheckedSize(16);
  const CheckedSize products = (n + m) * width * width * CheckedSize(16);
  if (!pairs.overflow() && !products.overflow()) return Status::ok();
  return Status::error(StatusCode::size_overflow, "%s: the work does not fit in 64 bits",
                       to_text(problem).c_str());
}

index_t work_of(const SdpaShape& s) { return s.all_heads() * s.n * s.m * (s.d + s.dv); }

int threads_for(index_t work, const RunOptions& options) {
  constexpr index_t worth_a_thread = index_t(1) << 19;  // 10 to 30 microseconds
  const index_t useful = 1 + work / worth_a_thread;
  if (useful == 1) return 1;
  return static_cast<int>(std::min<index_t>(granted_threads(options.threads), useful));
}

Status validate_plan(const plan::SdpaPlan& plan, const std::optional<SdpaSet>& set) {
  if (!plan::has_blocks(plan.blocks, set)) return invalid("the plan is none of this SDPA pass");
  index_t largest = 0;
  for (const Blocks* of : {&plan.blocks.rows, &plan.blocks.keys})
    for (const SizeField& field : size_fields()) largest = std::max(largest, of->*field.size);
  return largest <= largest_block ? Status::ok() : invalid("a block size of the plan exceeds 2^40");
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
