#pragma once

#include "api/planning/sdpa_estimate.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/run_options.hpp"
#include "api/search/timed_sdpa.hpp"
#include "api/search/tuned_kind.hpp"

// The fastest plan of an SDPA problem, found by timing.
namespace ioattn::api {

// What is timed in place of a problem: one entry with as many heads as threads can take at a time,
// each with keys of its own, without a mask. Blocks depend on none of that.
SdpaProblem timed_problem(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                          int threads);

struct SdpaKind {
  using Problem = SdpaProblem;
  using Set = std::optional<SdpaSet>;
  using Request = plan::SdpaRequest;
  using Plan = plan::SdpaPlan;
  using Candidate = plan::SdpaCandidate;
  using Timed = TimedSdpa;

  static Problem timed(const Problem& problem, const Set& set, int threads) {
    return timed_problem(problem, set, threads);
  }
  static int threads(const Problem& timed, const RunOptions& options) {
    return threads_for(work_of(timed.shape), options);
  }
  static Status request_of(const Problem& problem, const Set&, const RunOptions& options,
                           Request* request) {
    return sdpa_request(problem, options, request);
  }
  // With the instruction set of the estimate.
  static Status request_of_estimate(const Request& request, const Set& set,
                                    const RunOptions& options, Request* made) {
    Plan plan;
    return estimate_sdpa(request, set, options, &plan, nullptr, made);
  }
  static std::string text_of(const Plan& plan, const Set&, const Problem&) {
    return plan::to_text(plan);
  }
  static wisdom::ProblemClass class_of(const Problem& problem, const Set& set) {
    return api::class_of(problem.shape, problem.dtype, set);
  }
  static Status check_search(const RunOptions& options);
};
using SearchReport = SearchReportOf<SdpaKind>;

}  // namespace ioattn::api
