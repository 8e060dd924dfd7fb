#pragma once

#include <cstdint>
#include <optional>

#include "api/known/known_plan.hpp"
#include "api/run_options.hpp"

namespace ioattn::api {

// The plan that calls take where none is searched for, of either problem: one that was kept, that
// of wisdom, or the estimate. complete(is_known) makes the latter, and does what any of them needs.
// Who asks what a plan costs or where it is from, or takes wisdom alone, has it found anew.
template <class Cache, class Request, class Set, class Plan, class Complete>
Status plan_without_search(const Request& request, const std::optional<Set>& set,
                           const RunOptions& options, bool takes_wisdom, bool is_asked,
                           Cache* cache, Plan* plan, PlanOrigin* origin, const Complete& complete) {
  const bool only_wisdom = options.rigor == wisdom::Rigor::wisdom_only;
  const bool looks_past = is_asked || origin != nullptr || only_wisdom;
  wisdom::Verdict verdict = {wisdom::Reason::off, "the options leave wisdom out"};
  std::optional<WisdomReading> known;
  if (takes_wisdom) known.emplace();
  const std::uint64_t generation = known ? (*known)->generation : 0;
  if (!looks_past && cache->find(request, set, generation, plan)) return Status::ok();
  if (known) verdict = find_plan(**known, request, set, plan);
  known.reset();
  if (origin != nullptr) *origin = {verdict.is_ok() ? "wisdom" : "estimate", verdict};
  if (only_wisdom && !verdict.is_ok()) {
    return Status::error(StatusCode::unsupported, "no wisdom: %s: %.200s", name_of(verdict.reason),
                         verdict.message.c_str());
  }
  const Status status = complete(verdict.is_ok());
  if (status.is_ok() && !looks_past) cache->keep(request, set, generation, *plan);
  return status;
}

}  // namespace ioattn::api
