#pragma once

#include <string>

#include "api/known/layer_wisdom.hpp"
#include "api/known/other_kernels.hpp"
#include "api/known/sdpa_wisdom.hpp"
#include "plan/blocks/resources.hpp"
#include "plan/candidate.hpp"

// The plan that is known for a request, of either problem, and what may be wrong with one.
namespace ioattn::api {

// Kernels that are here, and blocks of a level that is there.
template <class Plan>
wisdom::Verdict check_place(const plan::Resources& request, const Plan& plan, DType dtype) {
  wisdom::Verdict verdict = check_kernels(request.tile, request.tile_only, plan.tile, dtype);
  if (!verdict.is_ok()) return verdict;
  const bool is_outer = plan.level == plan::outer_level && request.outer_M > request.M;
  if (plan.level == request.level || is_outer) return {};
  return {wisdom::Reason::blocks, "blocks in " + plan.level + ", which is not there"};
}

// Blocks that fit their level, and scratch memory within the limit.
template <class Plan>
wisdom::Verdict check_size(const plan::Resources& request, const Plan& plan,
                           const plan::Estimate& estimate) {
  const index_t footprint = estimate.cost.total().footprint;
  if (footprint > estimate.M) {
    return {wisdom::Reason::blocks, std::to_string(footprint) + " words do not fit the " +
                                        std::to_string(estimate.M) + " of " + plan.level};
  }
  if (request.memory_limit_bytes >= 0 && estimate.scratch_bytes > request.memory_limit_bytes) {
    return {wisdom::Reason::blocks, "it needs " + std::to_string(estimate.scratch_bytes) +
                                        " bytes of scratch memory, more than the limit"};
  }
  return {};
}

// The record of the request's class; nullptr if there is none.
template <class Request, class Set>
const wisdom::Record* find_record(const KnownWisdom& known, const Request& request,
                                  const std::optional<Set>& set) {
  const wisdom::Records* records = known.wisdom.records_of(known.environment(request.tile.isa));
  if (records == nullptr) return nullptr;
  const auto found = records->find(class_of(request, set));
  return found == records->end() ? nullptr : &found->second;
}

// Its plan, as read_plan finds it.
template <class Request, class Set, class Plan>
wisdom::Verdict find_plan(const KnownWisdom& known, const Request& request,
                          const std::optional<Set>& set, Plan* plan) {
  const wisdom::Record* record = find_record(known, request, set);
  if (record != nullptr) return read_plan(request, set, *record, plan);
  return {wisdom::Reason::absent, "nothing is known of " + to_text(class_of(request, set))};
}

}  // namespace ioattn::api
