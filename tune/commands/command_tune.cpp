#include <fmt/format.h>
#include <signal.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>

#include "api/known/wisdom_state.hpp"
#include "base/problem_text.hpp"
#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/commands/tune_job.hpp"
#include "tune/files/output_files.hpp"
#include "tune/options/options.hpp"
#include "tune/options/wisdom_options.hpp"
#include "tune/reports/rates_report.hpp"
#include "tune/text/progress_line.hpp"
#include "tune/text/report_json.hpp"
#include "tune/text/table.hpp"
#include "wisdom/file.hpp"

namespace ioattn::tune {
namespace {

struct TuneOptions {
  std::vector<std::string> problems;
  std::string shapes;
  std::optional<Pass> pass;
  std::string gradients;
  std::string file;
  api::RunOptions run;
  bool again = false, dry_run = false, json = false;
  std::string of_problems;  // an option that was given and says nothing without problems
};

struct Outcome {
  const TuneJob* job = nullptr;
  JobOutcome of;  // nothing if it was known
  bool was_known = false;
};

// One a line; empty lines and what follows # say nothing.
std::vector<std::string> read_shapes(const std::string& path) {
  std::ifstream file(path);
  file.peek();  // a directory opens, too
  if (file.bad() || !file.is_open()) throw UsageError("cannot read " + path);
  std::vector<std::string> texts;
  for (std::string line; std::getline(file, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    texts.push_back(line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin));
  }
  if (texts.empty()) throw UsageError(path + " has no problem");
  return texts;
}

std::vector<TuneJob> all_jobs(const TuneOptions& options) {
  std::vector<std::string> texts = options.problems;
  if (!options.shapes.empty()) {
    for (std::string& text : read_shapes(options.shapes)) texts.push_back(std::move(text));
  }
  if (texts.empty() && !options.of_problems.empty()) {
    throw UsageError("--problem or --shapes is required for " + options.of_problems);
  }
  if (options.pass == Pass::forward && !options.gradients.empty()) {
    throw UsageError("--gradients are of the backward pass");
  }
  std::vector<TuneJob> jobs;
  for (const std::string& text : texts) {
    if (text.empty()) throw UsageError("--problem: an empty text is no problem");
    for (TuneJob& job : jobs_of(text, options.pass, options.gradients))
      jobs.push_back(std::move(job));
  }
  return jobs;
}

// ---- while it runs

std::atomic<bool> interrupted{false};

// Ctrl-C ends the search, not the command, which keeps what was learned; a second one ends it.
class Interruptible {
 public:
  Interruptible() {
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    sigaction(SIGINT, &action, &before_);
  }
  ~Interruptible() { sigaction(SIGINT, &before_, nullptr); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  struct sigaction before_ = {};
};

class ProgressBar {
 public:
  explicit ProgressBar(std::size_t jobs) : jobs_(jobs) {}
  void show(std::size_t job, double seconds_each, const search::Progress& progress) {
    constexpr int width = 30;
    const double done = (static_cast<double>(job) + progress.done) / static_cast<double>(jobs_);
    const double left = progress.seconds_left + static_cast<double>(jobs_ - job - 1) * seconds_each;
    line_.show(fmt::format("[{:<{}}] {}/{}, {} candidates, at most {:.0f} s left",
                           std::string(static_cast<std::size_t>(done * width), '='), width, job + 1,
                           jobs_, progress.running, left));
  }

