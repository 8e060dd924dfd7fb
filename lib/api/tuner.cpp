#include "api/tuner.hpp"

#include "api/wisdom_state.hpp"
#include "search/sample.hpp"

namespace ioattn::api {
namespace {

using wisdom::Reason;
using wisdom::Rigor;

constexpr double measure_seconds = 0.5, patient_seconds = 30;
constexpr index_t most_bytes = index_t(2) << 30;  // of what is timed
constexpr double first_part = 0.6;                // of the time; the rest is for neighbours

class Search {
 public:
  Search(double seconds, double begin, const Watch& watch, Ways* ways, Found* found)
      : seconds_(seconds), begin_(begin), watch_(watch), ways_(*ways), found_(*found) {}

  Status run() {
    found_.timings.resize(ways_.count());
    if (ways_.bytes() > most_bytes || ways_.least_seconds() > seconds_ / 16) return too_long();
    Status status = ways_.prepare();
    if (!status.is_ok()) return status;
    std::vector<std::size_t> all(ways_.count());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    status = race(all, first_part * (seconds_ - elapsed()));
    if (!status.is_ok() || found_.stopped || !is_decided_) return finish(status);
    return finish(race_neighbours());
  }

 private:
  double elapsed() const { return search::steady_seconds() - begin_; }

  // Of some candidates, the estimate first; the last race that could tell decides.
  Status race(const std::vector<std::size_t>& candidates, double seconds) {
    search::RaceOptions options;
    options.seconds = seconds;
    options.progress = [&](search::Progress progress) {
      if (!watch_) return true;
      progress.seconds_left = std::max(seconds_ - elapsed(), 0.);
      progress.done = 1 - progress.seconds_left / seconds_;
      return watch_(progress);
    };
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
      const double left = seconds_ - elapsed();
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

  Status too_long() {
    found_.verdict = {Reason::absent, ways_.problem() + " is too long to be timed in " +
                                          std::to_string(seconds_) + " seconds"};
    return Status::ok();
  }

  Status finish(const Status& status) {
    found_.seconds = elapsed();
    if (!status.is_ok()) return status;
    if (!is_decided_) return too_long();
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

Status find_fastest(const RunOptions& options, double begin, const Watch& watch, Ways* ways,
                    Found* found) {
  const Status status = Search(seconds_of(options), begin, watch, ways, found).run();
  found->record.rigor = options.rigor == Rigor::patient ? Rigor::patient : Rigor::measure;
  return status;
}

}  // namespace ioattn::api
