// Forward and backward passes of the layer problem: flop/s, as a fraction of the FMA peak that this
// CPU reaches beside them, and the words that the plan moves past the deciding cache level.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "api/layer.hpp"
#include "api/session.hpp"
#include "machine/machine.hpp"

namespace {

using namespace ioattn;

const char* const problems[] = {
    "layer:n2048,d64,f32",      "layer:n2048,d128,f32",      "layer:n2048,d256,f32",
    "layer:n2048,d64,f32,tied", "layer:n2048,d128,f32,tied", "layer:n2048,d64,f64",
    "layer:n2048,d128,f64",     "layer:n512,d385,v32,f32",   "layer:n512,d385,v32,f32,self",
};

template <class T>
std::vector<T> random_values(index_t count, double scale, std::mt19937* engine) {
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(normal(*engine));
  return values;
}

template <class T>
void run(benchmark::State& state, Pass pass, const LayerProblem& problem, int threads) {
  const index_t n = problem.shape.n, m = problem.shape.m, d = problem.shape.d, e = problem.shape.dv;
  const Tie tie = problem.shape.tie;
  std::mt19937 engine(1);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const auto a1 = random_values<T>(n * d, 1, &engine), a2 = random_values<T>(m * d, 1, &engine);
  const auto a3 = random_values<T>(m * d, 1, &engine),
             x = random_values<T>(d * d, scale / 8, &engine);
  const auto y = random_values<T>(d * e, scale, &engine), d_o = random_values<T>(n * e, 1, &engine);
  std::vector<T> o(d_o.size()), lse(static_cast<std::size_t>(n)), dx(x.size());
  LayerInputs<T> in = {{a1.data(), n, d, d},
                       {a2.data(), m, d, d},
                       {a3.data(), m, d, d},
                       {x.data(), d, d, d},
                       {y.data(), d, e, e}};
  if (tie != Tie::none) in.a3 = in.a2;
  if (tie == Tie::all) in.a2 = in.a3 = in.a1;

  const auto make_plan = [&](Pass of, plan::Plan* made, plan::Candidate* chosen) {
    plan::PlanRequest request;
    Status status = api::plan_request(of, problem, {}, &request);
    if (status.is_ok()) status = plan::make_plan(request, made, chosen);
    return status;
  };
  plan::Plan forward, backward;
  plan::Candidate chosen, unused;
  const kernels::Kernels* kernels = nullptr;
  Status status = make_plan(Pass::forward, &forward, pass == Pass::forward ? &chosen : &unused);
  if (status.is_ok()) {
    status = make_plan(Pass::backward, &backward, pass == Pass::backward ? &chosen : &unused);
  }
  // The machine's peak, whatever IOATTN_ISA makes the passes run on.
  if (status.is_ok()) {
    status = kernels::select_kernels(machine::this_machine().isa, nullptr, &kernels);
  }
  const auto run_forward = [&] {
    return api::layer_forward<T>(in, forward, threads, nullptr, {o.data(), n, e, e}, lse.data());
  };
  if (status.is_ok()) status = run_forward();

  double seconds = 0, peak = 0;
  for (auto _ : state) {
    if (!status.is_ok()) {
      state.SkipWithError(status.message());
      break;
    }
    state.PauseTiming();
    peak = std::max(peak, kernels::measure_fma_peak(*kernels, problem.dtype, 0.02));
    state.ResumeTiming();
    const auto start = std::chrono::steady_clock::now();
    status = pass == Pass::forward ? run_forward()
                                   : api::layer_backward<T>(
                                         in, {d_o.data(), n, e, e}, {o.data(), n, e, e}, lse.data(),
                                         backward, threads, nullptr, {dx.data(), d, d, d});
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const double flops =
      2 * static_cast<double>(chosen.fma) * static_cast<double>(state.iterations()) / seconds;
  state.counters["GFlops"] = flops * 1e-9;
  state.counters["of_peak"] = flops / (peak * threads);
  state.counters["words_L2"] = static_cast<double>(chosen.cost.total().words());
  state.SetLabel(plan::to_text(pass == Pass::forward ? forward : backward));
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const char* text : problems) {
    LayerProblem problem;
    std::string error;
    if (!parse_problem(text, &problem, &error)) {
      std::fprintf(stderr, "%s\n", error.c_str());
      return 1;
    }
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (int threads = 1; threads <= machine::this_machine().usable_threads; threads *= 2) {
        const std::string name =
            std::string(name_of(pass)) + "/" + text + "/threads" + std::to_string(threads);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) {
                                       if (problem.dtype == DType::f32) {
                                         run<float>(state, pass, problem, threads);
                                       } else {
                                         run<double>(state, pass, problem, threads);
                                       }
                                     })
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
