#pragma once

#include <string>
#include <vector>

#include "api/sdpa.hpp"
#include "instruments/io_counter.hpp"
#include "tune/report_json.hpp"

// A pass of SDPA: planned, run and timed, run once more under a counter, and held against its
// formula.
namespace ioattn::tune {

struct SdpaReport {
  Pass pass = Pass::forward;
  std::string level, plan_text;
  Isa isa = Isa::scalar;
  index_t M = 0;
  double seconds = 0;  // median of the timed runs
  double gflops = 0;   // 2 flops per multiply-add of a visible pair
  instruments::IoCount count;
  std::vector<instruments::IoCounter::Phase> phases;
  index_t formula = 0;  // reads + writes, from theory
};

Json io_json(const SdpaReport& report);

// O and LSE, then dQ, dK, dV and, with a bias, dBias, each dense.
template <class T>
struct SdpaOutputs {
  std::vector<T> o, lse, dq, dk, dv, d_bias;
};

// Each throws RunError if the results of the timed and the counted run differ in a bit, or the
// count differs from the formula. The backward pass takes O and LSE of the outputs.
template <class T>
SdpaReport run_sdpa_forward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                            const api::RunOptions& options, SdpaOutputs<T>* outputs);
template <class T>
SdpaReport run_sdpa_backward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                             TensorView<const T> d_o, const api::RunOptions& options,
                             SdpaOutputs<T>* outputs);

}  // namespace ioattn::tune
