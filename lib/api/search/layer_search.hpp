#pragma once

#include "api/planning/layer_planning.hpp"
#include "api/planning/session.hpp"
#include "api/run_options.hpp"
#include "api/search/timed_layer.hpp"
#include "api/search/tuned_kind.hpp"

// The fastest plan of a layer problem, found by timing.
namespace ioattn::api {

// One entry, with its mask: others take other schedules.
LayerProblem timed_problem(const LayerProblem& problem);

struct LayerKind {
  using Problem = LayerProblem;
  using Set = std::optional<GradientSet>;
  using Request = plan::LayerRequest;
  using Plan = plan::LayerPlan;
  using Candidate = plan::LayerCandidate;
  using Timed = TimedLayer;

  static Problem timed(const Problem& problem, const Set&, int) { return timed_problem(problem); }
  static int threads(const Problem&, const RunOptions& options) {
    return granted_threads(options.threads);
  }
  static Status request_of(const Problem& problem, const Set& set, const RunOptions& options,
                           Request* request) {
    return plan_request(set ? Pass::backward : Pass::forward, problem, options, request);
  }
  static Status request_of_estimate(const Request& request, const Set&, const RunOptions&,
                                    Request* made) {
    *made = request;
    return Status::ok();
  }
  static std::string text_of(const Plan& plan, const Set& set, const Problem& problem) {
    return plan::to_text(plan, set, problem.shape.tie);
  }
  static wisdom::ProblemClass class_of(const Problem& problem, const Set& set) {
    return api::class_of(problem, set);
  }
  static Status check_search(const RunOptions& options);
};
using LayerSearchReport = SearchReportOf<LayerKind>;

}  // namespace ioattn::api
