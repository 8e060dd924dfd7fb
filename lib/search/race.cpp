#include "search/race.hpp"

#include <algorithm>
#include <cmath>

#include "search/sample.hpp"
#include "search/statistics.hpp"

namespace ioattn::search {
namespace {

constexpr double shortest_sample = 2e-4;  // seconds: clocks and caches disturb shorter ones
constexpr int most_repeats = 200;
constexpr index_t least_rounds = 5, most_rounds = 40;
constexpr double worth_changing = 0.98;  // of the time of candidate 0
constexpr index_t most_pairs = 40;
constexpr double worth_a_change = 0.975, surely = 0.99;  // of the champion's time
// Slower than the best by this: at their best after two rounds, of which one may have met cold
// caches or another process; by their medians after more.
constexpr double behind_twice = 1.25, behind = 1.08;

// How often runs are repeated to make a sample that a clock can tell.
int repeats_of(double seconds) {
  return static_cast<int>(std::clamp(std::ceil(shortest_sample / seconds), 1., 1. * most_repeats));
}

// Seconds of a run, by the clock of runs.
Status sample_of(const std::function<Status(std::size_t)>& run, std::size_t candidate, int repeats,
                 const std::function<double()>& clock, double* seconds) {
  const auto now = [&] { return clock ? clock() : steady_seconds(); };
  const double start = now();
  for (int i = 0; i < repeats; ++i) {
    const Status status = run(candidate);
    if (!status.is_ok()) return status;
  }
  *seconds = (now() - start) / repeats;
  return Status::ok();
}

const std::function<double()>& run_clock(const RaceOptions& options) {
  return options.run_clock ? options.run_clock : options.clock;
}

class Racing {
 public:
  Racing(const std::function<Status(std::size_t)>& run, const RaceOptions& options, Race* race)
      : run_(run), options_(options), race_(*race) {
    begin_ = now();
  }

  Status all(std::size_t candidates) {
    race_ = {};
    race_.timings.resize(candidates);
    if (candidates == 0) return Status::ok();
    Status status = first_run();
    for (index_t round = 0; status.is_ok() && round < most_rounds && running_.size() > 1; ++round) {
      status = one_round(static_cast<std::size_t>(round));
      if (is_over_) break;
      drop_slow_ones();
    }
    decide();
    return status;
  }

 private:
  double now() const { return options_.clock ? options_.clock() : steady_seconds(); }
  double left() const { return begin_ + options_.seconds - now(); }

  // Once for the caches, once to know how long a run takes, and for how many there is time.
  Status first_run() {
    double start = now();
    Status status = run_(0);
    if (!status.is_ok() || left() < now() - start) return status;
    start = now();
    status = run_(0);
    const double took = std::max(now() - start, 1e-9);
    repeats_ = repeats_of(took);
    // Two rounds of all, and the rest of the time for those that are left.
    const double affordable = left() / 4 / (took * repeats_);
    const double count = static_cast<double>(race_.timings.size());
    const auto most = static_cast<std::size_t>(std::clamp(affordable, 1., count));
    for (std::size_t i = 0; i < most; ++i) running_.push_back(i);
    if (running_.size() == 1 && race_.timings.size() > 1 &&
        left() > 3 * least_rounds * took * repeats_) {
      running_.push_back(1);
    }
    return status;
  }

  Status one_round(std::size_t round) {
    const std::vector<std::size_t> order = running_;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const std::size_t candidate = order[(k + round) % order.size()];
      if (options_.progress) {
        const double remaining = std::max(left(), 0.);
        race_.stopped = !options_.progress(
            {1 - remaining / options_.seconds, remaining, static_cast<index_t>(running_.size())});
      }
      const std::vector<double>& before = race_.timings[candidate].seconds;
      const double likely = before.empty() ? 0 : before.back() * repeats_;
      is_over_ = race_.stopped || left() < likely;
      if (is_over_) return Status::ok();
      const Status status = sample(candidate);
      if (!status.is_ok()) return status;
    }
    return Status::ok();
  }

  Status sample(std::size_t candidate) {
    double seconds = 0;
    const Status status = sample_of(run_, candidate, repeats_, run_clock(options_), &seconds);
    if (status.is_ok()) race_.timings[candidate].seconds.push_back(seconds);
    return status;
  }

