#include "tune/tune_job.hpp"

#include "api/layer_search.hpp"
#include "api/sdpa_search.hpp"
#include "tune/candidates_report.hpp"
#include "tune/options.hpp"
#include "tune/sdpa_report.hpp"

namespace ioattn::tune {
namespace {

template <class Kind>
JobOutcome outcome_of(const api::SearchReportOf<Kind>& report, const typename Kind::Set& set) {
  return {report, to_text(report.timed), candidates_json(report, set),
          candidates_text(report, set)};
}

template <class Kind>
TuneJob job_of(const typename Kind::Problem& problem, const typename Kind::Set& set) {
  require(api::validate_problem(problem));
  TuneJob job;
  job.problem = to_text(problem);
  job.pass = api::name_of_pass(set);
  job.is_needed = [=](const api::RunOptions& options) {
    bool needed = true;
    require(api::needs_search<Kind>(problem, set, options, &needed));
    return needed;
  };
  job.search = [=](const api::RunOptions& options, const api::Watch& watch) {
    api::SearchReportOf<Kind> report;
    require(api::search_plan<Kind>(problem, set, options, watch, &report));
    return outcome_of<Kind>(report, set);
  };
  job.list = [=](const api::RunOptions& options) {
    return outcome_of<Kind>(candidates_of<Kind>(problem, set, options), set);
  };
  return job;
}

template <class Set>
Set set_of(const std::string& name, const char* otherwise, const char* known) {
  Set set;
  if (!api::parse_pass(name.empty() ? otherwise : name, &set) || !set) {
    throw UsageError("\"" + name + "\" is no set of gradients: " + known);
  }
  return set;
}

template <class Kind>
std::vector<TuneJob> passes_of(const typename Kind::Problem& problem,
                               const typename Kind::Set& gradients, std::optional<Pass> pass) {
  std::vector<TuneJob> jobs;
  if (pass != Pass::backward) jobs.push_back(job_of<Kind>(problem, std::nullopt));
  if (pass != Pass::forward) jobs.push_back(job_of<Kind>(problem, gradients));
  return jobs;
}

}  // namespace

std::vector<TuneJob> jobs_of(const std::string& text, std::optional<Pass> pass,
                             const std::string& gradients) {
  if (is_sdpa(text)) {
    const auto set = set_of<std::optional<SdpaSet>>(gradients, "dQ+dK+dV", "dQ, dK, dV, dBias");
    return passes_of<api::SdpaKind>(sdpa_of(text), set, pass);
  }
  const LayerProblem problem = layer_problem(text, {}, {});
  auto set =
      set_of<std::optional<GradientSet>>(gradients, "dX", "dX, dY, dA1, dA2, dA3, dA, dW_Q, dW_K");
  if (set->dA && problem.shape.tie == Tie::none) {
    throw UsageError("dA is the sum over operands that share memory: none do in " + text);
  }
  if (set->dW_Q || set->dW_K) set->dk = problem.shape.d;
  return passes_of<api::LayerKind>(problem, set, pass);
}

}  // namespace ioattn::tune
