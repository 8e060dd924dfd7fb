#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/checks/validate.hpp"
#include "api/checks/validate_sdpa.hpp"
#include "api/known/known_plan.hpp"
#include "api/planning/session.hpp"
#include "api/run_options.hpp"
#include "api/search/tuner.hpp"
#include "plan/candidate_list.hpp"
#include "plan/layer/layer_candidates.hpp"
#include "plan/sdpa/sdpa_candidates.hpp"
#include "search/sample.hpp"

// A search for plans of one kind of problem. Kind has the types Problem, Set (no set: the forward
// pass), Request, Plan, Candidate and Timed, and tells what is particular: see SdpaKind.
namespace ioattn::api {

template <class Kind>
struct SearchReportOf : Found {
  typename Kind::Problem timed;
  std::vector<typename Kind::Candidate> candidates;  // the estimate first
};

template <class Kind>
class WaysOf final : public Ways {
 public:
  using Request = typename Kind::Request;
  using Set = typename Kind::Set;

  WaysOf(const Request& request, const Set& set, SearchReportOf<Kind>* report)
      : request_(request), set_(set), report_(*report) {}

  std::size_t count() const override { return report_.candidates.size(); }
  std::string problem() const override { return to_text(report_.timed); }
  std::string plan(std::size_t i) const override {
    return Kind::text_of(report_.candidates[i].plan, set_, report_.timed);
  }
  index_t bytes() const override { return Kind::Timed::bytes(report_.timed, set_); }
  double least_seconds() const override {
    constexpr double vectors_per_second = 3e9;
    const auto fma = static_cast<double>(report_.candidates[0].estimate.fma);
    return fma / (report_.threads * static_cast<double>(request_.tile.cols) * vectors_per_second);
  }
  Status prepare() override {
    typename Kind::Plan forward;
    if (set_) {
      Request unlimited = request_;
      unlimited.memory_limit_bytes = -1;
      const Status status = plan::make_plan_of(unlimited, Set(), &forward, nullptr);
      if (!status.is_ok()) return status;
    }
    return Kind::Timed::make(report_.timed, set_, report_.threads, forward, &timed_);
  }
  Status run(std::size_t i) override { return timed_->run(report_.candidates[i].plan); }
  void add_neighbours_of(std::size_t i) override {
    for (typename Kind::Candidate& one :
         plan::neighbours(request_, set_, report_.candidates[i].plan)) {
      if (count() >= plan::most_candidates || plan::is_listed(report_.candidates, one.plan))
        continue;
      one.made_from += " of " + std::to_string(i);
      report_.candidates.push_back(std::move(one));
    }
  }

