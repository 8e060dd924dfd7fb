#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <vector>

#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "search/statistics.hpp"

namespace ioattn::bench {

inline double flops_of(index_t fma) { return 2 * static_cast<double>(fma); }

// Calls `run`, of so many flops, once per iteration and reports its rate, and as a fraction of the
// peak whatever IOATTN_ISA makes the calls run on (of tiles, unless it leaves them out). A clock
// that is not fixed drifts by more than a tenth: each stretch of calls is held against the peaks
// right before and after it, and the fraction is the median over the stretches.
template <class Run>
void measure(benchmark::State& state, DType dtype, int threads, double flops, const Run& run) {
  constexpr double peak_seconds = 0.01;
  constexpr double stretch_seconds = 5 * peak_seconds;
  const kernels::Kernels* kernels = nullptr;
  Status status = kernels::select_kernels(machine::this_machine().isa, nullptr, &kernels);
  double all_seconds = 0, seconds = 0, peak_before = 0;
  int calls = 0;
  std::vector<double> fractions;
  const auto end_stretch = [&] {
    const double peak = kernels::measure_fma_peak(*kernels, dtype, peak_seconds);
    if (calls > 0) fractions.push_back(calls * flops / seconds / ((peak_before + peak) / 2));
    peak_before = peak;
    all_seconds += seconds;
    seconds = 0;
    calls = 0;
  };
  if (status.is_ok()) status = run();  // what a first call allocates and touches is no stretch's
  if (status.is_ok()) end_stretch();
  for (auto _ : state) {
    if (seconds >= stretch_seconds) {
      state.PauseTiming();
      end_stretch();
      state.ResumeTiming();
    }
    if (status.is_ok()) {
      const auto start = std::chrono::steady_clock::now();
      status = run();
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      ++calls;
    }
    if (!status.is_ok()) {
      state.SkipWithError(status.message());
      return;
    }
  }
  end_stretch();
  state.counters["GFLOPS"] = flops * static_cast<double>(state.iterations()) / all_seconds * 1e-9;
  state.counters["peak_fraction"] = search::median(std::move(fractions)) / threads;
}

}  // namespace ioattn::bench
