#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/gradients.hpp"
#include "base/overflow_counts.hpp"
#include "base/sdpa.hpp"

namespace ioattn::api {

// A result that is rounded to 16 bits, and what OverflowCounts calls it.
struct RoundedResult {
  const char* name;
  Operand operand;
};
// Those of the forward pass, or of gradients; empty if nothing is rounded.
std::vector<RoundedResult> rounded_results(DType dtype);
std::vector<RoundedResult> rounded_results(DType dtype, const SdpaSet& gradients);
std::vector<RoundedResult> rounded_results(DType dtype, const GradientSet& gradients);

// What the executions of a plan count, from when they are asked to. Several threads may execute the
// plan at once.
class OverflowStatistics {
 public:
  void begin() {
    counts_.clear();
    executions_ = 0;
    is_asked_ = true;
  }
  void end() { is_asked_ = false; }
  // Null: not asked for.
  OverflowCounts* counts() { return is_asked_ ? &counts_ : nullptr; }
  void add_execution() { executions_ += is_asked_ ? 1 : 0; }

  // As JSON: null, or how many executions there were and the count of each result.
  std::string text(const std::vector<RoundedResult>& results) const;

 private:
  OverflowCounts counts_;
  std::atomic<index_t> executions_ = 0;
  std::atomic<bool> is_asked_ = false;
};

}  // namespace ioattn::api
