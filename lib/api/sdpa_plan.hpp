#pragma once

#include <string>
#include <string_view>

#include "api/overflow_statistics.hpp"
#include "api/sdpa.hpp"

namespace ioattn::api {

// LayerPlan's counterpart for SDPA: the forward pass, or a set of gradients, planned for one
// problem and a number of threads. Several threads may execute it at once.
class SdpaPlan {
 public:
  static constexpr const char* kind = "SDPA";

  // What is planned: gradients, at least one, for Pass::backward alone.
  struct Goal {
    Pass pass = Pass::forward;
    SdpaProblem problem;
    SdpaSet gradients;
  };
  // Plans as the one-call functions do.
  static Status create(const Goal& goal, const RunOptions& options, SdpaPlan* result);
  // From the text of a plan, as LayerPlan::parse.
  static Status parse(const Goal& goal, const RunOptions& options, std::string_view text,
                      SdpaPlan* result);

  const Goal& goal() const { return goal_; }

  // As LayerPlan::workspace_bytes.
  index_t workspace_bytes() const { return workspace_bytes_; }

  std::string text() const { return plan::to_text(plan_); }
  // One JSON object: phases with their blocks and words, kernel, work, what is stored, and what
  // executions counted.
  std::string describe(const OverflowStatistics& overflows = {}) const;

  // As api::sdpa_forward and sdpa_backward. The problem must be the planned one, the gradients
  // those planned. `workspace` is null or holds workspace_bytes(). Null overflows: nobody counts.
  template <class S>
  Status forward(const SdpaProblem& problem, const SdpaInputs<S>& inputs, TensorView<S> o,
                 TensorView<Compute<S>> lse, void* workspace, index_t bytes,
                 OverflowCounts* overflows = nullptr) const;
  template <class S, class G>
  Status backward(const SdpaProblem& problem, const SdpaInputs<S>& inputs,
                  const SdpaForwardResults<S>& forward, const SdpaGradients<G>& gradients,
                  void* workspace, index_t bytes, OverflowCounts* overflows = nullptr) const;

 private:
  bool is_forward() const { return goal_.pass == Pass::forward; }
  Status finish(const RunOptions& options);
  Status check_problem(const SdpaProblem& given) const;

  Goal goal_;
  plan::SdpaPlan plan_;
  index_t M_ = 0;
  int threads_ = 1;
  index_t workspace_bytes_ = 0;
  PlanOrigin origin_;
  const char* objective_ = nullptr;  // null: of a text
};

}  // namespace ioattn::api
