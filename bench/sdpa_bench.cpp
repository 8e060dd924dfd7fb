// The SDPA problem, heads of one batch entry: nominal flop/s, five products backward and two
// forward, whatever the plan computes again, and the same by OpenBLAS.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "api/run/sdpa.hpp"
#include "bench/benchmarks.hpp"
#include "bench/measure.hpp"
#include "bench/sdpa_case.hpp"
#ifdef IOATTN_BENCH_OPENBLAS
#include "bench/naive_sdpa.hpp"
#include "bench/openblas.hpp"
#endif

namespace ioattn::bench {
namespace {

struct SdpaBenchmark {
  Pass pass;
  SdpaProblem problem;
  int threads;

  std::string name() const {
    const SdpaShape& s = problem.shape;
    const auto size = [](const char* what, index_t value) {
      return std::string("/") + what + ":" + std::to_string(value);
    };
    return std::string("sdpa/") + (pass == Pass::forward ? "fwd" : "bwd") + "/" +
           name_of(problem.dtype) + size("b", s.batch) + size("h", s.heads) + size("n", s.n) +
           size("m", s.m) + size("d", s.d) + size("dv", s.dv) +
           (s.mask.hides() ? "/causal" : "/full") + size("threads", threads);
  }
  double flops() const {
    const SdpaShape& s = problem.shape;
    const index_t words = pass == Pass::forward ? s.d + s.dv : 3 * s.d + 2 * s.dv;
    return flops_of(visible_pairs(s.mask, s.n, s.m) * words * s.all_heads());
  }
};

template <class T>
void run_ioattn(benchmark::State& state, const SdpaBenchmark& what) {
  const SdpaProblem& problem = what.problem;
  SdpaCase<T> data(problem.shape);
  const SdpaGradients<T> gradients = data.gradients();
  plan::SdpaPlan forward, backward;
  const auto run_forward = [&] {
    return api::sdpa_forward<T>(problem, data.inputs(), forward, {what.threads}, data.o_view(),
                                data.lse_view());
  };
  const auto run_backward = [&] {
    return api::sdpa_backward<T>(problem, data.inputs(),
                                 {data.d_o_view(), data.o_view(), data.lse_view()}, backward,
                                 {what.threads}, gradients);
  };
  Status status = api::plan_sdpa(problem, std::nullopt, {}, &forward);
  if (status.is_ok()) status = api::plan_sdpa(problem, gradients.set(), {}, &backward);
  if (status.is_ok()) status = run_forward();
  if (!status.is_ok()) {
    state.SkipWithError(status.message());
    return;
  }
  if (what.pass == Pass::forward) {
    measure(state, problem.dtype, what.threads, what.flops(), run_forward);
    state.SetLabel(plan::to_text(forward));
  } else {
    measure(state, problem.dtype, what.threads, what.flops(), run_backward);
    state.SetLabel(plan::to_text(backward));
  }
}

#ifdef IOATTN_BENCH_OPENBLAS
template <class T>
void run_openblas(benchmark::State& state, const SdpaBenchmark& what) {
  const SdpaProblem& problem = what.problem;
  SdpaCase<T> data(problem.shape);
  NaiveSdpa<T> naive(problem.shape.head(), scale_of(problem), what.threads);
  const auto run_forward = [&] {
    naive.forward(data.q.data(), data.k.data(), data.v.data(), data.o.data(), data.lse.data());
    return Status::ok();
  };
  const auto run_backward = [&] {
    naive.backward(data.q.data(), data.k.data(), data.v.data(), data.d_o.data(), data.o.data(),
                   data.lse.data(), {data.dq.data(), data.dk.data(), data.dv.data()});
    return Status::ok();
  };
  (void)run_forward();
  if (what.pass == Pass::forward) {
    measure(state, problem.dtype, what.threads, what.flops(), run_forward);
  } else {
    measure(state, problem.dtype, what.threads, what.flops(), run_backward);
  }
  state.SetLabel(openblas_label());
}
#endif

using Run = void (*)(benchmark::State&, const SdpaBenchmark&);

void add(const std::string& name, Run run, const SdpaBenchmark& what) {
  // The counters take the time; UseRealTime() would end the name otherwise.
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    run(state, what);
  })->Unit(benchmark::kMillisecond);
}

void add(const SdpaBenchmark& what) {
  const DType dtype = what.problem.dtype;
  add(what.name(), with_dtype(dtype, [](auto x) -> Run { return run_ioattn<decltype(x)>; }), what);
#ifdef IOATTN_BENCH_OPENBLAS
  const SdpaShape& shape = what.problem.shape;
  if (!is_half(dtype) && shape.all_heads() == 1 && !shape.mask.hides()) {
    add(what.name() + "/openblas", dtype == DType::f32 ? run_openblas<float> : run_openblas<double>,
        what);
  }
#endif
}

std::vector<LayerShape> heads() {
  constexpr index_t most_words = index_t(4) << 20;
  std::vector<LayerShape> shapes;
  for (index_t n = 128; n <= 4096; n *= 2)
    for (index_t d = 64; d <= 2048; d *= 2)
      if (n * d <= most_words) shapes.push_back({n, n, d, d, Tie::none, {}});
  for (const index_t d : {72, 88, 100}) shapes.push_back({1000, 1003, d, d, Tie::none, {}});
  return shapes;
}

}  // namespace

void add_sdpa_benchmarks() {
  for (const Pass pass : {Pass::forward, Pass::backward})
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
      for (const index_t count : {1, 8})
        for (const LayerShape& head : heads())
          for (const Mask& mask : {Mask{}, causal_top_left()}) {
            const SdpaShape shape = {1, count, count, head.n, head.m, head.d, head.dv, mask};
            add({pass, {shape, dtype, 0}, 1});
            const bool two = machine::this_machine().usable_threads >= 2;
            if (two && count == 1 && head.n == 4096) add({pass, {shape, dtype, 0}, 2});
          }
}

}  // namespace ioattn::bench
