#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <optional>

#include "theory/bounds.hpp"
#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/options/options.hpp"
#include "tune/passes/schedule_words.hpp"
#include "tune/reports/bounds_report.hpp"
#include "tune/reports/sparse_report.hpp"
#include "tune/text/report_json.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

using theory::AlgorithmClass;

struct BoundsOptions {
  std::string problem;
  ShapeOptions shape;
  index_t M = 0;
  bool linear = false;
  std::vector<std::string> sparse;
  bool json = false;
};

Json schedule_json(const ScheduleWords& words) {
  const auto or_null = [](const std::optional<index_t>& value) {
    return value ? Json(*value) : Json();
  };
  Json json;
  json["schedule"] = name_of(words.schedule);
  json["class"] = name_of(words.algorithms);
  json["words"] = or_null(words.least_words);
  json["lower_bound"] = words.bound.words;
  json["bound"] = words.bound.name;
  json["ratio"] = words.least_words ? Json(words.ratio()) : Json();
  json["planned_words"] = or_null(words.planned_words);
  json["planned_least_M"] = words.least_M > 0 ? Json(words.least_M) : Json();
  return json;
}

void print_bounds_json(const LayerShape& shape, index_t M) {
  Json json = sizes_json(shape, M);
  json["regime"] = name_of(theory::regime(shape, M));
  json["paper_formula"] = theory::paper_formula(shape, M);
  json["passes"] = Json::array();
  for (const Pass pass : {Pass::backward, Pass::forward}) {
    Json entry;
    entry["pass"] = name_of(pass);
    entry["compulsory"] = theory::compulsory_bound(pass, shape);
    entry["classes"] = Json::array();
    for (const AlgorithmClass algorithms : {AlgorithmClass::P, AlgorithmClass::F}) {
      entry["classes"].push_back(class_json(algorithms, theory::layer_bounds(pass, shape, M)));
    }
    entry["schedules"] = Json::array();
    for (const ScheduleWords& words : schedule_words(pass, shape, M)) {
      entry["schedules"].push_back(schedule_json(words));
    }
    json["passes"].push_back(std::move(entry));
  }
  print_json(json);
}

void print_pass(Pass pass, const LayerShape& shape, index_t M) {
  fmt::print("\n{} pass: lower bounds on words moved\n", name_of(pass));
  fmt::print("{}", classes_text(theory::layer_bounds(pass, shape, M)));

  Table table(
      {"schedule", "class", "least words", "bound of its class", "ratio", "in blocks", "from M"},
      2);
  for (const ScheduleWords& words : schedule_words(pass, shape, M)) {
    const bool fits = words.least_words.has_value();
    table.add({name_of(words.schedule), name_of(words.algorithms),
               fits ? grouped(*words.least_words) : "-", grouped(words.bound.words),
               fits ? ratio_text(words.ratio()) : "-",
               words.planned_words ? grouped(*words.planned_words) : "-",
               words.least_M > 0 ? grouped(words.least_M) : "-"});
  }
  fmt::print("{}", table.text());
}

void run_bounds(const BoundsOptions& options) {
  if (!options.problem.empty()) {
    print_problem_bounds(options.problem, options.M, options.json);
    return;
  }
  if (!options.sparse.empty()) {
    print_sparse(options.sparse, options.shape.shape.d, options.M, options.json);
    return;
  }
  if (options.shape.shape.n == 0 || options.shape.shape.d == 0) {
    throw UsageError("--problem, or --n and --d, are required");
  }
  const LayerShape shape = options.shape.checked();
  if (options.linear) {
    print_linear(shape, options.M, options.json);
    return;
  }
  if (options.json) {
    print_bounds_json(shape, options.M);
    return;
  }
  fmt::print("n = {}, m = {}, d = {}, dv = {}, tie {}; M = {} words: {}\n", shape.n, shape.m,
             shape.d, shape.dv, name_of(shape.tie), grouped(options.M),
             name_of(theory::regime(shape, options.M)));
  fmt::print("the paper's formula, all constants 1: {} words\n",
             grouped(theory::paper_formula(shape, options.M)));
  for (const Pass pass : {Pass::backward, Pass::forward}) print_pass(pass, shape, options.M);
}

}  // namespace

void add_bounds_command(CLI::App* app) {
  CLI::App* command = app->add_subcommand(
      "bounds", "lower bounds on the words that move, and what every schedule costs");
  const auto options = std::make_shared<BoundsOptions>();
  options->shape.add(command);
  CLI::Option* text = command
                          ->add_option("--problem", options->problem,
                                       "bounds alone, also under masks and for batches and heads: "
                                       "layer:n512,d64,causal,b8 or sdpa:b2,h8,kv2,n512,d64")
                          ->type_name("PROBLEM");
  for (CLI::Option* option : {options->shape.n, options->shape.m, options->shape.d,
                              options->shape.dv, options->shape.tie}) {
    option->excludes(text);
  }
  add_integer(command, "--M", &options->M, 1, largest_words, "words of fast memory")->required();
  CLI::Option* linear =
      command
          ->add_flag("--linear", options->linear,
                     "what the products move, re-associated, if there were no softmax between them")
          ->excludes(text);
  CLI::Option* sparse =
      command
          ->add_option("--sparse", options->sparse,
                       "A1, A2 (default: A1) and X (default: identity, and full) in Matrix Market "
                       "files: the paper's formula for sparse attention; with --d A1 is also taken "
                       "as a mask")
          ->expected(1, 3)
          ->allow_extra_args(false)  // which would split [a,b]
          ->type_name("FILES");
  for (CLI::Option* option :
       {text, linear, options->shape.n, options->shape.m, options->shape.dv, options->shape.tie}) {
    sparse->excludes(option);
  }
  add_json(command, &options->json);
  command->footer(
      "Class P: anything the red-blue pebble game allows, of G3 with one summation tree an entry.\n"
      "Class F: every entry has one accumulator and no multiply-add is done twice. A schedule is\n"
      "compared with the bounds of its class.\n"
      "least words: reads + writes at this M, by the schedule's formula at word level or in "
      "blocks, "
      "as few as\n"
      "are known of "
      "(forward row_stream: with fused products; tile_fused: with one tile parked in memory where "
      "that\n"
      "is less). in blocks: the exact count of the loops of this library, "
      "in the\n"
      "blocks of a plan for the fewest words, whose products take 8 terms at a time or more where "
      "these\n"
      "fit, from the M named on; `ioattn plan` makes blocks of whole register tiles besides. -: "
      "does "
      "not\n"
      "fit, or not implemented.");
  explain_problems(command);
  command->callback([options] { run_bounds(*options); });
}

}  // namespace ioattn::tune