 private:
  const Request& request_;
  const Set& set_;
  SearchReportOf<Kind>& report_;
  std::unique_ptr<typename Kind::Timed> timed_;
};

// Adds the candidates on other instruction sets than that of the estimate, which the request has.
template <class Kind>
Status add_other_kernels(const typename Kind::Request& request, const typename Kind::Set& set,
                         const RunOptions& options, SearchReportOf<Kind>* report) {
  const DType dtype = report->timed.dtype;
  for (const kernels::Kernels* kernels : kernels_beside(request.tile, dtype)) {
    typename Kind::Request alike = request;
    alike.tile = kernels->tile(dtype);
    alike.price = price_of(options, alike.tile.isa, dtype);
    std::vector<typename Kind::Candidate> others;
    const Status status = plan::list_candidates(alike, set, &others);
    if (!status.is_ok()) return status;
    const double slower = slower_by(WisdomReading()->wisdom, request.tile, alike.tile, dtype);
    plan::add_candidates(std::move(others), name_of(alike.tile.isa), slower, &report->candidates);
  }
  return Status::ok();
}

// What there is to time, before anything is: the problem that is timed in place of a valid one, and
// the candidates; of one instruction set unless a search may be asked for.
template <class Kind>
Status list_ways(const typename Kind::Problem& problem, const typename Kind::Set& set,
                 const RunOptions& options, typename Kind::Request* request,
                 SearchReportOf<Kind>* report) {
  *report = {};
  report->timed = Kind::timed(problem, set, granted_threads(options.threads));
  report->threads = Kind::threads(report->timed, options);
  Status status = Kind::request_of(report->timed, set, options, request);
  typename Kind::Request of_estimate;
  if (status.is_ok()) status = Kind::request_of_estimate(*request, set, options, &of_estimate);
  if (status.is_ok()) status = plan::list_candidates(of_estimate, set, &report->candidates);
  if (status.is_ok() && Kind::check_search(options).is_ok()) {
    status = add_other_kernels<Kind>(of_estimate, set, options, report);
  }
  report->timings.resize(report->candidates.size());
  return status;
}

// What is known of a problem and has a plan for these options; *record is nullptr if there is none.
template <class Kind>
Status usable_record(const KnownWisdom& known, const typename Kind::Problem& problem,
                     const typename Kind::Set& set, const RunOptions& options,
                     const wisdom::Record** record) {
  *record = nullptr;
  typename Kind::Request request;
  const Status status = Kind::request_of(problem, set, options, &request);
  if (!status.is_ok()) return status;
  const wisdom::Record* found = find_record(known, request, set);
  typename Kind::Plan plan;
  if (found != nullptr && read_plan(request, set, *found, &plan).is_ok()) *record = found;
  return Status::ok();
}

// Searches with the rigor, time and threads of the options, whatever is known already. What is
// found is known to the process then, unless that had more rigor: a record without a plan for such
// options is replaced whatever its rigor, or each of them would search again.
template <class Kind>
Status search_plan(const typename Kind::Problem& problem, const typename Kind::Set& set,
                   const RunOptions& options, const Watch& watch, SearchReportOf<Kind>* report) {
  const double begin = search::steady_seconds();
  *report = {};
  Status status = validate_problem(problem);
  if (status.is_ok()) status = Kind::check_search(options);
  typename Kind::Request request;
  if (status.is_ok()) status = list_ways<Kind>(problem, set, options, &request, report);
  if (!status.is_ok()) return status;
  WaysOf<Kind> ways(request, set, report);
  status = find_fastest(options, begin, watch, &ways, report);
  if (!status.is_ok() || !report->verdict.is_ok()) return status;
  const wisdom::ProblemClass of = Kind::class_of(report->timed, set);
  const wisdom::Environment here = environment_of(request.tile.isa);
  bool is_known = false;
  {
    const WisdomReading known;
    const wisdom::Record* usable = nullptr;
    status = usable_record<Kind>(*known, problem, set, options, &usable);
    is_known = usable != nullptr;
  }
  if (!status.is_ok()) return status;
  change_wisdom([&](wisdom::Wisdom* wisdom) {
    if (!is_known) wisdom->replace(here, of, report->record);
    report->kept = !is_known || wisdom->keep(here, of, report->record);
  });
  return status;
}

// Whether the options ask for a search, and nothing of that much rigor is known.
template <class Kind>
Status needs_search(const typename Kind::Problem& problem, const typename Kind::Set& set,
                    const RunOptions& options, bool* needed) {
  *needed = asks_for_search(options);
  if (!*needed || !Kind::check_search(options).is_ok()) {
    return Status::ok();  // the search says why not
  }
  const WisdomReading known;
  const wisdom::Record* record = nullptr;
  const Status status = usable_record<Kind>(*known, problem, set, options, &record);
  *needed = record == nullptr || record->rigor < rigor_of(options);
  return status;
}

// The same, and searches then: whether something was learned.
template <class Kind>
Status search_if_needed(const typename Kind::Problem& problem, const typename Kind::Set& set,
                        const RunOptions& options, bool* learned) {
  Status status = needs_search<Kind>(problem, set, options, learned);
  if (!status.is_ok() || !*learned) return status;
  SearchReportOf<Kind> report;
  status = search_plan<Kind>(problem, set, options, nullptr, &report);
  *learned = report.kept;
  return status;
}

}  // namespace ioattn::api
