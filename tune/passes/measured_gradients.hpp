#pragma once

#include "base/gradients.hpp"
#include "plan/layer/gradient_planner.hpp"
#include "tune/passes/measured_pass.hpp"

// A set of gradients: planned, run and timed, run once more under a counter, and held against its
// formula.
namespace ioattn::tune {

struct PlannedGradients {
  GradientSet set;
  PlannedPass pass;  // what a report says of it: shape, M, the schedule of the rows
  plan::LayerPlan plan;
};
PlannedGradients plan_gradients(const LayerProblem& problem, const GradientSet& set,
                                const api::RunOptions& options);

template <class S>
struct GradientInputs {
  LayerInputs<S> layer;
  MatrixView<const S> d_o, o;
  const Compute<S>* lse = nullptr;
  MatrixView<const S> w_q, w_k;
};

template <class T>
struct NamedMatrix {
  const char* name;
  MatrixView<const T> first;  // the rows of other entries follow
  bool is_per_entry;
};

// One matrix after the other, in the order of named_gradients.
template <class T>
struct GradientResults {
  std::vector<T> words;
  std::vector<NamedMatrix<T>> matrices;
};

// Throws RunError as run_backward does. G: as the set says, S or Compute<S>.
template <class S, class G>
PassReport run_gradients(const GradientInputs<S>& inputs, const PlannedGradients& planned,
                         RunMode how, GradientResults<G>* results);

}  // namespace ioattn::tune
