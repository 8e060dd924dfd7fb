#include "api/search/tuner.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "api/known/wisdom_state.hpp"
#include "api/run_options.hpp"

namespace ioattn::api {
namespace {

using wisdom::Reason;
using wisdom::Rigor;

constexpr double measure_seconds = 0.5, patient_seconds = 30;
constexpr index_t most_bytes = index_t(2) << 30;  // of what is timed
// Of the time: for all candidates, and until the best of them is held against the estimate once
// more, alone.
constexpr double first_part = 0.5, before_duel = 0.75;

class Search {
 public:
  Search(double seconds, double begin, const Watch& watch, Ways* ways, Found* found)
      : seconds_(seconds), begin_(begin), watch_(watch), ways_(*ways), found_(*found) {}

  Status run() {
    found_.timings.resize(ways_.count());
    if (ways_.bytes() > most_bytes || ways_.least_seconds() > seconds_ / 16) {
      return undecided("it is too long to be timed");
    }
    Status status = ways_.prepare();
    if (!status.is_ok()) return status;
    std::vector<std::size_t> all(ways_.count());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    status = race(all, first_part * (seconds_ - elapsed()));
    if (!status.is_ok() || found_.stopped || !is_decided_) return finish(status);
    status = race_neighbours();
    if (status.is_ok() && !found_.stopped && found_.winner != 0) status = confirm();
    return finish(status);
  }

 private:
  double elapsed() const { return ways_.now() - begin_; }

  void set_up(search::RaceOptions* options) const {
    options->progress = [this](search::Progress progress) {
      if (!watch_) return true;
      progress.seconds_left = std::max(seconds_ - elapsed(), 0.);
      progress.done = 1 - progress.seconds_left / seconds_;
      return watch_(progress);
    };
    options->clock = [this] { return ways_.now(); };
    // Of the calling thread: whoever else has its CPU is left out.
    if (found_.threads == 1) options->run_clock = [this] { return ways_.thread_now(); };
  }

  // Of some candidates, the estimate first; the last race that could tell decides.
  Status race(const std::vector<std::size_t>& candidates, double seconds) {
    search::RaceOptions options;
    options.seconds = seconds;
    set_up(&options);
    search::Race race;
    const Status status = search::race(
        candidates.size(), [&](std::size_t i) { return ways_.run(candidates[i]); }, options, &race);
    found_.stopped = race.stopped;
    if (!status.is_ok()) return status;
    if (race.is_decided) {
      is_decided_ = true;
      found_.winner = candidates[race.winner];
      estimate_ = race.timings[0];
      winner_ = race.timings[race.winner];
    }
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      search::Timing& timing = found_.timings[candidates[i]];
      if (race.timings[i].rounds() > 0) timing = std::move(race.timings[i]);
    }
    return status;
  }

  // Once around the best, and, while there is time, around what was better there.
  Status race_neighbours() {
    Status status;
    for (std::size_t around = ways_.count(); status.is_ok() && !found_.stopped;) {
      const double left = seconds_ - elapsed() - seconds_of_duel();
      const std::size_t best = found_.winner;
      if (best == around || left < 0.1 * seconds_) break;
      around = best;
      std::vector<std::size_t> list = {0};
      if (best != 0) list.push_back(best);
      const std::size_t before = ways_.count();
      ways_.add_neighbours_of(best);
      if (ways_.count() == before) break;
      for (std::size_t i = before; i < ways_.count(); ++i) list.push_back(i);
      found_.timings.resize(ways_.count());
      status = race(list, 0.6 * left);
    }
    return status;
  }

  double seconds_of_duel() const {
    const double pairs = static_cast<double>(search::least_pairs) + 2;
    return std::max((1 - before_duel) * seconds_, pairs * (estimate_.median() + winner_.median()));
  }

  // The estimate stays unless the winner, timed beside it anew, is surely faster.
  Status confirm() {
    search::RaceOptions options;
    options.seconds = std::max(seconds_ - elapsed(), 0.);
    set_up(&options);
    const std::size_t pair[] = {0, found_.winner};
    search::Duel duel;
    const Status status =
        search::duel([&](std::size_t i) { return ways_.run(pair[i]); }, options, &duel);
    if (!status.is_ok()) return status;
    found_.stopped = duel.stopped;
    if (duel.timings[0].rounds() > 0) {
      estimate_ = duel.timings[0];
      winner_ = duel.timings[1];
    }
    if (duel.is_won || duel.stopped) return status;
    found_.winner = 0;
    winner_ = estimate_;
    return status;
  }

  Status undecided(const std::string& why) {
    char times[64];
    std::snprintf(times, sizeof times, " (%.3g of %.3g s)", elapsed(), seconds_);
    found_.verdict = {Reason::absent, why + times};
    return Status::ok();
  }

  Status finish(const Status& status) {
    found_.seconds = elapsed();
    if (!status.is_ok()) return status;
    if (!is_decided_) {
      return undecided(found_.stopped ? "interrupted" : "too few rounds to tell which is faster");
    }
    wisdom::Record& record = found_.record;
    record.plan = ways_.plan(found_.winner);
    record.problem = ways_.problem();
    record.seconds = winner_.median();
    record.mad = winner_.mad();
    record.estimate_seconds = estimate_.median();
    record.rounds = winner_.rounds();
    record.date = date_now();
    return status;
  }

  double seconds_, begin_;
  const Watch& watch_;
  Ways& ways_;
  Found& found_;
  bool is_decided_ = false;
  search::Timing estimate_, winner_;
};

}  // namespace

double seconds_of(const RunOptions& options) {
  const double most = options.rigor == Rigor::patient ? patient_seconds : measure_seconds;
  return options.time_limit_seconds > 0 ? std::min(options.time_limit_seconds, most) : most;
}

wisdom::Rigor rigor_of(const RunOptions& options) {
  return seconds_of(options) > measure_seconds ? options.rigor : Rigor::measure;
}

Status find_fastest(const RunOptions& options, double begin, const Watch& watch, Ways* ways,
                    Found* found) {
  const Status status = Search(seconds_of(options), begin, watch, ways, found).run();
  found->record.rigor = found->stopped ? Rigor::measure : rigor_of(options);
  return status;
}

}  // namespace ioattn::api
