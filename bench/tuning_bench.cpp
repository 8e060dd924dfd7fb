// How near estimates are to the fastest plan that a wide search finds, and whether tuned plans are
// ever slower than estimates: over 60 shapes of SDPA, forward and backward, as JSON. All search
// every instruction set of the CPU.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/array_types.hpp"
#include "api/kernels_in_use.hpp"
#include "api/planning/sdpa_estimate.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/search/rates.hpp"
#include "api/search/sdpa_search.hpp"
#include "api/search/timed_sdpa.hpp"
#include "bench/tuning_plans.hpp"
#include "machine/machine.hpp"
#include "search/race.hpp"
#include "search/sample.hpp"
#include "search/statistics.hpp"

namespace ioattn::bench {
namespace {

using Json = nlohmann::json;
struct Options {
  std::string out;
  int threads = 1;
  double seconds = 6;  // for the wide search of a pass
  double minutes = 90;
  index_t shapes = 60;
  std::vector<std::string> problems;  // in place of the 60
};

class PassBench {
 public:
  PassBench(const SdpaProblem& problem, const std::optional<SdpaSet>& set, const Options& options)
      : problem_(problem), set_(set), options_(options) {}

  Status run(Json* json) {
    run_options_.threads = options_.threads;
    run_options_.rigor = wisdom::Rigor::measure;
    plan::SdpaPlan with_rates, without;
    Status status = estimate(&request_, &with_rates);
    if (status.is_ok()) status = estimate_without_rates(&without);
    plan::SdpaPlan forward;
    if (status.is_ok()) status = plan::make_plan_of(request_, std::nullopt, &forward);
    if (status.is_ok()) {
      status = api::TimedSdpa::make(problem_, set_, options_.threads, forward, &timed_);
    }
    if (status.is_ok()) status = sample(with_rates, 1, &run_seconds_);
    if (status.is_ok()) status = sample(with_rates, 1, &run_seconds_);
    run_seconds_ = std::max(run_seconds_, 1e-7);
    api::SearchReport tuned;
    if (status.is_ok())
      status = api::search_plan<api::SdpaKind>(problem_, set_, run_options_, nullptr, &tuned);
    if (!status.is_ok()) return status;
    plan::SdpaPlan of_tuned = with_rates;
    if (tuned.verdict.is_ok()) of_tuned = tuned.candidates[tuned.winner].plan;
    std::vector<plan::SdpaPlan> plans =
        wide_list(request_, set_, run_options_, {with_rates, without, of_tuned});
    plan::SdpaPlan best;
    status = find_best(std::move(plans), &best);
    const std::vector<plan::SdpaPlan> four = {with_rates, without, of_tuned, best};
    std::vector<std::vector<double>> times;
    if (status.is_ok()) status = compare(four, &times);
    if (!status.is_ok()) return status;
    std::size_t least = 0;
    for (std::size_t i = 1; i < four.size(); ++i)
      if (search::median(times[i]) < search::median(times[least])) least = i;
    *json = {{"problem", to_text(problem_)},
             {"pass", api::name_of_pass(set_)},
             {"plans", plans_},
             {"searched", tuned.verdict.is_ok()},
             {"seconds", search::median(times[least])},
             {"estimate_to_best", ratio(times[0], times[least])},
             {"assumed_price_to_best", ratio(times[1], times[least])},
             {"tuned_to_estimate", ratio(times[2], times[0])},
             {"estimate", to_text(with_rates)},
             {"assumed_price", to_text(without)},
             {"tuned", to_text(of_tuned)},
             {"best", to_text(best)}};
    return status;
  }

 private:
  Status estimate(plan::SdpaRequest* request, plan::SdpaPlan* plan) const {
    const Status status = api::sdpa_request(problem_, run_options_, request);
    return status.is_ok() ? api::estimate_sdpa(*request, set_, run_options_, plan) : status;
  }
  Status estimate_without_rates(plan::SdpaPlan* plan) const {
    wisdom::Wisdom rates;
    api::change_wisdom([&](wisdom::Wisdom* known) { std::swap(*known, rates); });
    plan::SdpaRequest request;
    const Status status = estimate(&request, plan);
    api::change_wisdom([&](wisdom::Wisdom* known) { std::swap(*known, rates); });
    return status;
  }

