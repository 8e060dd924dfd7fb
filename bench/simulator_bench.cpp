// Accesses per second of the simulators of caches, on the trace of a backward pass.

#include <benchmark/benchmark.h>

#include "api/kernels_in_use.hpp"
#include "api/planning/session.hpp"
#include "api/run/layer.hpp"
#include "bench/benchmarks.hpp"
#include "bench/layer_case.hpp"
#include "instruments/simulators/set_associative.hpp"
#include "instruments/simulators/stack_distance.hpp"
#include "instruments/simulators/tracing_kernels.hpp"

namespace ioattn::bench {
namespace {

class Kept final : public instruments::AccessSink {
 public:
  void take(const instruments::Access* first, std::size_t count) override {
    accesses.insert(accesses.end(), first, first + count);
  }
  std::vector<instruments::Access> accesses;
};

// Of a plan for M = 4096 words, of which there are 4 million accesses.
Status record(std::vector<instruments::Access>* accesses) {
  const LayerShape shape = {1024, 1024, 64, 64, Tie::none, {}};
  LayerCase<float> data(shape);
  api::RunOptions options;
  options.M = 4096;
  plan::Plan plan;
  const LayerProblem problem = {shape, DType::f32};
  Status status = api::plan_pass(Pass::backward, problem, options, &plan);
  if (!status.is_ok()) return status;
  const kernels::Kernels* kernels = nullptr;
  if (status = api::selected_kernels(&kernels); !status.is_ok()) return status;
  Kept kept;
  instruments::TraceRecorder recorder(64, 100'000'000, {&kept});
  {
    const instruments::TracingKernels tracing(*kernels, &recorder);
    status =
        api::layer_backward<float>(data.inputs(), {data.d_o.data(), shape.n, shape.dv, shape.dv},
                                   {data.o.data(), shape.n, shape.dv, shape.dv}, data.lse.data(),
                                   plan, {.kernels = &tracing.kernels()}, data.gradients(false).dx);
  }
  recorder.finish();
  *accesses = std::move(kept.accesses);
  return status;
}

template <class Simulator, class... Arguments>
void simulate(benchmark::State& state, Arguments... arguments) {
  std::vector<instruments::Access> accesses;
  const Status status = record(&accesses);
  if (!status.is_ok()) state.SkipWithError(status.message());
  for (auto _ : state) {
    Simulator simulator(arguments...);
    for (std::size_t i = 0; i < accesses.size(); i += 1024) {
      simulator.take(accesses.data() + i, std::min<std::size_t>(1024, accesses.size() - i));
    }
    benchmark::DoNotOptimize(simulator);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(accesses.size()));
}

}  // namespace

void add_simulator_benchmarks() {
  using instruments::CacheGeometry;
  const auto add = [](const char* name, auto run) {
    benchmark::RegisterBenchmark(name, run)->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  add("simulator/stack_distance",
      [](benchmark::State& state) { simulate<instruments::StackDistance>(state); });
  add("simulator/set_associative", [](benchmark::State& state) {
    simulate<instruments::SetAssociative>(state, CacheGeometry{64, 8});
  });
}

}  // namespace ioattn::bench
