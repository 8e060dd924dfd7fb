#include "tune/reports/sdpa_report.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "api/checks/validate.hpp"
#include "api/planning/sdpa_estimate.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "tune/reports/candidates_report.hpp"
#include "tune/reports/levels_report.hpp"
#include "tune/reports/rates_report.hpp"

namespace ioattn::tune {
bool is_sdpa(const std::string& text) { return text.rfind("sdpa:", 0) == 0; }

SdpaProblem sdpa_of(const std::string& text) {
  SdpaProblem problem;
  std::string error;
  if (!parse_problem(text, &problem, &error)) throw UsageError(error);
  const SdpaShape& s = problem.shape;
  for (const index_t size : {s.batch, s.heads, s.kv_heads, s.n, s.m, s.d, s.dv}) {
    if (size < 1) throw UsageError("every size must be at least 1 in " + text);
  }
  require(api::validate_problem(problem));
  if (seen_keys(s.head()).is_empty()) throw UsageError("the mask hides every key");
  return problem;
}

CLI::Option* add_rigor(CLI::App* app, wisdom::Rigor* rigor) {
  return app
      ->add_option_function<std::string>(
          "--rigor", [rigor](const std::string& name) { wisdom::parse_rigor(name, rigor); },
          "measure: 0.5 s for each pass (default); patient: 30 s")
      ->check(CLI::IsMember({"measure", "patient"}));
}

void require(const wisdom::Verdict& verdict) {
  if (verdict.is_ok()) return;
  const std::string message = std::string(name_of(verdict.reason)) + ": " + verdict.message;
  if (verdict.reason == wisdom::Reason::unwritable || verdict.reason == wisdom::Reason::busy) {
    throw RunError(message);
  }
  throw UsageError(message);
}

std::string wisdom_file(const std::string& named) {
  return named.empty() ? users_wisdom_file("; --file names one") : named;
}

std::string users_wisdom_file(const std::string& otherwise) {
  std::string user = wisdom::places_here().user;
  if (!user.empty()) return user;
  throw UsageError(
      "there is no place for wisdom: IOATTN_WISDOM is off, or neither XDG_CACHE_HOME "
      "nor HOME is a path" +
      otherwise);
}

namespace {

Json isas_json(const api::IsaChoice& choice) {
  Json list = Json::array();
  for (const api::IsaTrial& trial : choice.trials) {
    list.push_back({{"isa", name_of(trial.isa)},
                    {"time", trial.time},
                    {"rate", trial.is_measured ? "measured" : "assumed"},
                    {"estimate", trial.isa == choice.chosen}});
  }
  return list;
}

// "instruction sets: avx512, avx2 in 0.72 of its time at assumed rates; estimates take avx2".
std::string isas_text(const api::IsaChoice& choice) {
  std::string text = std::string("instruction sets: ") + name_of(choice.trials[0].isa);
  for (std::size_t i = 1; i < choice.trials.size(); ++i) {
    const api::IsaTrial& trial = choice.trials[i];
    text += fmt::format(", {} in {:.2f} of its time at {} rates", name_of(trial.isa), trial.time,
                        trial.is_measured ? "measured" : "assumed");
  }
  if (choice.trials.size() == 1) return text + " alone is looked at";
  return text + "; the estimate takes " + name_of(choice.chosen);
}

}  // namespace

void print_sdpa_plan(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                     const api::RunOptions& options, bool explain, bool json) {
  plan::SdpaPlan plan;
  plan::Estimate estimate;
  api::PlanOrigin origin;
  require(api::plan_sdpa(problem, set, options, &plan, &estimate, &origin));
  api::SearchReport report;
  api::KnownPrice price;
  api::IsaChoice choice;
  LevelsReport levels;
  if (explain) {
    plan::SdpaRequest request;
    require(api::sdpa_request(problem, options, &request));
    levels = levels_of(request, set, plan);
    plan::SdpaPlan estimated;
    require(api::estimate_sdpa(request, set, options, &estimated, nullptr, nullptr, &choice));
    report = candidates_of<api::SdpaKind>(problem, set, options);
    price = api::known_price(options, plan.tile.isa, problem.dtype);
  }
  const IoCost total = estimate.cost.total();
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
      object["why"] = why_of(origin, options.objective);
      object["predicted"] = levels_json(levels);
      object["instruction_sets"] = isas_json(choice);
      object["candidates"] = candidates_json(report, set);
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
  fmt::print("why: {}\n{}\n{}\n{}candidates, for {}, and their predicted times:\n{}",
             why_of(origin, options.objective), price_text(price), isas_text(choice),
             levels_text(levels), to_text(report.timed), candidates_text(report, set));
}

}  // namespace ioattn::tune
