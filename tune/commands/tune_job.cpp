#include "tune/commands/tune_job.hpp"

#include <algorithm>

#include "api/known/pass_name.hpp"
#include "api/search/layer_search.hpp"
#include "api/search/sdpa_search.hpp"
#include "tune/options/options.hpp"
#include "tune/reports/candidates_report.hpp"

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

// In any order and with commas, too, unlike in a file of wisdom, where a set has one name.
template <class Set, class Named, std::size_t count>
Set set_of(std::string names, const char* otherwise, const Named (&gradients)[count]) {
  std::replace(names.begin(), names.end(), ',', '+');
  Set set;
  for (const std::string& name : api::names_of_set(names.empty() ? otherwise : names)) {
    const auto found = std::find_if(std::begin(gradients), std::end(gradients),
                                    [&](const Named& gradient) { return name == gradient.name; });
    if (found == std::end(gradients)) {
      std::string known;
      for (const Named& gradient : gradients)
        known += (known.empty() ? "" : ", ") + std::string(gradient.name);
      throw UsageError("\"" + name + "\" is no gradient: there are " + known);
    }
    if (set.*found->wanted) throw UsageError(name + " is there twice in " + names);
    set.*found->wanted = true;
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
    const auto set = set_of<SdpaSet>(gradients, "dQ+dK+dV", named_sdpa_gradients);
    return passes_of<api::SdpaKind>(sdpa_of(text), set, pass);
  }
  const LayerProblem problem = layer_problem(text, {}, {});
  auto set = set_of<GradientSet>(gradients, "dX", named_gradients);
  if (set.dA && problem.shape.tie == Tie::none) {
    throw UsageError("dA is the sum over operands that share memory: none do in " + text);
  }
  if (set.dW_Q || set.dW_K) set.dk = problem.shape.d;
  return passes_of<api::LayerKind>(problem, set, pass);
}

}  // namespace ioattn::tune
