#include "tune/sdpa_report.hpp"

#include <fmt/format.h>

#include "tune/command_error.hpp"
#include "tune/rates_report.hpp"
#include "tune/table.hpp"

namespace ioattn::tune {
namespace {

// Of a candidate to the estimate: predicted where nothing was timed.
double predicted(const api::SearchReport& report, std::size_t i) {
  return report.candidates[i].estimate.time / report.candidates[0].estimate.time;
}

std::string why(const std::string& origin, const wisdom::Verdict& verdict,
                api::Objective objective) {
  if (objective != api::Objective::time) {
    return "the fewest words; among equals the least predicted time";
  }
  if (origin == "wisdom") return "a search found it the fastest";
  const std::string reason = std::string(name_of(verdict.reason)) + ": " + verdict.message;
  return "the least predicted time; no wisdom has a say (" + reason + ")";
}

}  // namespace

bool is_sdpa(const std::string& text) { return text.rfind("sdpa:", 0) == 0; }

SdpaProblem sdpa_of(const std::string& text) {
  SdpaProblem problem;
  std::string error;
  if (!parse_problem(text, &problem, &error)) throw UsageError(error);
  return problem;
}

CLI::Option* add_rigor(CLI::App* app, wisdom::Rigor* rigor) {
  return app
      ->add_option_function<std::string>(
          "--rigor", [rigor](const std::string& name) { wisdom::parse_rigor(name, rigor); },
          "measure: 0.5 s for each pass (default); patient: 30 s")
      ->check(CLI::IsMember({"measure", "patient"}));
}

std::string wisdom_file(const std::string& named) {
  if (!named.empty()) return named;
  std::string user = wisdom::places_here().user;
  if (!user.empty()) return user;
  throw UsageError(
      "there is no place for wisdom: IOATTN_WISDOM is off, or neither XDG_CACHE_HOME "
      "nor HOME is a path; --file names one");
}

api::SearchReport candidates_of(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                                const api::RunOptions& options) {
  api::SearchReport report;
  report.timed = api::timed_problem(problem, set, api::granted_threads(options.threads));
  plan::SdpaRequest request;
  require(api::sdpa_request(report.timed, options, &request));
  require(plan::list_candidates(request, set, &report.candidates));
  report.timings.resize(report.candidates.size());
  return report;
}

Json candidates_json(const api::SearchReport& report) {
  Json list = Json::array();
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const plan::SdpaCandidate& candidate = report.candidates[i];
    const search::Timing& timing = report.timings[i];
    Json json;
    json["plan"] = to_text(candidate.plan);
    json["made_from"] = candidate.made_from;
    json["words"] = candidate.estimate.cost.total().words();
    json["footprint"] = candidate.estimate.cost.total().footprint;
    json["predicted"] = candidate.estimate.time > 0 ? Json(predicted(report, i)) : Json();
    json["rounds"] = timing.rounds();
    json["median"] = timing.rounds() > 0 ? Json(timing.median()) : Json();
    list.push_back(json);
  }
  return list;
}

std::string candidates_text(const api::SearchReport& report) {
  Table table({"made from", "plan", "words", "footprint", "predicted"}, 2);
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const plan::SdpaCandidate& candidate = report.candidates[i];
    const theory::IoCost total = candidate.estimate.cost.total();
    table.add({candidate.made_from, to_text(candidate.plan), grouped(total.words()),
               grouped(total.footprint), ratio_text(predicted(report, i))});
  }
  return table.text();
}

void print_sdpa_plan(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                     const api::RunOptions& options, bool explain, bool json) {
  plan::SdpaPlan plan;
  plan::SdpaEstimate estimate;
  api::PlanOrigin origin;
  require(set ? api::plan_sdpa(problem, *set, options, &plan, &estimate, &origin)
              : api::plan_sdpa(problem, options, &plan, &estimate, &origin));
  api::SearchReport report;
  api::KnownPrice price;
  if (explain) {
    report = candidates_of(problem, set, options);
    price = api::known_price(options, plan.isa, problem.dtype);
  }
  const theory::IoCost total = estimate.cost.total();
  if (json) {
    Json object;
    object["problem"] = to_text(problem);
    object["pass"] = api::name_of_pass(set);
    object["plan"] = to_text(plan);
    object["origin"] = origin.name;
    object["objective"] = name_of(options.objective);
    object["wisdom"] = {{"code", name_of(origin.wisdom.reason)},
                        {"message", origin.wisdom.message}};
    object["level"] = plan.level;
    object["M"] = estimate.M;
    object["words"] = total.words();
    object["footprint"] = total.footprint;
    object["fma"] = estimate.fma;
    if (explain) {
      object["price"] = price_json(price);
      object["why"] = why(origin.name, origin.wisdom, options.objective);
      object["candidates"] = candidates_json(report);
    }
    print_json(object);
    return;
  }
  fmt::print("{}, {}\nplan: {}\n{}: M = {}, footprint {}, {} words, {} multiply-adds\n",
             to_text(problem), api::name_of_pass(set), to_text(plan), plan.level,
             grouped(estimate.M), grouped(total.footprint), grouped(total.words()),
             grouped(estimate.fma));
  fmt::print("origin: {}\nobjective: {}\n", origin.name, name_of(options.objective));
  if (!explain) return;
  fmt::print("why: {}\n{}\ncandidates, for {}, and their predicted times:\n{}",
             why(origin.name, origin.wisdom, options.objective), price_text(price),
             to_text(report.timed), candidates_text(report));
}

}  // namespace ioattn::tune
