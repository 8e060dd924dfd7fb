#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "kernels/registry.hpp"
#include "machine/machine.hpp"

namespace ioattn::bench {

inline double flops_of(index_t fma) { return 2 * static_cast<double>(fma); }

// Calls `run`, of so many flops, once per iteration and reports its rate beside the peak measured
// between the calls, whatever IOATTN_ISA makes the calls run on; of tiles unless it leaves them
// out.
template <class Run>
void measure(benchmark::State& state, DType dtype, int threads, double flops, const Run& run) {
  constexpr double peak_seconds = 0.02;
  const kernels::Kernels* kernels = nullptr;
  Status status = kernels::select_kernels(machine::this_machine().isa, nullptr, &kernels);
  double seconds = 0, next_peak = 0, peak = 0;
  for (auto _ : state) {
    // Not between all of a thousand short calls: at most a fifth of their time.
    if (status.is_ok() && seconds >= next_peak) {
      state.PauseTiming();
      peak = std::max(peak, kernels::measure_fma_peak(*kernels, dtype, peak_seconds));
      state.ResumeTiming();
      next_peak = seconds + 5 * peak_seconds;
    }
    if (status.is_ok()) {
      const auto start = std::chrono::steady_clock::now();
      status = run();
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    if (!status.is_ok()) {
      state.SkipWithError(status.message());
      break;
    }
  }
  const double rate = flops * static_cast<double>(state.iterations()) / seconds;
  state.counters["GFLOPS"] = rate * 1e-9;
  state.counters["peak_fraction"] = rate / (peak * threads);
}

}  // namespace ioattn::bench