  Status race(const std::vector<plan::SdpaPlan>& plans, double seconds, search::Race* race) const {
    search::RaceOptions options;
    options.seconds = seconds;
    options.clock = [this] {
      return now();
    };  // of one thread: whoever else has the CPU is left out
    return search::race(
        plans.size(), [&](std::size_t i) { return timed_->run(plans[i]); }, options, race);
  }

  // The fastest of the list, then around it until nothing there is faster.
  Status find_best(std::vector<plan::SdpaPlan> plans, plan::SdpaPlan* best) {
    constexpr double least_runs = 60;
    double seconds = 0.7 * std::max(options_.seconds, least_runs * run_seconds_);
    const double least_seconds = seconds / 5;
    bool is_first = true;
    for (Status status;;) {
      search::Race result;
      status = race(plans, seconds, &result);
      if (!status.is_ok()) return status;
      double least = HUGE_VAL;
      std::size_t winner = 0;
      for (std::size_t i = 0; i < plans.size(); ++i) {
        const search::Timing& timing = result.timings[i];
        plans_ += timing.rounds() > 0 ? 1 : 0;
        if (timing.rounds() < 3 || timing.median() >= least) continue;
        least = timing.median();
        winner = i;
      }
      const bool is_new = std::exchange(is_first, false) || winner != 0;
      *best = plans[winner];
      seconds /= 2;
      if (!is_new || seconds < least_seconds) return status;
      plans.assign(1, *best);
      for (const plan::SdpaCandidate& near : plan::neighbours(request_, set_, *best))
        plans.push_back(near.plan);
    }
  }

  double now() const {
    return options_.threads == 1 ? search::thread_seconds() : search::steady_seconds();
  }
  Status sample(const plan::SdpaPlan& plan, int repeats, double* seconds) const {
    Status status;
    const double start = now();
    for (int i = 0; i < repeats && status.is_ok(); ++i) status = timed_->run(plan);
    *seconds = (now() - start) / repeats;
    return status;
  }

  // By rounds, as many of each, whoever is slower.
  Status compare(const std::vector<plan::SdpaPlan>& plans,
                 std::vector<std::vector<double>>* times) const {
    constexpr double sample_seconds = 5e-3, all_seconds = 3;
    const int repeats = static_cast<int>(std::clamp(sample_seconds / run_seconds_, 1., 200.));
    const int rounds =
        static_cast<int>(std::clamp(all_seconds / (4 * repeats * run_seconds_), 5., 25.));
    std::vector<std::vector<double>>& seconds = *times;
    seconds.assign(plans.size(), {});
    Status status;
    for (int round = 0; round < rounds && status.is_ok(); ++round) {
      for (std::size_t k = 0; k < plans.size() && status.is_ok(); ++k) {
        const std::size_t i = (k + static_cast<std::size_t>(round)) % plans.size();
        seconds[i].push_back(0);
        status = sample(plans[i], repeats, &seconds[i].back());
      }
    }
    for (std::size_t i = 0; i < plans.size(); ++i) {
      // The same plan has the same times.
      std::size_t first = 0;
      while (!(plans[first] == plans[i])) ++first;
      seconds[i] = seconds[first];
    }
    return status;
  }
  // The median of the rounds': they are next to each other.
  static double ratio(const std::vector<double>& of, const std::vector<double>& to) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < of.size(); ++round) ratios.push_back(of[round] / to[round]);
    return search::median(ratios);
  }

  SdpaProblem problem_;
  std::optional<SdpaSet> set_;
  const Options& options_;
  api::RunOptions run_options_;
  plan::SdpaRequest request_;
  std::unique_ptr<api::TimedSdpa> timed_;
  double run_seconds_ = 0;  // of the estimate, about
  std::size_t plans_ = 0;   // that ran
};

Json summary(const Json& passes, const char* ratio, double limit) {
  index_t within = 0;
  double worst = 0, logs = 0;
  for (const Json& pass : passes) {
    const double value = pass[ratio];
    within += value <= limit ? 1 : 0;
    worst = std::max(worst, value);
    logs += std::log(value);
  }
  const auto count = static_cast<double>(passes.size());
  return {{"within", limit},
          {"share", static_cast<double>(within) / count},
          {"worst", worst},
          {"geometric_mean", std::exp(logs / count)}};
}

