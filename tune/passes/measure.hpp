#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/half.hpp"
#include "instruments/created_memory.hpp"
#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "search/statistics.hpp"
#include "tune/command_error.hpp"
#include "tune/passes/measured_pass.hpp"

// Timed runs and a counted one, held against each other and against a formula.
namespace ioattn::tune {

inline constexpr const char* nothing_moves = "a size is 0, or no query sees a key: nothing moves";

// Nothing moves. Without values the forward pass still has LSE to make.
inline bool is_empty(Pass pass, const LayerShape& shape) {
  return shape.n == 0 || shape.d == 0 || (pass != Pass::forward && shape.dv == 0) ||
         seen_keys(shape).is_empty();
}

// Equal bits; a NaN equals any NaN.
template <class S>
bool same_bits(const std::vector<S>& p, const std::vector<S>& q) {
  return p.size() == q.size() && std::equal(p.begin(), p.end(), q.begin(), [](S a, S b) {
           const auto x = to_compute(a), y = to_compute(b);
           const bool is_same = x == y && std::signbit(x) == std::signbit(y);
           return is_same || (std::isnan(x) && std::isnan(y));
         });
}
template <class S>
bool same_bits(const ForwardValues<S>& p, const ForwardValues<S>& q) {
  return same_bits(p.o, q.o) && same_bits(p.lse, q.lse);
}

// As many, all NaN.
template <class S>
std::vector<S> poisoned(const std::vector<S>& like) {
  return std::vector<S>(like.size(), to_storage<S>(std::numeric_limits<Compute<S>>::quiet_NaN()));
}
template <class S>
ForwardValues<S> poisoned(const ForwardValues<S>& like) {
  return {poisoned(like.o), poisoned(like.lse)};
}

// Runs shorter than this together are repeated, up to a few times.
inline constexpr double timing_budget_seconds = 0.3;
inline constexpr std::size_t timing_repeats = 7;

// Of so many threads, whatever IOATTN_ISA makes the passes run on; of tiles unless it leaves them
// out.
inline double peak_flops(DType dtype, int threads) {
  const kernels::Kernels* kernels = nullptr;
  require(kernels::select_kernels(machine::this_machine().isa, nullptr, &kernels));
  double most = 0;  // of short times: others may have the CPU meanwhile
  for (int i = 0; i < 10; ++i)
    most = std::max(most, kernels::measure_fma_peak(*kernels, dtype, 0.003));
  return most * threads;
}

template <class Run>
double median_seconds(const Run& run) {
  using clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  double total = 0;
  do {
    const auto start = clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(clock::now() - start).count());
    total += seconds.back();
  } while (total < timing_budget_seconds && seconds.size() < timing_repeats);
  return search::median(std::move(seconds));
}

// Throws RunError, about `who`, unless the count is that of the formula.
inline void check_count(const instruments::IoCounter& counter, const IoCost& formula,
                        const Mask& mask, const std::string& who) {
  if (!counter.violation().empty()) {
    throw RunError("internal error: " + who + ": " + counter.violation());
  }
  IoCost count = counter.total();
  // Under a mask no tile need be as large as the formula's.
  if (mask.hides()) count.footprint = std::max(count.footprint, formula.footprint);
  if (count != formula) {
    throw RunError("internal error: " + who + " did not move the words of its formula");
  }
}

// run(observer, overflows, words) fills `words`, a vector or what has its own poisoned() and
// same_bits(); the timed runs first, then the counted one, which looks for overflows in the results
// that are rounded. Throws RunError if they differ in a bit or the count from the formula.
template <class Words, class Run>
PassReport measure_runs(PassReport report, const Mask& mask, const IoCost& formula, RunMode how,
                        const std::vector<api::RoundedResult>& rounded, Words* words,
                        const Run& run) {
  if (how.timed) {
    report.seconds = median_seconds([&] {
      ++report.runs;
      require(run(nullptr, nullptr, words));
    });
  }

  instruments::IoCounter counter;
  instruments::CreatedMemory created(&counter);
  Words counted = poisoned(*words);
  const auto start = std::chrono::steady_clock::now();
  ++report.runs;
  OverflowCounts overflows;
  require(run(&created, &overflows, &counted));
  report.overflows = report_of(overflows, rounded);
  if (!how.timed) {
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    *words = std::move(counted);
  } else if (!same_bits(*words, counted)) {
    throw RunError("internal error: " + report.name() + " gave other bits when it was counted");
  }
  report.count = counter.total();
  report.created_memory = created.words();
  report.phases = counter.phases();
  check_count(counter, formula, mask, report.name() + ", M = " + std::to_string(report.M));
  report.formula = formula.words();
  return report;
}

}  // namespace ioattn::tune
