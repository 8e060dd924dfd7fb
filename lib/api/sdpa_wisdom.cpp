#include "api/sdpa_wisdom.hpp"

#include "api/sdpa.hpp"
#include "plan/fast_memory.hpp"
#include "plan/sdpa_candidates.hpp"

namespace ioattn::api {
namespace {

using wisdom::Reason;
using wisdom::Verdict;

struct NamedGradient {
  const char* name;
  bool SdpaSet::*wanted;
};
constexpr NamedGradient gradients[] = {
    {"dQ", &SdpaSet::dQ}, {"dK", &SdpaSet::dK}, {"dV", &SdpaSet::dV}, {"dBias", &SdpaSet::dBias}};

}  // namespace

std::string name_of_pass(const std::optional<SdpaSet>& set) {
  if (!set) return name_of(Pass::forward);
  std::string name;
  for (const NamedGradient& gradient : gradients)
    if ((*set).*gradient.wanted) name += (name.empty() ? "" : "+") + std::string(gradient.name);
  return name;
}

bool parse_pass(const std::string& name, std::optional<SdpaSet>* set) {
  set->reset();
  if (name == name_of(Pass::forward)) return true;
  // Of the few sets that there are the one of that name.
  for (unsigned wanted = 1; wanted < 16; ++wanted) {
    SdpaSet trial;
    for (unsigned i = 0; i < 4; ++i) trial.*gradients[i].wanted = (wanted >> i & 1u) != 0;
    if (name_of_pass(trial) != name) continue;
    *set = trial;
    return true;
  }
  return false;
}

wisdom::ProblemClass class_of(const SdpaShape& shape, DType dtype,
                              const std::optional<SdpaSet>& set) {
  return {name_of_pass(set), name_of(dtype),           shape.d,
          shape.dv,          wisdom::log2_of(shape.n), wisdom::log2_of(shape.m)};
}

Verdict read_plan(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                  const wisdom::Record& record, plan::SdpaPlan* plan) {
  plan::SdpaPlan parsed;
  std::string error;
  if (!(set ? plan::parse_sdpa_plan(record.plan, *set, &parsed, &error)
            : plan::parse_sdpa_plan(record.plan, &parsed, &error))) {
    return {Reason::plan, error};
  }
  if (parsed.isa != request.tile.isa || parsed.tile_rows != request.tile.rows ||
      parsed.tile_cols != request.tile.cols) {
    return {Reason::kernel, "calls use " + std::string(name_of(request.tile.isa)) + "(" +
                                std::to_string(request.tile.rows) + "x" +
                                std::to_string(request.tile.cols) + "): " + record.plan};
  }
  const Status valid = set ? validate_plan(parsed, *set) : validate_plan(parsed);
  if (!valid.is_ok()) return {Reason::blocks, valid.message()};
  const bool is_outer = parsed.level == plan::outer_level && request.outer_M > request.M;
  if (parsed.level != request.level && !is_outer) {
    return {Reason::blocks, "blocks in " + parsed.level + ", which is not there"};
  }
  plan::SdpaEstimate estimate;
  plan::estimate_costs(request, set, parsed, &estimate);
  const index_t footprint = estimate.cost.total().footprint;
  if (footprint > estimate.M) {
    return {Reason::blocks, std::to_string(footprint) + " words do not fit the " +
                                std::to_string(estimate.M) + " of " + parsed.level};
  }
  if (request.memory_limit_bytes >= 0 && estimate.scratch_bytes > request.memory_limit_bytes) {
    return {Reason::blocks, "it needs " + std::to_string(estimate.scratch_bytes) +
                                " bytes of scratch memory, more than the limit"};
  }
  *plan = std::move(parsed);
  return {};
}

const wisdom::Record* find_record(const KnownWisdom& known, const plan::SdpaRequest& request,
                                  const std::optional<SdpaSet>& set) {
  const wisdom::Records* records = known.wisdom.records_of(known.environment(request.tile.isa));
  if (records == nullptr) return nullptr;
  const auto found = records->find(class_of(request.shape, request.dtype, set));
  return found == records->end() ? nullptr : &found->second;
}

Verdict find_plan(const KnownWisdom& known, const plan::SdpaRequest& request,
                  const std::optional<SdpaSet>& set, plan::SdpaPlan* plan) {
  const wisdom::Record* record = find_record(known, request, set);
  if (record != nullptr) return read_plan(request, set, *record, plan);
  return {Reason::absent,
          "nothing is known of " + to_text(class_of(request.shape, request.dtype, set))};
}

}  // namespace ioattn::api