Status run(const Options& options) {
  const kernels::Kernels* kernels = nullptr;
  Status status = api::selected_kernels(&kernels);
  if (!status.is_ok()) return status;
  const auto& machine = machine::this_machine();
  api::change_wisdom([&](wisdom::Wisdom* wisdom) {
    *wisdom = {};
    const api::RateMeter meter = api::meter_of(*kernels, machine.usable_threads);
    std::vector<const kernels::Kernels*> all = api::other_kernels(DType::f32);
    all.push_back(kernels);
    for (const kernels::Kernels* one : all)
      api::learn_rates(*one, api::meter_of(*one, meter), api::date_now(), wisdom);
  });
  const plan::Price price = api::price_of({}, kernels->tile(DType::f32).isa, DType::f32);
  Json json = {{"cpu", machine.model},
               {"isa", name_of(kernels->isa)},
               {"caches", api::environment_of(kernels->isa).caches},
               {"date", api::date_now()},
               {"threads", options.threads},
               {"clock", options.threads == 1 ? "CPU time of the thread" : "steady"},
               {"seconds_by_pass", options.seconds},
               {"price", {{"per_word", price.per_word}, {"per_inner_word", price.per_inner_word}}}};
  Json passes = Json::array();
  std::vector<SdpaProblem> problems(options.problems.size());
  for (std::size_t i = 0; i < problems.size(); ++i) {
    std::string error;
    if (parse_problem(options.problems[i], &problems[i], &error)) continue;
    return Status::error(StatusCode::invalid_argument, "%.200s", error.c_str());
  }
  if (problems.empty()) {
    for (const Shape& shape : all_shapes()) problems.push_back(problem_of(shape, options.threads));
  }
  const double begin = search::steady_seconds();
  index_t done = 0;
  for (const SdpaProblem& problem : problems) {
    if (done == options.shapes || search::steady_seconds() - begin > 60 * options.minutes) break;
    for (const bool backward : {false, true}) {
      std::optional<SdpaSet> set;
      if (backward) set = SdpaSet{true, true, true};
      Json pass;
      status = PassBench(problem, set, options).run(&pass);
      if (!status.is_ok()) return status;
      fmt::print(stderr, "{} {}: estimate {:.3f}, assumed {:.3f}, tuned {:.3f}\n", to_text(problem),
                 api::name_of_pass(set), pass["estimate_to_best"].get<double>(),
                 pass["assumed_price_to_best"].get<double>(),
                 pass["tuned_to_estimate"].get<double>());
      passes.push_back(std::move(pass));
    }
    ++done;
  }
  json["shapes"] = done;
  json["shapes_of_all"] = problems.size();
  json["minutes"] = (search::steady_seconds() - begin) / 60;
  json["estimate_to_best"] = summary(passes, "estimate_to_best", 1.1);
  json["assumed_price_to_best"] = summary(passes, "assumed_price_to_best", 1.1);
  json["tuned_to_estimate"] = summary(passes, "tuned_to_estimate", 1.02);
  json["passes"] = std::move(passes);
  const std::string text = json.dump(1) + "\n";
  if (options.out.empty()) {
    fmt::print("{}", text);
  } else if (!(std::ofstream(options.out) << text)) {
    return Status::error(StatusCode::invalid_argument, "cannot write %.200s", options.out.c_str());
  }
  return status;
}

}  // namespace
}  // namespace ioattn::bench

int main(int argc, char** argv) {
  ioattn::bench::Options options;
  CLI::App app("estimates and tuned plans of SDPA beside the fastest that a wide search finds");
  app.add_option("--out", options.out, "file (default: standard output)");
  app.add_option("--threads", options.threads, "as many times the heads; 1: by CPU time (default)")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds,
                 "for the wide search of a pass, or of 60 runs (default: 6)")
      ->check(CLI::PositiveNumber);
  app.add_option("--minutes", options.minutes, "after which no shape is begun (default: 90)")
      ->check(CLI::PositiveNumber);
  app.add_option("--problems", options.problems, "these, as text, in place of the 60");
  app.add_option("--shapes", options.shapes, "how many of the 60 (default: all)")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const ioattn::Status status = ioattn::bench::run(options);
  if (status.is_ok()) return 0;
  fmt::print(stderr, "tuning_bench: {}\n", status.message());
  return 1;
}
