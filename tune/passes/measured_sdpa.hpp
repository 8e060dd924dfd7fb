#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/run/sdpa.hpp"
#include "instruments/io_counter.hpp"
#include "theory/bounds.hpp"
#include "tune/passes/overflow_report.hpp"
#include "tune/text/report_json.hpp"

// A pass of SDPA: planned, run and timed, run once more under a counter, and held against its
// formula.
namespace ioattn::tune {

struct SdpaReport {
  Pass pass = Pass::forward;
  std::string level, plan_text;
  Isa isa = Isa::scalar;
  index_t M = 0;
  double seconds = 0;  // median of the timed runs
  int runs = 0;        // of the pass in all, timed and counted
  double gflops = 0;   // 2 flops per multiply-add of a visible pair
  IoCost count;
  index_t created_memory = 0;  // created words, where tiles count once
  std::vector<instruments::IoCounter::Phase> phases;
  index_t formula = 0;  // reads + writes, from theory
  theory::AlgorithmClass algorithms = theory::AlgorithmClass::F;
  theory::Bound bound;
  OverflowReport overflows;
  index_t bound_M = 0;  // for which the bound holds: M, or what the run keeps if that is more

  double ratio() const { return static_cast<double>(count.words()) / bound.words; }
};

Json io_json(const SdpaReport& report);

// O and LSE, then dQ, dK, dV and, with a bias, dBias, each dense. Gradients are of type G: S or, of
// a problem in 16 bits, float.
template <class S, class G>
struct SdpaOutputs {
  std::vector<S> o;
  std::vector<Compute<S>> lse;
  std::vector<G> dq, dk, dv, d_bias;
};

// Plans come before anything runs: the second pass may not fit.
struct PlannedSdpa {
  SdpaProblem problem;
  std::optional<SdpaSet> set;  // none: the forward pass
  plan::SdpaPlan plan;
  plan::Estimate estimate;
};
PlannedSdpa plan_sdpa(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                      const api::RunOptions& options);

// Each throws RunError if the results of the timed and the counted run differ in a bit, or the
// count differs from the formula. The backward pass takes O and LSE of the outputs.
template <class S, class G>
SdpaReport run_sdpa_forward(const PlannedSdpa& planned, const SdpaInputs<S>& inputs, int threads,
                            SdpaOutputs<S, G>* outputs);
template <class S, class G>
SdpaReport run_sdpa_backward(const PlannedSdpa& planned, const SdpaInputs<S>& inputs,
                             TensorView<const S> d_o, int threads, SdpaOutputs<S, G>* outputs);

}  // namespace ioattn::tune
