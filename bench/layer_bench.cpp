// The layer problem: flop/s as a fraction of the FMA peak that this CPU reaches beside them, the
// words that the plan moves past the deciding cache level, and the same by OpenBLAS with n x m
// matrices in memory.

#include <benchmark/benchmark.h>

#include <cstdio>

#include "api/planning/session.hpp"
#include "api/run/layer.hpp"
#include "bench/benchmarks.hpp"
#include "bench/layer_case.hpp"
#include "bench/measure.hpp"
#ifdef IOATTN_BENCH_OPENBLAS
#include "bench/naive_layer.hpp"
#include "bench/openblas.hpp"
#endif

namespace ioattn::bench {
namespace {

const char* const problems[] = {
    "layer:n2048,d64,f32",          "layer:n2048,d128,f32",     "layer:n2048,d256,f32",
    "layer:n2048,d512,f32",         "layer:n2048,d64,f32,tied", "layer:n2048,d128,f32,tied",
    "layer:n2048,d64,f64",          "layer:n2048,d128,f64",     "layer:n512,d385,v32,f32",
    "layer:n512,d385,v32,f32,self",
};

enum class Work { forward, dx, gradients };
constexpr const char* name_of(Work work) {
  return work == Work::forward ? "forward" : work == Work::dx ? "dX" : "gradients";
}

template <class T>
void run_ioattn(benchmark::State& state, const LayerProblem& problem, Work work, int threads) {
  LayerCase<T> data(problem.shape);
  const LayerInputs<T> in = data.inputs();
  const index_t n = problem.shape.n, e = problem.shape.dv;
  const LayerGradients<T> out = data.gradients(work == Work::gradients);
  plan::LayerRequest request;
  plan::Plan forward;
  plan::Candidate chosen;
  plan::LayerPlan backward;
  plan::Estimate estimate;
  Status status = api::plan_pass(Pass::forward, problem, {}, &forward, nullptr, &chosen);
  if (status.is_ok()) status = api::plan_request(Pass::backward, problem, {}, &request);
  if (status.is_ok()) status = plan::make_gradient_plan(request, out.set(), &backward, &estimate);
  const auto run_forward = [&] {
    return api::layer_forward<T>(in, forward, {threads}, {data.o.data(), n, e, e}, data.lse.data());
  };
  if (status.is_ok()) status = run_forward();
  if (!status.is_ok()) {
    state.SkipWithError(status.message());
    return;
  }
  if (work == Work::forward) {
    measure(state, problem.dtype, threads, flops_of(chosen.fma), run_forward);
    state.counters["words_" + forward.level] = static_cast<double>(chosen.cost.total().words());
    state.SetLabel(plan::to_text(forward));
    return;
  }
  measure(state, problem.dtype, threads, flops_of(estimate.fma), [&] {
    return api::layer_gradients<T>(in, {data.d_o.data(), n, e, e}, {data.o.data(), n, e, e},
                                   data.lse.data(), backward, {threads}, out);
  });
  state.counters["words_" + backward.level] = static_cast<double>(estimate.cost.total().words());
  state.SetLabel(plan::to_text(backward, out.set(), problem.shape.tie));
}

#ifdef IOATTN_BENCH_OPENBLAS
template <class T>
void run_openblas(benchmark::State& state, const LayerProblem& problem, Work work, int threads) {
  LayerCase<T> data(problem.shape);
  const LayerInputs<T> in = data.inputs();
  NaiveLayer<T> naive(problem.shape, threads);
  naive.forward(in, data.o.data(), data.lse.data());
  typename NaiveLayer<T>::Gradients out;
  out.dx = data.dx.data();
  if (work == Work::gradients) {
    out.dy = data.dy.data();
    out.da1 = data.da1.data();
    out.da2 = data.da2.data();
    out.da3 = data.da3.data();
  }
  const bool forward = work == Work::forward;
  const index_t fma =
      forward ? NaiveLayer<T>::forward_fma(problem.shape) : NaiveLayer<T>::fma(problem.shape, out);
  measure(state, problem.dtype, threads, flops_of(fma), [&] {
    if (forward) {
      naive.forward(in, data.o.data(), data.lse.data());
    } else {
      naive.backward(in, data.d_o.data(), data.o.data(), data.lse.data(), out);
    }
    return Status::ok();
  });
  state.SetLabel(openblas_label());
}
#endif

using Run = void (*)(benchmark::State&, const LayerProblem&, Work, int);

void add(const char* who, Run of_float, Run of_double, const LayerProblem& problem, Work work,
         int threads) {
  const std::string name = std::string(name_of(work)) + "/" + to_text(problem) + "/threads" +
                           std::to_string(threads) + "/" + who;
  const Run run = problem.dtype == DType::f32 ? of_float : of_double;
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) { run(state, problem, work, threads); })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

}  // namespace

bool add_layer_benchmarks() {
  for (const char* text : problems) {
    LayerProblem problem;
    std::string error;
    if (!parse_problem(text, &problem, &error)) {
      std::fprintf(stderr, "%s\n", error.c_str());
      return false;
    }
    for (const Work work : {Work::forward, Work::dx, Work::gradients}) {
      for (int threads = 1; threads <= machine::this_machine().usable_threads; threads *= 2) {
        add("ioattn", run_ioattn<float>, run_ioattn<double>, problem, work, threads);
#ifdef IOATTN_BENCH_OPENBLAS
        add("openblas", run_openblas<float>, run_openblas<double>, problem, work, threads);
#endif
      }
    }
  }
  return true;
}

}  // namespace ioattn::bench
