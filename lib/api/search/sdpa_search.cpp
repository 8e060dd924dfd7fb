#include "api/search/sdpa_search.hpp"

#include <algorithm>

#include "api/run_options.hpp"

namespace ioattn::api {

SdpaProblem timed_problem(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                          int threads) {
  SdpaProblem timed = problem;
  const SdpaShape of = shape_to_plan(problem.shape);
  timed.shape = of;
  timed.shape.batch = 1;
  timed.shape.heads = timed.shape.kv_heads = std::min<index_t>(of.all_heads(), threads);
  timed.shape.mask = {};
  timed.shape.bias_batch = timed.shape.bias_heads = set && set->dBias ? 1 : 0;
  return timed;
}

Status SdpaKind::check_search(const RunOptions& options) {
  if (takes_wisdom(options)) return Status::ok();
  return Status::error(StatusCode::unsupported,
                       "a search is for time, with M and the level that decides from the machine");
}

}  // namespace ioattn::api
