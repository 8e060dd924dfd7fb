#pragma once

#include <string>

#include "api/known/other_kernels.hpp"
#include "api/known/wisdom_state.hpp"
#include "plan/blocks/resources.hpp"
#include "plan/candidate.hpp"

// What may be wrong with the plan of a record, of either problem.
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

// The record of a class here; nullptr if there is none.
inline const wisdom::Record* record_of(const KnownWisdom& known, Isa isa,
                                       const wisdom::ProblemClass& of) {
  const wisdom::Records* records = known.wisdom.records_of(known.environment(isa));
  if (records == nullptr) return nullptr;
  const auto found = records->find(of);
  return found == records->end() ? nullptr : &found->second;
}
inline wisdom::Verdict unknown_class(const wisdom::ProblemClass& of) {
  return {wisdom::Reason::absent, "nothing is known of " + to_text(of)};
}

}  // namespace ioattn::api
