#pragma once

#include <optional>
#include <vector>

#include "api/run/sdpa.hpp"
#include "tune/passes/measured_pass.hpp"

// A pass of SDPA: planned, run and timed, run once more under a counter, and held against its
// formula.
namespace ioattn::tune {

// Each dense; with a bias dBias too. Of type G: that of the inputs or, in 16 bits, float.
template <class G>
struct SdpaGradientValues {
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
// count differs from the formula.
template <class S>
PassReport run_sdpa_forward(const PlannedSdpa& planned, const SdpaInputs<S>& inputs, int threads,
                            ForwardValues<S>* values);
template <class S, class G>
PassReport run_sdpa_backward(const PlannedSdpa& planned, const SdpaInputs<S>& inputs,
                             TensorView<const S> d_o, const ForwardValues<S>& forward, int threads,
                             SdpaGradientValues<G>* values);

}  // namespace ioattn::tune
