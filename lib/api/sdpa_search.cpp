#include "api/sdpa_search.hpp"

#include "api/timed_sdpa.hpp"
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
  Search(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set, double seconds,
         const std::function<bool(const search::Progress&)>& progress, SearchReport* report)
      : request_(request),
        set_(set),
        seconds_(seconds),
        begin_(search::steady_seconds()),
        progress_(progress),
        report_(*report) {}

  Status run() {
    Status status = plan::list_candidates(request_, set_, &report_.candidates);
    if (!status.is_ok()) return status;
    report_.timings.resize(report_.candidates.size());
    if (TimedSdpa::bytes(report_.timed, set_) > most_bytes || is_hopeless()) return too_long();
    plan::SdpaPlan forward;
    if (set_) status = plan::make_sdpa_plan(request_, &forward);
    if (status.is_ok()) {
      status = TimedSdpa::make(report_.timed, set_, report_.threads, forward, &timed_);
    }
    if (!status.is_ok()) return status;
    std::vector<std::size_t> all(report_.candidates.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    status = race(all, first_part * (seconds_ - elapsed()));
    if (!status.is_ok() || report_.stopped || !is_decided_) return finish(status);
    return finish(race_neighbours());
  }

 private:
  double elapsed() const { return search::steady_seconds() - begin_; }

  // Whether not even a fast CPU could run the estimate often enough to tell anything.
  bool is_hopeless() const {
    const double fma = static_cast<double>(report_.candidates[0].estimate.fma);
    const double fma_per_second = report_.threads * static_cast<double>(request_.tile.cols) * 3e9;
    return fma / fma_per_second > seconds_ / 16;
  }

  // Of some candidates, the estimate first; the last race that could tell decides.
  Status race(const std::vector<std::size_t>& candidates, double seconds) {
    search::RaceOptions options;
    options.seconds = seconds;
    options.progress = [&](search::Progress progress) {
      if (!progress_) return true;
      progress.seconds_left = std::max(seconds_ - elapsed(), 0.);
      progress.done = 1 - progress.seconds_left / seconds_;
      return progress_(progress);
    };
    search::Race race;
    const Status status = search::race(
        candidates.size(),
        [&](std::size_t i) { return timed_->run(report_.candidates[candidates[i]].plan); }, options,
        &race);
    report_.stopped = race.stopped;
    if (!status.is_ok()) return status;
    if (race.is_decided) {
      is_decided_ = true;
      report_.winner = candidates[race.winner];
      estimate_ = race.timings[0];
      winner_ = race.timings[race.winner];
    }
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      search::Timing& timing = report_.timings[candidates[i]];
      if (race.timings[i].rounds() > 0) timing = std::move(race.timings[i]);
    }
    return status;
  }

  // Once around the best, and, while there is time, around what was better there.
  Status race_neighbours() {
    Status status;
    for (std::size_t around = report_.candidates.size(); status.is_ok() && !report_.stopped;) {
      const double left = seconds_ - elapsed();
      const std::size_t best = report_.winner;
      if (best == around || left < 0.1 * seconds_) break;
      around = best;
      std::vector<std::size_t> list = {0};
      if (best != 0) list.push_back(best);
      const std::size_t before = report_.candidates.size();
      for (plan::SdpaCandidate& one :
           plan::neighbours(request_, set_, report_.candidates[best].plan)) {
        if (report_.candidates.size() >= plan::most_candidates || is_known(one.plan)) continue;
        list.push_back(report_.candidates.size());
        one.made_from += " of " + std::to_string(best);
        report_.candidates.push_back(std::move(one));
      }
      report_.timings.resize(report_.candidates.size());
      if (report_.candidates.size() == before) break;
      status = race(list, 0.6 * left);
    }
    return status;
  }

  bool is_known(const plan::SdpaPlan& plan) const {
    for (const plan::SdpaCandidate& candidate : report_.candidates)
      if (candidate.plan.blocks == plan.blocks) return true;
    return false;
  }

  Status too_long() {
    report_.verdict = {Reason::absent, to_text(report_.timed) + " is too long to be timed in " +
                                           std::to_string(seconds_) + " seconds"};
    return Status::ok();
  }

  Status finish(const Status& status) {
    report_.seconds = elapsed();
    if (!status.is_ok()) return status;
    if (!is_decided_) return too_long();
    wisdom::Record& record = report_.record;
    record.plan = to_text(report_.candidates[report_.winner].plan);
    record.problem = to_text(report_.timed);
    record.seconds = winner_.median();
    record.mad = winner_.mad();
    record.estimate_seconds = estimate_.median();
    record.rounds = winner_.rounds();
    record.date = date_now();
    return status;
  }

  const plan::SdpaRequest& request_;
  const std::optional<SdpaSet>& set_;
  double seconds_, begin_;
  const std::function<bool(const search::Progress&)>& progress_;
  SearchReport& report_;
  std::unique_ptr<TimedSdpa> timed_;
  bool is_decided_ = false;
  search::Timing estimate_, winner_;
};

}  // namespace

SdpaProblem timed_problem(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                          int threads) {
  SdpaProblem timed = problem;
  const SdpaShape of = shape_to_plan(problem.shape);
  timed.shape = of;
  timed.shape.batch = 1;
  timed.shape.heads = timed.shape.kv_heads = std::min<index_t>(of.all_heads(), threads);
  timed.shape.mask = {};
  timed.shape.bias_batch = timed.shape.bias_heads = set && set->dBias ? 1 : 0;
  return timed;
}

double seconds_of(const RunOptions& options) {
  const double most = options.rigor == Rigor::patient ? patient_seconds : measure_seconds;
  return options.time_limit_seconds > 0 ? std::min(options.time_limit_seconds, most) : most;
}

Status search_sdpa(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                   const RunOptions& options,
                   const std::function<bool(const search::Progress&)>& progress,
                   SearchReport* report) {
  *report = {};
  Status status = validate_problem(problem);
  if (!status.is_ok()) return status;
  if (!takes_wisdom(options)) {
    return Status::error(
        StatusCode::unsupported,
        "a search is for time, with M and the level that decides from the machine");
  }
  report->timed = timed_problem(problem, set, granted_threads(options.threads));
  report->threads = threads_for(work_of(report->timed.shape), options);
  plan::SdpaRequest request;
  status = sdpa_request(report->timed, options, &request);
  if (!status.is_ok()) return status;
  status = Search(request, set, seconds_of(options), progress, report).run();
  if (!status.is_ok() || !report->verdict.is_ok()) return status;
  report->record.rigor = options.rigor == Rigor::patient ? Rigor::patient : Rigor::measure;
  const wisdom::ProblemClass of = class_of(report->timed.shape, problem.dtype, set);
  change_wisdom([&](wisdom::Wisdom* wisdom) {
    wisdom->keep(environment_of(request.tile.isa), of, report->record);
  });
  return status;
}

Status needs_search(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                    const RunOptions& options, bool* needed) {
  *needed = false;
  if (options.rigor != Rigor::measure && options.rigor != Rigor::patient) return Status::ok();
  *needed = true;
  if (!takes_wisdom(options)) return Status::ok();  // the search says why not
  plan::SdpaRequest request;
  const Status status = sdpa_request(problem, options, &request);
  if (!status.is_ok()) return status;
  const WisdomReading known;
  const wisdom::Record* record = find_record(*known, request, set);
  plan::SdpaPlan plan;
  *needed = record == nullptr || record->rigor < options.rigor ||
            !read_plan(request, set, *record, &plan).is_ok();
  return status;
}

}  // namespace ioattn::api
