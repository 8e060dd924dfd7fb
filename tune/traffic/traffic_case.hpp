#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/planning/session.hpp"
#include "base/observer.hpp"
#include "base/problem.hpp"
#include "base/sdpa.hpp"
#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"
#include "tune/files/layer_files.hpp"

// A pass whose traffic is measured: planned for one M after another and run, watched or not, on one
// thread or on several.
namespace ioattn::tune {

// A plan of a pass, and what theory says of it.
struct TrafficPlan {
  std::string level;  // whose M the blocks fit in
  index_t M = 0;
  std::string text, schedule;
  std::string objective;  // that the plan served
  IoCost formula;
  Mask mask;              // under one the footprint of the formula is an upper bound
  theory::Bound bound;    // for M, or for what the plan keeps if that is more
  double compulsory = 0;  // inputs and outputs once, of `bound` and `formula`
};

class TrafficCase {
 public:
  virtual ~TrafficCase() = default;
  virtual std::string problem_text() const = 0;
  virtual DType dtype() const = 0;
  virtual Pass pass() const = 0;

  // What runs from now on. Throws UsageError if nothing fits.
  virtual TrafficPlan plan(const api::RunOptions& options) = 0;
  // The same, of the text of a plan. Throws UsageError.
  virtual void take_plan(const std::string& text) = 0;
  // `kernels` in place of those of the plan, or null. Throws RunError.
  void run(Observer* observer, const kernels::Kernels* kernels) { run_on(1, observer, kernels); }
  virtual void run_on(int threads, Observer* observer, const kernels::Kernels* kernels) = 0;
  virtual Isa isa() const = 0;  // of the plan
  // Of the results of the last run: runs of one plan are to have the same.
  virtual std::uint64_t result_bits() const = 0;
};

// Of the layer problem: O and LSE, or dX. Inputs have arbitrary values, or are those of files.
std::unique_ptr<TrafficCase> layer_case(Pass pass, const LayerProblem& problem);
std::unique_ptr<TrafficCase> layer_case(Pass pass, const LayerPaths& paths,
                                        std::optional<DType> dtype);
// Of SDPA: O and LSE, or dQ, dK and dV. The problem is one of sdpa_of.
std::unique_ptr<TrafficCase> sdpa_case(Pass pass, const SdpaProblem& problem);
// Of either, as text. Throws UsageError.
std::unique_ptr<TrafficCase> text_case(Pass pass, const std::string& problem);

}  // namespace ioattn::tune
