#pragma once

#include <string>
#include <vector>

#include "api/planning/session.hpp"
#include "base/layer_inputs.hpp"
#include "plan/layer/planner.hpp"
#include "theory/schedule_cost.hpp"
#include "tune/passes/pass_report.hpp"

// One pass of the layer problem: planned, run and timed, run once more under a counter, and held
// against its formula and its lower bound.
namespace ioattn::tune {

struct PlannedPass {
  Pass pass = Pass::backward;
  LayerProblem problem;
  index_t M = 0;
  plan::Plan plan;
};

// What the planner is asked. Empty problems are planned as if every size were at least 1.
plan::LayerRequest request_for(Pass pass, const LayerProblem& problem,
                               const api::RunOptions& options);

// The planner's choice. Empty problems are planned as if every size were at least 1.
PlannedPass plan_pass(Pass pass, const LayerProblem& problem, const api::RunOptions& options);

// As plan_pass, but if the options' schedule has no such pass, or does not fit M, any other is
// taken.
PlannedPass plan_pass_or_auto(Pass pass, const LayerProblem& problem,
                              const api::RunOptions& options);

// A candidate of the planner as a plan.
PlannedPass planned(const plan::LayerRequest& request, const plan::Candidate& candidate);

// Flops that count as work, 2 per multiply-add, every product taken once. With G = dO Y^T (form g)
//   forward  nd^2 + 2nmd + n d dv                  backward  2nd^2 + 3nmd + n d dv
// with h = A3 Y (form h; the paper's schedules too)
//   forward  nd^2 + nmd + nm dv + m d dv           backward  2nd^2 + 2nmd + nm dv + m d dv
// multiply-adds. At dv = d form g's backward is 3nmd + 3nd^2. Under a mask nm are the pairs of a
// query and a key that it sees; a batch counts as often as it has entries.
double nominal_flops(const PlannedPass& planned);

// What theory says of a pass that makes dX alone, or O and LSE: of the whole batch.
IoCost cost_of(Pass pass, const LayerProblem& problem, Schedule schedule, const Blocks& blocks,
               bool in_f32 = false);

// Words by which the run (or, for naive, the algorithm as printed, which keeps everything resident)
// exceeds M.
index_t overflow_words(const PlannedPass& planned);

struct RunMode {
  int threads = 1;
  bool timed = true;  // false: only the counted run
};

// Of a pass that runs, before it does.
PassReport report_of(const PlannedPass& planned);

// Sets the bound of a pass, unless a size of 0 leaves none.
void set_bound(const PlannedPass& planned, theory::AlgorithmClass algorithms, const BoundFor& bound,
               PassReport* report);

// The shape whose bounds hold: A1 that is A2 or A3, but not both, is compared with A1 = A2 = A3.
template <class T>
LayerShape bounded_shape(const LayerInputs<T>& inputs, const LayerShape& shape) {
  LayerShape bounded = shape;
  if (same_memory(inputs.a1, inputs.a2) || same_memory(inputs.a1, inputs.a3)) {
    bounded.tie = Tie::all;
  }
  return bounded;
}

// Of all entries.
template <class S>
struct ForwardValues {
  std::vector<S> o;
  std::vector<Compute<S>> lse;
};
template <class S>
struct ForwardResult {
  ForwardValues<S> values;
  MatrixView<const S> o;  // of the first entry, the others follow
  const Compute<S>* lse = nullptr;
};

// Each throws RunError if the results of the timed and the counted run differ in a bit, or the
// count differs from the formula. G: S or, in f32, Compute<S>.
template <class S>
PassReport run_forward(const LayerInputs<S>& inputs, const PlannedPass& planned, RunMode how,
                       ForwardResult<S>* result);
template <class S, class G>
PassReport run_backward(const LayerInputs<S>& inputs, MatrixView<const S> d_o,
                        MatrixView<const S> o, const Compute<S>* lse, const PlannedPass& planned,
                        RunMode how, std::vector<G>* dx);

}  // namespace ioattn::tune
