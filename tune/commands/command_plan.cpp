#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "api/planning/session.hpp"
#include "plan/blocks/fast_memory.hpp"
#include "plan/layer/planner.hpp"
#include "theory/bounds.hpp"
#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/options/options.hpp"
#include "tune/passes/measured_pass.hpp"
#include "tune/reports/plan_report.hpp"
#include "tune/text/report_json.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

struct PlanOptions {
  std::string problem;
  ShapeOptions shape;
  std::optional<DType> dtype;
  Pass pass = Pass::backward;
  api::RunOptions run;
  bool level_is_given = false;
  bool explain = false, json = false;
};

// A plan with blocks in M words of a level; `plan` is empty if nothing fits.
struct LevelPlan {
  std::string level;
  index_t M = 0;
  LayerShape shape;
  std::optional<plan::Plan> plan;
  std::string reason;
};

LevelPlan plan_level(const PlanOptions& options, const LayerProblem& problem,
                     const api::RunOptions& run) {
  plan::LayerRequest request;
  require(api::plan_request(options.pass, problem, run, &request));
  request.outer_M = 0;  // one level at a time
  LevelPlan level = {request.level, request.M, request.problem.shape, {}, ""};
  plan::Plan plan;
  const Status status = plan::make_plan(request, &plan);
  if (status.is_ok()) {
    level.plan = plan;
  } else {
    level.reason = status.message();
  }
  return level;
}

// L1 and L2, but for the level that holds the plan's blocks. L3 takes part only when asked.
std::vector<LevelPlan> other_levels(const PlanOptions& options, const LayerProblem& problem,
                                    const std::string& own) {
  std::vector<LevelPlan> levels;
  for (const int level : {1, 2}) {
    if (own == fmt::format("L{}", level)) continue;
    api::RunOptions run = options.run;
    run.M = 0;
    run.cache_level = level;
    if (run.objective != api::Objective::time) {
      run.objective = level == 1 ? api::Objective::words_l1 : api::Objective::words_l2;
    }
    levels.push_back(plan_level(options, problem, run));
  }
  return levels;
}

// Of every schedule, also where one was asked for; then those whose blocks L3 may hold.
std::vector<plan::Candidate> every_candidate(plan::LayerRequest request) {
  request.schedule.reset();
  std::vector<plan::Candidate> list = plan::candidates(request);
  for (plan::Candidate& outer : plan::offered(request, true)) list.push_back(std::move(outer));
  return list;
}

std::string level_name(const plan::LayerRequest& request, const plan::Candidate& candidate) {
  return candidate.is_outer ? plan::outer_level : request.level;
}

// Of the whole batch; the planner compares single entries.
struct Costs {
  theory::Bound bound;
  index_t bound_M = 0;  // for which the bound holds: M, or the footprint if that is more
  index_t words = 0, footprint = 0, fma = 0;
  double ratio = 0;
};

Costs costs_of(const plan::LayerRequest& request, const plan::Candidate& candidate) {
  const LayerProblem& problem = request.problem;
  const IoCost total = cost_of(request.pass, problem, candidate.schedule, candidate.blocks);
  Costs costs;
  costs.bound_M = std::max(words_of_M(request, candidate), total.footprint);
  costs.bound =
      theory::lower_bound(request.pass, theory::class_of(request.pass, candidate.schedule),
                          problem.shape, costs.bound_M, problem.batch);
  costs.words = total.words();
  costs.footprint = total.footprint;
  costs.fma = problem.batch * candidate.fma;
  costs.ratio = static_cast<double>(costs.words) / costs.bound.words;
  return costs;
}

// Whether the plan is of this schedule, form and level; its blocks may be others, those of wisdom.
bool is_planned(const LayerPlanReport& report, const plan::Candidate& candidate) {
  const plan::LayerRequest& request = report.request;
  return candidate.fits && report.level == level_name(request, candidate) &&
         variant_of(request.pass, report.schedule, report.pass_plan.blocks) ==
             variant_of(request.pass, candidate.schedule, candidate.blocks);
}

