#include "api/overflow_statistics.hpp"

#include "api/describe.hpp"

namespace ioattn::api {
namespace {

struct Candidate {
  bool is_wanted;
  RoundedResult result;
};

std::vector<RoundedResult> wanted(bool rounds, std::initializer_list<Candidate> candidates) {
  std::vector<RoundedResult> results;
  for (const auto& [is_wanted, result] : candidates)
    if (rounds && is_wanted) results.push_back(result);
  return results;
}

}  // namespace

std::vector<RoundedResult> rounded_results(DType dtype) {
  return wanted(is_half(dtype), {{true, {"O", Operand::O}}});
}

std::vector<RoundedResult> rounded_results(DType dtype, const SdpaSet& gradients) {
  return wanted(gradients.rounds(dtype), {{gradients.dQ, {"dQ", Operand::dQ}},
                                          {gradients.dK, {"dK", Operand::dA2}},
                                          {gradients.dV, {"dV", Operand::W}},
                                          {gradients.dBias, {"dBias", Operand::dBias}}});
}

std::vector<RoundedResult> rounded_results(DType dtype, const GradientSet& gradients) {
  return wanted(gradients.rounds(dtype), {{gradients.dX, {"dX", Operand::dX}},
                                          {gradients.dY, {"dY", Operand::dY}},
                                          {gradients.dA1, {"dA1", Operand::dA1}},
                                          {gradients.dA2, {"dA2", Operand::dA2}},
                                          {gradients.dA3, {"dA3", Operand::dA3}},
                                          {gradients.dA, {"dA", Operand::dA}},
                                          {gradients.dW_Q, {"dW_Q", Operand::dW_Q}},
                                          {gradients.dW_K, {"dW_K", Operand::dW_K}}});
}

std::string OverflowStatistics::text(const std::vector<RoundedResult>& results) const {
  if (!is_asked_) return "null";
  JsonObject json;
  json.add("executions", index_t{executions_});
  for (const auto& [name, operand] : results) json.add(name, counts_.of(operand));
  return json.text();
}

}  // namespace ioattn::api
