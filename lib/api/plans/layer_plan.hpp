#pragma once

#include <optional>
#include <string>

#include "api/plans/overflow_statistics.hpp"
#include "api/run_options.hpp"
#include "base/gradients.hpp"
#include "base/layer_inputs.hpp"
#include "plan/layer/layer_plan.hpp"

namespace ioattn::api {

// The forward pass, or a set of gradients, planned for one shape and a number of threads. A value
// that never changes: several threads may execute it at once.
class LayerPlan {
 public:
  static constexpr const char* kind = "the layer problem";

  // What is planned: gradients, at least one, for Pass::backward alone.
  struct Goal {
    Pass pass = Pass::forward;
    LayerProblem problem;
    GradientSet gradients;
  };
  // Plans as the one-call functions do, after a search if the options ask for one.
  static Status create(const Goal& goal, const RunOptions& options, LayerPlan* result);
  // From the text of a plan (plan::to_text); the options give threads and, for what describe()
  // says, the M of level "M" and which L3 is meant (adopt_parsed). The text's instruction set and
  // register tile must be those of this CPU's kernels.
  static Status parse(const Goal& goal, const RunOptions& options, std::string_view text,
                      LayerPlan* result);

  const Goal& goal() const { return goal_; }

  // Bytes that an execution takes from memory lent by the caller, whatever its alignment; exact but
  // for that. Without lent memory so much comes from the heap.
  index_t workspace_bytes() const { return workspace_bytes_; }

  std::string text() const;
  // One JSON object: schedule, blocks, kernel, words, bound, flops, and what executions counted.
  std::string describe(const OverflowStatistics& overflows = {}) const;

  // As api::layer_forward and layer_gradients. Inputs must be the planned problem, operands planned
  // as one memory must be one, the gradients those planned. `workspace` is null or holds
  // workspace_bytes(). Null overflows: nobody counts them.
  template <class S>
  Status forward(const LayerInputs<S>& inputs, MatrixView<S> o, Compute<S>* lse, void* workspace,
                 index_t bytes, OverflowCounts* overflows = nullptr) const;
  template <class S, class G>
  Status backward(const LayerInputs<S>& inputs, MatrixView<const S> d_o, MatrixView<const S> o,
                  const Compute<S>* lse, const LayerGradients<G, S>& gradients, void* workspace,
                  index_t bytes, OverflowCounts* overflows = nullptr) const;

 private:
  bool is_forward() const { return goal_.pass == Pass::forward; }
  std::optional<GradientSet> set() const;  // none: the forward pass
  Status finish(const RunOptions& options);
  Status check_problem(const LayerProblem& problem) const;

  Goal goal_;
  plan::LayerPlan plan_;  // of the forward pass schedule and rows
  index_t M_ = 0;
  int threads_ = 1;
  index_t workspace_bytes_ = 0;
  PlanOrigin origin_;
  const char* objective_ = nullptr;  // null: of a text
};

}  // namespace ioattn::api
