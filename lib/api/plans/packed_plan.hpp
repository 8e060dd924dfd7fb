#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/plans/sdpa_plan.hpp"
#include "api/run/sdpa_sequences.hpp"
#include "api/run_options.hpp"

namespace ioattn::api {

// SdpaPlan of a packed batch: every shape among its sequences has an SdpaPlan.
class PackedPlan {
 public:
  static constexpr const char* kind = "packed sequences";

  // The problem has all rows as one entry, without a mask, which every sequence has.
  struct Goal : SdpaPlan::Goal {
    std::vector<Sequence> sequences;
  };
  // Plans as the one-call functions do, after a search for each class of the shapes where the
  // options ask for one.
  static Status create(const Goal& goal, const RunOptions& options, PackedPlan* result);
  // From what text() tells.
  static Status parse(const Goal& goal, const RunOptions& options, std::string_view text,
                      PackedPlan* result);

  const Goal& goal() const { return goal_; }

  // Of all sequences that are computed at a time, as SdpaPlan::workspace_bytes.
  index_t workspace_bytes() const;

  // The plans, each behind the shapes that have it: "512x512,80x96: PLAN | 7x9: PLAN".
  std::string text() const;
  // One JSON object: sums over all sequences, and of each shape how many have it and its plan.
  std::string describe(const OverflowStatistics& overflows = {}) const;

  // Whether an execution has what was planned: all but the sequences, and each of them.
  Status check(const SdpaProblem& problem, index_t sequences) const;
  Status check(index_t i, const Sequence& given) const;

  // As SdpaPlan::forward and backward, of what check() has found fine.
  template <class S>
  Status forward(const SdpaInputs<S>& inputs, TensorView<S> o, TensorView<Compute<S>> lse,
                 void* workspace, index_t bytes, OverflowCounts* overflows = nullptr) const;
  template <class S, class G>
  Status backward(const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                  const SdpaGradients<G>& gradients, void* workspace, index_t bytes,
                  OverflowCounts* overflows = nullptr) const;

 private:
  // Has plan(i, shape, result) make the plan of every shape.
  template <class Plan>
  Status plan_shapes(const Plan& plan);
  SdpaPlan::Goal goal_of(const PackedShape& shape) const {
    return {goal_.pass, shape.problem, goal_.gradients};
  }

  Goal goal_;
  PackedWork work_;
  std::vector<SdpaPlan> plans_;  // of work_.shapes()
};

}  // namespace ioattn::api
