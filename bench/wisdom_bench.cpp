// What wisdom costs: reading ten thousand records, and finding one of them.

#include <benchmark/benchmark.h>

#include "api/array_types.hpp"
#include "api/known/known_plan.hpp"
#include "api/known/wisdom_state.hpp"
#include "api/run/sdpa.hpp"
#include "bench/benchmarks.hpp"
#include "ioattn/ioattn.h"
#include "wisdom/text.hpp"

namespace ioattn::bench {
namespace {

constexpr index_t records = 10000, last_depth = 600;

SdpaProblem problem_of(index_t n, index_t d) {
  SdpaProblem problem;
  problem.shape = {1, 1, 1, n, n, d, d, {}};
  return problem;
}

// Of this machine: by sizes and depths, with the plan of the last.
std::string text_of_wisdom() {
  plan::SdpaRequest request;
  plan::SdpaPlan plan;
  wisdom::Wisdom wisdom;
  Status status = api::sdpa_request(problem_of(1024, last_depth), {}, &request);
  if (status.is_ok()) status = plan::make_plan_of(request, std::nullopt, &plan);
  if (!status.is_ok()) return "";
  wisdom::Record record;
  record.plan = to_text(plan);
  record.problem = to_text(problem_of(1024, last_depth));
  record.seconds = record.estimate_seconds = 0.0125;
  record.rounds = 10;
  record.date = api::date_now();
  const wisdom::Environment here = api::environment_of(request.tile.isa);
  for (index_t i = 0; i < records; ++i) {
    const int log2_n = static_cast<int>(i % 20);
    const index_t d = last_depth - i / 20;
    wisdom.keep(here, {"forward", "f32", d, d, log2_n, log2_n}, record);
  }
  return to_text(wisdom);
}

// The C function: all that a program waits for.
void import(benchmark::State& state) {
  const std::string text = text_of_wisdom();
  for ([[maybe_unused]] auto _ : state) {
    if (ioattn_wisdom_import_text(text.c_str()) != IOATTN_OK) {
      state.SkipWithError(ioattn_last_error());
      break;
    }
    state.PauseTiming();
    ioattn_wisdom_forget();
    state.ResumeTiming();
  }
  state.counters["records"] = static_cast<double>(records);
}

// From the shape of a problem to the plan that wisdom has for it; a plan that was asked for lately
// is in a cache of its own.
void look_up(benchmark::State& state, bool is_cached) {
  if (ioattn_wisdom_import_text(text_of_wisdom().c_str()) != IOATTN_OK) {
    state.SkipWithError(ioattn_last_error());
  }
  const SdpaProblem problem = problem_of(1024, last_depth);
  plan::SdpaPlan plan;
  plan::SdpaRequest request;
  const Status status = api::sdpa_request(problem, {}, &request);
  if (!status.is_ok()) state.SkipWithError(status.message());
  for ([[maybe_unused]] auto _ : state) {
    if (is_cached) {
      const Status planned = api::plan_sdpa(problem, std::nullopt, {}, &plan);
      if (!planned.is_ok()) state.SkipWithError(planned.message());
    } else {
      const api::WisdomReading known;
      const wisdom::Verdict verdict =
          api::find_plan(*known, request, std::optional<SdpaSet>(), &plan);
      if (!verdict.is_ok()) state.SkipWithError(verdict.message.c_str());
    }
    benchmark::DoNotOptimize(plan);
  }
  ioattn_wisdom_forget();
}

}  // namespace

void add_wisdom_benchmarks() {
  benchmark::RegisterBenchmark("wisdom/import", import)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("wisdom/look_up", look_up, false)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("wisdom/look_up/cached", look_up, true)
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace ioattn::bench
