// ioattn-bench: flop/s of the library as a fraction of the FMA peak that this CPU reaches beside
// them, the same by OpenBLAS with n x m matrices in memory, and accesses/s of the simulators.

#include <benchmark/benchmark.h>

#include "bench/benchmarks.hpp"
#include "machine/machine.hpp"
#ifdef IOATTN_BENCH_OPENBLAS
#include "bench/openblas.hpp"
#endif

int main(int argc, char** argv) {
#ifdef IOATTN_BENCH_OPENBLAS
  ioattn::bench::force_best_openblas_core(argv);
#endif
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("cpu", ioattn::machine::this_machine().model);
  if (!ioattn::bench::add_layer_benchmarks()) return 1;
  ioattn::bench::add_sdpa_benchmarks();
  ioattn::bench::add_simulator_benchmarks();
  ioattn::bench::add_wisdom_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