  void drop_slow_ones() {
    const index_t rounds = race_.timings[0].rounds();
    if (rounds < 2) return;
    const auto speed = [&](std::size_t i) {
      const Timing& timing = race_.timings[i];
      return rounds > 2 ? timing.median()
                        : *std::min_element(timing.seconds.begin(), timing.seconds.end());
    };
    double best = HUGE_VAL;
    for (const std::size_t i : running_) best = std::min(best, speed(i));
    const double limit = (rounds > 2 ? behind : behind_twice) * best;
    std::erase_if(running_, [&](std::size_t i) { return i != 0 && speed(i) > limit; });
  }

  // Of those that ran to the end the fastest, if it surely beats candidate 0.
  void decide() {
    const Timing& first = race_.timings[0];
    double least = HUGE_VAL;
    std::size_t fastest = 0;
    for (const std::size_t i : running_) {
      if (i == 0 || race_.timings[i].rounds() < least_rounds) continue;
      if (race_.timings[i].median() >= least) continue;
      least = race_.timings[i].median();
      fastest = i;
    }
    race_.is_decided =
        first.rounds() >= least_rounds || (running_.size() == 1 && first.rounds() > 0);
    if (fastest == 0) return;
    const std::vector<double>& times = race_.timings[fastest].seconds;
    std::vector<double> ratios;
    for (std::size_t round = 0; round < std::min(times.size(), first.seconds.size()); ++round)
      ratios.push_back(times[round] / first.seconds[round]);
    const Mean ratio = winsorised_mean(ratios);
    if (ratio.value < worth_changing && ratio.value + 2.5 * ratio.error < 1) race_.winner = fastest;
  }

  const std::function<Status(std::size_t)>& run_;
  const RaceOptions& options_;
  Race& race_;
  double begin_ = 0;
  int repeats_ = 1;
  bool is_over_ = false;
  std::vector<std::size_t> running_;
};

}  // namespace

double Timing::median() const { return search::median(seconds); }
double Timing::mad() const { return search::mad(seconds); }

Status race(std::size_t candidates, const std::function<Status(std::size_t)>& run,
            const RaceOptions& options, Race* result) {
  return Racing(run, options, result).all(candidates);
}

bool is_surely_faster(const std::vector<double>& ratios) {
  if (static_cast<index_t>(ratios.size()) < least_pairs) return false;
  const Mean mean = winsorised_mean(ratios);
  // The fewer they are the less is known of their errors, too.
  const double errors = 3 + 18 / static_cast<double>(ratios.size());
  return median(ratios) < worth_a_change && mean.value < worth_a_change &&
         mean.value + errors * mean.error < surely;
}

Status duel(const std::function<Status(std::size_t)>& run, const RaceOptions& options,
            Duel* result) {
  *result = {};
  result->timings.resize(2);
  const auto now = [&] { return options.clock ? options.clock() : steady_seconds(); };
  const double begin = now();
  const auto left = [&] { return begin + options.seconds - now(); };
  int repeats = 1;
  std::vector<double> ratios;
  double pair_seconds = 0;  // of the longest
  for (index_t pair = 0; pair < most_pairs && left() > pair_seconds; ++pair) {
    if (options.progress) {
      const double remaining = std::max(left(), 0.);
      result->stopped = !options.progress({1 - remaining / options.seconds, remaining, 2});
      if (result->stopped) return Status::ok();
    }
    const double start = now();
    double seconds[2] = {};
    for (const index_t k : {pair % 2, 1 - pair % 2}) {
      const auto candidate = static_cast<std::size_t>(k);
      const Status status =
          sample_of(run, candidate, repeats, run_clock(options), &seconds[candidate]);
      if (!status.is_ok()) return status;
    }
    if (pair == 0) {  // which was for the caches
      repeats = repeats_of(std::max(seconds[0], 1e-9));
      pair_seconds = (now() - start) * repeats;
      continue;
    }
    pair_seconds = std::max(pair_seconds, now() - start);
    for (std::size_t i = 0; i < 2; ++i) result->timings[i].seconds.push_back(seconds[i]);
    ratios.push_back(seconds[1] / seconds[0]);
  }
  result->is_won = is_surely_faster(ratios);
  return Status::ok();
}

}  // namespace ioattn::search
