#include "api/known/sdpa_wisdom.hpp"

#include "api/checks/validate_sdpa.hpp"
#include "api/known/known_plan.hpp"
#include "api/known/pass_name.hpp"
#include "plan/sdpa/sdpa_candidates.hpp"

namespace ioattn::api {

using wisdom::Reason;
using wisdom::Verdict;

std::string name_of_pass(const std::optional<SdpaSet>& set) {
  return name_of_pass(set, named_sdpa_gradients);
}

bool parse_pass(const std::string& name, std::optional<SdpaSet>* set) {
  return parse_pass(name, named_sdpa_gradients, set);
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
  if (!plan::parse_sdpa_plan(record.plan, set, &parsed, &error)) return {Reason::plan, error};
  const Status valid = validate_plan(parsed, set);
  Verdict verdict = check_place(request, parsed, request.dtype);
  if (verdict.reason == Reason::kernel) return verdict;
  if (!valid.is_ok()) return {Reason::blocks, valid.message()};
  if (!verdict.is_ok()) return verdict;
  take_whole_strips(Schedule::row_stream, request.shape.n, &parsed.blocks.rows);
  plan::Estimate estimate;
  plan::estimate_costs(request, set, parsed, &estimate);
  verdict = check_size(request, parsed, estimate);
  if (!verdict.is_ok()) return verdict;
  *plan = std::move(parsed);
  return {};
}

}  // namespace ioattn::api
