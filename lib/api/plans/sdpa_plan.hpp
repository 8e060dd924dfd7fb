#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/plans/overflow_statistics.hpp"
#include "api/run/sdpa.hpp"
#include "api/run_options.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn::api {

class JsonObject;

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

    std::optional<SdpaSet> set() const {
      return pass == Pass::forward ? std::nullopt : std::optional(gradients);
    }
  };
  // Plans as the one-call functions do, after a search where the options ask for one.
  static Status create(const Goal& goal, const RunOptions& options, SdpaPlan* result);
  // The same after that search, which may have learned something.
  static Status create_as_known(const Goal& goal, const RunOptions& options, bool learned,
                                SdpaPlan* result);
  // From the text of a plan, as LayerPlan::parse.
  static Status parse(const Goal& goal, const RunOptions& options, std::string_view text,
                      SdpaPlan* result);

  const Goal& goal() const { return goal_; }
  const plan::SdpaPlan& plan() const { return plan_; }

  // As LayerPlan::workspace_bytes; and what is taken of it, which begins at an aligned address.
  index_t workspace_bytes() const;
  index_t aligned_bytes() const { return aligned_bytes_; }

  std::string text() const { return plan::to_text(plan_); }
  // One JSON object: phases with their blocks and words, kernel, work, what is stored, and what
  // executions counted.
  std::string describe(const OverflowStatistics& overflows = {}) const;
  // Words of all phases, and multiply-adds.
  theory::ScheduleCost cost() const;
  index_t fma() const;

  // Whether an execution has the problem that was planned.
  Status check(const SdpaProblem& given) const;

  // As api::sdpa_forward and sdpa_backward, of what check() has found fine; the gradients must be
  // those planned. `workspace` is null or holds workspace_bytes(). Null overflows: nobody counts.
  template <class S>
  Status forward(const SdpaInputs<S>& inputs, TensorView<S> o, TensorView<Compute<S>> lse,
                 void* workspace, index_t bytes, OverflowCounts* overflows = nullptr) const;
  template <class S, class G>
  Status backward(const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                  const SdpaGradients<G>& gradients, void* workspace, index_t bytes,
                  OverflowCounts* overflows = nullptr) const;

 private:
  bool is_forward() const { return goal_.pass == Pass::forward; }
  Status finish(const RunOptions& options);
  SdpaShape counted_shape() const;

  Goal goal_;
  plan::SdpaPlan plan_;
  index_t M_ = 0;
  int threads_ = 1;
  index_t aligned_bytes_ = 0;
  PlanOrigin origin_;
  const char* objective_ = nullptr;  // null: of a text
};

// Whether an execution has the problem, and the gradients, that were planned.
Status check_planned(const SdpaProblem& planned, const SdpaProblem& given);
Status check_planned(const SdpaSet& planned, const SdpaSet& given);

// What is planned, as a description tells it.
void add_goal(Pass pass, const SdpaSet& set, DType dtype, JsonObject* json);

}  // namespace ioattn::api