Json candidate_json(const LayerPlanReport& report, const plan::Candidate& candidate) {
  const plan::LayerRequest& request = report.request;
  Json json;
  json["planned"] = is_planned(report, candidate);
  json["level"] = level_name(request, candidate);
  json["schedule"] = name_of(candidate.schedule);
  json["form"] =
      has_form(candidate.schedule, Form::h) ? Json(name_of(candidate.blocks.form)) : Json();
  json["products"] = name_of(candidate.blocks.products);
  json["fits"] = candidate.fits;
  json["least_M"] = candidate.least_M;
  for (const char* cost : {"words", "fma", "footprint", "scratch_bytes", "within_memory_limit",
                           "lower_bound", "bound", "bound_M", "ratio"})
    json[cost] = Json();
  if (!candidate.fits) return json;
  const Costs costs = costs_of(request, candidate);
  json["words"] = costs.words;
  json["fma"] = costs.fma;
  json["footprint"] = costs.footprint;
  json["scratch_bytes"] = candidate.scratch_bytes;
  json["within_memory_limit"] = candidate.within_memory_limit;
  json["lower_bound"] = costs.bound.words;
  json["bound"] = costs.bound.name;
  json["bound_M"] = costs.bound_M;
  json["ratio"] = costs.ratio;
  return json;
}

Json level_json(const LevelPlan& level) {
  Json json;
  json["level"] = level.level;
  json["M"] = level.M;
  json["regime"] = name_of(theory::regime(level.shape, level.M));
  json["plan"] = level.plan ? Json(to_text(*level.plan)) : Json();
  json["schedule"] = level.plan ? Json(name_of(level.plan->schedule)) : Json();
  json["reason"] = level.plan ? Json() : Json(level.reason);
  return json;
}

void print_plan_json(const LayerPlanReport& report, const std::vector<LevelPlan>& others) {
  Json json = plan_json(report);
  json["schedules"] = Json::array();
  for (const plan::Candidate& candidate : every_candidate(report.request)) {
    json["schedules"].push_back(candidate_json(report, candidate));
  }
  json["levels"] = Json::array();
  for (const LevelPlan& level : others) json["levels"].push_back(level_json(level));
  print_json(json);
}

// "h", "h stored", or nothing for a schedule without forms.
std::string form_text(const plan::Candidate& candidate) {
  if (!has_form(candidate.schedule, Form::h)) return "";
  const std::string form = name_of(candidate.blocks.form);
  return candidate.blocks.products == Products::stored ? form + " stored" : form;
}

std::vector<std::string> candidate_row(const LayerPlanReport& report,
                                       const plan::Candidate& candidate) {
  const plan::LayerRequest& request = report.request;
  std::vector<std::string> row = {
      (is_planned(report, candidate) ? "> " : "  ") + level_name(request, candidate),
      name_of(candidate.schedule), form_text(candidate), grouped(candidate.least_M)};
  if (!candidate.fits) {
    row.push_back("does not fit");
    row.resize(11, "-");
    return row;
  }
  const Costs costs = costs_of(request, candidate);
  row.push_back(grouped(costs.words));
  row.push_back(grouped(costs.fma));
  row.push_back(grouped(costs.footprint));
  row.push_back(bytes_text(candidate.scratch_bytes) + (candidate.within_memory_limit ? "" : " !"));
  row.push_back(grouped(costs.bound.words));
  row.push_back(std::string(costs.bound.name) +
                (costs.bound_M > words_of_M(request, candidate) ? " *" : ""));
  row.push_back(ratio_text(costs.ratio));
  return row;
}

void print_level(const LevelPlan& level) {
  fmt::print("{}: M = {} words, {}: {}\n", level.level, grouped(level.M),
             name_of(theory::regime(level.shape, level.M)),
             level.plan ? to_text(*level.plan) : level.reason);
}

