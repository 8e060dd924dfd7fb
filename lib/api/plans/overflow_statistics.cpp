#include "api/plans/overflow_statistics.hpp"

#include "api/plans/describe.hpp"

namespace ioattn::api {
namespace {

// Of the gradients in a set.
template <class Set, class Named, std::size_t count>
std::vector<RoundedResult> rounded(DType dtype, const Set& set, const Named (&gradients)[count]) {
  std::vector<RoundedResult> results;
  for (const Named& gradient : gradients) {
    if (set.rounds(dtype) && set.*gradient.wanted)
      results.push_back({gradient.name, gradient.operand});
  }
  return results;
}

}  // namespace

std::vector<RoundedResult> rounded_results(DType dtype) {
  if (!is_half(dtype)) return {};
  return {{"O", Operand::O}};
}

std::vector<RoundedResult> rounded_results(DType dtype, const SdpaSet& gradients) {
  return rounded(dtype, gradients, named_sdpa_gradients);
}

std::vector<RoundedResult> rounded_results(DType dtype, const GradientSet& gradients) {
  return rounded(dtype, gradients, named_gradients);
}

std::string OverflowStatistics::text(const std::vector<RoundedResult>& results) const {
  if (!is_asked_) return "null";
  JsonObject json;
  json.add("executions", index_t{executions_});
  for (const auto& [name, operand] : results) json.add(name, counts_.of(operand));
  return json.text();
}

}  // namespace ioattn::api