 private:
  std::size_t jobs_;
  ProgressLine line_;
};

Outcome run_job(const TuneJob& job, const TuneOptions& options, std::size_t number,
                ProgressBar* bar) {
  if (!options.again && !job.is_needed(options.run)) return {&job, {}, true};
  const double seconds = api::seconds_of(options.run);
  return {&job,
          job.search(options.run,
                     [&](const search::Progress& progress) {
                       bar->show(number, seconds, progress);
                       return !interrupted;
                     }),
          false};
}

// ---- what is told

Json outcome_json(const Outcome& outcome) {
  const api::Found& found = outcome.of.found;
  Json json;
  json["problem"] = outcome.job->problem;
  json["pass"] = outcome.job->pass;
  json["known"] = outcome.was_known;
  if (outcome.was_known) return json;
  json["code"] = name_of(found.verdict.reason);
  json["message"] = found.verdict.message;
  json["timed"] = outcome.of.timed;
  json["threads"] = found.threads;
  json["seconds"] = found.seconds;
  json["candidates"] = outcome.of.candidates;
  if (!found.verdict.is_ok()) return json;
  json["plan"] = found.record.plan;
  json["median"] = found.record.seconds;
  json["mad"] = found.record.mad;
  json["estimate_median"] = found.record.estimate_seconds;
  json["rounds"] = found.record.rounds;
  json["kept"] = found.kept;
  return json;
}

std::vector<std::string> row_of(const Outcome& outcome) {
  const api::Found& found = outcome.of.found;
  std::vector<std::string> row = {outcome.job->problem, outcome.job->pass};
  if (outcome.was_known || !found.verdict.is_ok()) {
    row.push_back(outcome.was_known ? "known already" : found.verdict.message);
    row.resize(6, "-");
    return row;
  }
  row.push_back(found.record.plan);
  row.push_back(seconds_text(found.record.seconds));
  row.push_back(fmt::format("{:.1f}%", 100 * found.record.mad / found.record.seconds));
  row.push_back(fmt::format("{:.3f}", found.record.estimate_seconds / found.record.seconds));
  return row;
}

// What was found and is not saved.
std::string not_kept_text(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Outcome& outcome : outcomes) {
    const api::Found& found = outcome.of.found;
    if (!outcome.was_known && found.verdict.is_ok() && !found.kept) {
      text += fmt::format("not kept, as what is known has more rigor or is later: {}, {}\n",
                          outcome.job->problem, outcome.job->pass);
    }
  }
  return text;
}

void print_dry_run(const std::vector<TuneJob>& jobs, const TuneOptions& options) {
  Json list = Json::array();
  for (const TuneJob& job : jobs) {
    const JobOutcome listed = job.list(options.run);
    if (options.json) {
      list.push_back({{"problem", job.problem},
                      {"pass", job.pass},
                      {"timed", listed.timed},
                      {"candidates", listed.candidates}});
    } else {
      fmt::print("{}, {}: timed as {}\n{}", job.problem, job.pass, listed.timed,
                 listed.candidates_text);
    }
  }
  if (options.json) print_json({{"problems", list}});
}

// What a file has is known from now on. It is tried before anything is measured.
void take_up(const std::string& file) {
  wisdom::Wisdom read;
  const wisdom::Verdict verdict = wisdom::read_file(file, &read);
  if (verdict.reason != wisdom::Reason::not_found) require(verdict);
  const std::string directory = std::filesystem::path(file).parent_path().string();
  if (!directory.empty()) make_directory(directory);
  require_writable(file);
  api::change_wisdom([&](wisdom::Wisdom* known) { known->merge(read); });
}

void save(const std::string& file) {
  const api::WisdomReading known;
  require(wisdom::merge_into_file(file, known->wisdom));
}

// With no problems the rates alone are measured.
void run_tune(const TuneOptions& options) {
  const std::vector<TuneJob> jobs = all_jobs(options);
  if (options.dry_run) return print_dry_run(jobs, options);
  const std::string file = wisdom_file(options.file);
  take_up(file);
  const Interruptible interruptible;
  const bool measured = measure_rates(options.again, options.run.threads);
  if (jobs.empty()) save(file);
  std::vector<Outcome> outcomes;
  {
    ProgressBar bar(jobs.size());
    for (std::size_t i = 0; i < jobs.size() && !interrupted; ++i) {
      outcomes.push_back(run_job(jobs[i], options, i, &bar));
      save(file);  // so that nothing can take it back
    }
  }
  if (options.json) {
    Json json = {{"file", file}, {"interrupted", interrupted.load()}};
    json["rates"] = known_rates();
    json["rates_measured"] = measured;
    json["problems"] = Json::array();
    for (const Outcome& outcome : outcomes) json["problems"].push_back(outcome_json(outcome));
    print_json(json);
  } else {
    Table table({"problem", "pass", "plan", "median", "MAD", "faster by"}, 3);
    for (const Outcome& outcome : outcomes) table.add(row_of(outcome));
    fmt::print("{}{}{}saved in {}\n", rates_text(known_rates()), jobs.empty() ? "" : table.text(),
               not_kept_text(outcomes), file);
  }
  constexpr int exit_interrupted = 128 + SIGINT;
  if (interrupted) {
    throw CommandError(exit_interrupted, "interrupted; what was learned is saved in " + file);
  }
}

void add_seconds(CLI::App* command, double* seconds) {
  const auto parse = [=](const std::string& text) {
    if (!parse_scale(text, seconds) || *seconds <= 0) {
      throw CLI::ValidationError("--time-limit", "\"" + text + "\" is not a number above 0");
    }
  };
  command
      ->add_option_function<std::string>(
          "--time-limit", parse, "seconds for each pass, where shorter than those of the rigor")
      ->type_name("SECONDS");
}

}  // namespace

void add_tune_command(CLI::App* app) {
  CLI::App* command = app->add_subcommand(
      "tune",
      "measure how fast this CPU computes and moves words, find the fastest plans by timing, "
      "and keep both as wisdom");
  const auto options = std::make_shared<TuneOptions>();
  options->run.rigor = wisdom::Rigor::measure;
  command
      ->add_option("--problem", options->problems,
                   "e.g. sdpa:b2,h8,kv2,n1024,d64,causal or layer:n512,d385,v32,tied; may be given "
                   "several times")
      ->allow_extra_args(false)  // which would split [a,b]
      ->type_name("PROBLEM");
  command->add_option("--shapes", options->shapes, "a file with a problem a line")
      ->type_name("FILE");
  command
      ->add_option_function<std::string>(
          "--pass",
          [options](const std::string& name) {
            if (name != "both") options->pass = name == "forward" ? Pass::forward : Pass::backward;
          },
          "forward, backward or both (default: both)")
      ->check(CLI::IsMember({"forward", "backward", "both"}));
  command->add_option(
      "--gradients", options->gradients,
      "of the backward pass, joined by + or commas: some of dQ, dK, dV, dBias "
      "(default: dQ+dK+dV), of the layer problem of dX, dY, dA1, dA2, dA3, dA, dW_Q, "
      "dW_K (default: dX)");
  add_rigor(command, &options->run.rigor);
  add_seconds(command, &options->run.time_limit_seconds);
  add_threads(command, &options->run.threads, "at most so many (default: all granted)");
  command->add_option("--file", options->file, "where wisdom is kept (default: the user's)")
      ->type_name("FILE");
  command->add_flag("--again", options->again,
                    "also what is known with as much rigor, and the rates");
  CLI::Option* dry_run =
      command->add_flag("--dry-run", options->dry_run, "list the candidates, time nothing");
  for (const char* of_timing : {"--again", "--file", "--time-limit"})
    dry_run->excludes(command->get_option(of_timing));
  add_json(command, &options->json);
  command->footer(
      "Without problems the rates alone are measured, once, in a fraction of a second.\n"
      "Wisdom is kept in IOATTN_WISDOM, or $XDG_CACHE_HOME/ioattn/wisdom.json, or\n"
      "~/.cache/ioattn/wisdom.json, which programs that use the library read by themselves.\n"
      "Ctrl-C keeps what was learned; the exit code is 130 then.");
  explain_problems(command);
  command->callback([options, command] {
    for (const char* name : {"--pass", "--gradients", "--rigor", "--time-limit", "--dry-run"}) {
      if (command->count(name) > 0) options->of_problems = name;
    }
    run_tune(*options);
  });
}

}  // namespace ioattn::tune