void print_plan(const LayerPlanReport& report, const std::vector<LevelPlan>& others) {
  const plan::LayerRequest& request = report.request;
  fmt::print("{}", plan_text(report));
  Table table({"level", "schedule", "form", "least M", "words", "multiply-adds", "footprint",
               "scratch", "lower bound", "by", "ratio"},
              3);
  bool limited = false, exceeds = false;
  for (const plan::Candidate& candidate : every_candidate(request)) {
    table.add(candidate_row(report, candidate));
    limited = limited || (candidate.fits && !candidate.within_memory_limit);
    exceeds = exceeds ||
              (candidate.fits && candidate.cost.total().footprint > words_of_M(request, candidate));
  }
  fmt::print("{}  > planned\n{}{}", table.text(),
             limited ? "  ! more scratch memory than the memory limit allows\n" : "",
             exceeds ? "  * it keeps more than M words: the bound for as many\n" : "");
  for (const LevelPlan& level : others) print_level(level);
  fmt::print("{}", explained_text(report));
}

void run_plan(const PlanOptions& options) {
  if (options.run.literal && options.run.schedule != Schedule::paper_large) {
    throw UsageError("--literal needs --schedule paper_large");
  }
  api::RunOptions run = options.run;
  run.reproducible = options.level_is_given;  // wisdom is for what callers leave open
  if (is_sdpa(options.problem)) {
    const PlanReport report = report_plan(sdpa_of(options.problem), options.pass, run,
                                          options.level_is_given, options.explain);
    if (options.json) return print_json(plan_json(report));
    fmt::print("{}{}", plan_text(report), explained_text(report));
    return;
  }
  const LayerProblem problem = layer_problem(options.problem, options.shape, options.dtype);
  const LayerPlanReport report =
      report_plan(problem, options.pass, run, options.level_is_given, options.explain);
  const std::vector<LevelPlan> others = other_levels(options, problem, report.level);
  if (options.json) {
    print_plan_json(report, others);
  } else {
    print_plan(report, others);
  }
}

void check_level(const PlanOptions& options) {
  const int named = level_of(options.run.objective, options.run.cache_level);
  if (options.level_is_given && named != options.run.cache_level) {
    throw UsageError("--level is not that of --objective");
  }
}

void add_level(CLI::App* command, PlanOptions* options, CLI::Option* M) {
  const auto parse = [=](const std::string& text) {
    if (text.size() != 2 || text[0] != 'L' || text[1] < '1' || text[1] > '3') {
      throw CLI::ValidationError("--level", "\"" + text + "\" is not L1, L2 or L3");
    }
    options->run.cache_level = text[1] - '0';
    options->level_is_given = true;
  };
  command
      ->add_option_function<std::string>(
          "--level", parse,
          "cache level that decides: L1, L2 or L3 (default: L2's, or "
          "L3's where the planner holds blocks there)")
      ->type_name("LEVEL")
      ->excludes(M);
}

}  // namespace

void add_plan_command(CLI::App* app) {
  CLI::App* command =
      app->add_subcommand("plan", "the plan for a problem, and the candidates it was chosen from");
  const auto options = std::make_shared<PlanOptions>();
  add_problem(
      command, &options->problem, &options->shape, &options->dtype,
      "e.g. layer:n512,m512,d385,v32,f32,tied (or self); also b8: a batch, s0.125: a scale, "
      "causal, causal-bottom-right or keys-64:0: a mask; or sdpa:b2,h8,n512,d64");
  add_pass(command, &options->pass);
  CLI::Option* M = add_integer(command, "--M", &options->run.M, 1, largest_words,
                               "words of fast memory, exact (default: of the level)");
  add_level(command, options.get(), M);
  add_objective(command, &options->run.objective);
  add_schedule(command, &options->run.schedule, schedule_of_sdpa);
  command->add_flag("--literal", options->run.literal,
                    "paper_large with the paper's own block sizes, although they exceed M");
  add_integer(
      command, "--memory-limit", &options->run.memory_limit_bytes, 0, largest_words,
      "bytes of scratch memory for intermediates (default: O(n d), never n x m but for what "
      "a named schedule stores)");
  command->add_flag(
      "--explain", options->explain,
      "what a search would compare, what that is predicted to take, and why the plan won");
  add_json(command, &options->json);
  explain_problems(command);
  command->callback([options] {
    check_level(*options);
    run_plan(*options);
  });
}

}  // namespace ioattn::tune
