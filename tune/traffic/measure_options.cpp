#include "tune/traffic/measure_options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>

#include "base/problem_text.hpp"
#include "tune/command_error.hpp"
#include "tune/files/output_files.hpp"
#include "tune/text/text_list.hpp"

namespace ioattn::tune {
namespace {

// "4096,8192" or "4096:65536:5", from the first to the second in so many equal ratios.
std::vector<index_t> parse_sweep(const std::string& text) {
  const auto wrong = [&] {
    return CLI::ValidationError("--sweep-M",
                                "\"" + text + "\" is not a list of words, or FROM:TO:COUNT");
  };
  const bool is_range = text.find(':') != std::string::npos;
  std::vector<index_t> values;
  for (const std::string& field : split(text, is_range ? ':' : ',')) {
    index_t value = 0;
    if (!parse_size(field, &value) || value < 1 || value > largest_words) throw wrong();
    values.push_back(value);
  }
  if (is_range) {
    if (values.size() != 3 || values[0] >= values[1] || values[2] < 2 || values[2] > 1000) {
      throw wrong();
    }
    const double first = static_cast<double>(values[0]), last = static_cast<double>(values[1]);
    const index_t count = values[2];
    values.clear();
    for (index_t i = 0; i < count; ++i) {
      const double part = static_cast<double>(i) / static_cast<double>(count - 1);
      values.push_back(std::llround(first * std::pow(last / first, part)));
    }
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

template <class T>
void add_once(T value, std::vector<T>* list) {
  if (std::find(list->begin(), list->end(), value) == list->end()) list->push_back(value);
}

void add_levels(CLI::App* command, std::vector<int>* levels) {
  const auto parse = [=](const std::string& text) {
    levels->clear();
    for (const std::string& name : split(text, ',')) {
      if (name.size() != 2 || name[0] != 'L' || name[1] < '1' || name[1] > '3') {
        throw CLI::ValidationError("--level", "\"" + text + "\" is not a list of L1, L2, L3");
      }
      add_once(name[1] - '0', levels);
    }
  };
  command
      ->add_option_function<std::string>(
          "--level", parse, "cache levels, each with a plan of its own (default: L1,L2)")
      ->type_name("LIST");
}

}  // namespace

std::vector<api::Objective> MeasureOptions::objectives_at(int level) const {
  std::vector<api::Objective> at;
  for (const api::Objective one : objectives)
    if (level_of(one, level) == level) at.push_back(one);
  if (at.empty()) at.push_back(api::Objective::time);
  return at;
}

const machine::CacheLevel& cache_of(int level) {
  const machine::CacheLevel* cache = machine::this_machine().cache(level);
  if (cache == nullptr) throw UsageError(fmt::format("no L{} cache was found", level));
  return *cache;
}

index_t largest_size_bytes(int level) {
  const index_t size = cache_of(level).size_bytes;
  machine::DetectOptions told;
  told.use_environment = false;
  const machine::Machine hardware = machine::detect(told);
  const machine::CacheLevel* cache = hardware.cache(level);
  return cache == nullptr ? size : std::max(size, cache->size_bytes);
}

void MeasureOptions::add(CLI::App* app) {
  add_problem(app, &problem, &shape, &dtype,
              "e.g. layer:n512,d64 or sdpa:h8,n512,d64,causal: the texts of plan and of the API");
  for (CLI::Option* file : add_layer_files(app, &paths, FilesOf::a_shape)) {
    for (CLI::Option* other :
         {app->get_option("--problem"), shape.n, shape.m, shape.d, shape.dv, shape.tie})
      file->excludes(other);
  }
  add_pass(app, &pass);
  add_levels(app, &levels);
  app->add_option_function<std::string>(
         "--objective",
         [this](const std::string& text) {
           objectives.clear();
           for (const std::string& name : split(text, ',')) {
             add_once(objective_of(name), &objectives);
           }
         },
         "what plans minimise, each a plan of its own: a list of time, words@L1 and words@L2, "
         "which is for its level alone (default: time)")
      ->type_name("LIST");
  app->add_option_function<std::string>(
         "--sweep-M", [this](const std::string& text) { sweep = parse_sweep(text); },
         "words of fast memory, each with a plan of its own: a list, or FROM:TO:COUNT in equal "
         "ratios; caches have those words divided by the fraction of the last level")
      ->type_name("WORDS");
  CLI::Option* simulated = app->add_flag(
      "--simulate", simulate, "what simulated caches move: LRU, OPT, with the ways of the level");
  add_integer(app, "--threads", &threads, 1, 1024,
              "of --simulate: traces of so many threads, each with caches of its own (default: 1)")
      ->needs(simulated);
  add_schedule(app, &run.schedule, schedule_of_sdpa);
  add_integer(
      app, "--memory-limit", &run.memory_limit_bytes, 0, largest_words,
      "bytes of scratch memory for intermediates (default: O(n d), never n x m but for what "
      "a named schedule stores)");
  app->add_flag("--perf", perf, "count with the hardware's counters too");
  app->add_flag(
      "--cachegrind", cachegrind,
      "what Valgrind's Cachegrind counts of the program itself, in caches like L1 and L2; "
      "on x86-64 plans and kernels are of AVX2 then, which Valgrind has, unless "
      "IOATTN_ISA says otherwise");
  app->add_option("--html", html, "the tables and a plot, drawn by gnuplot, in one file")
      ->type_name("FILE");
  of_problem = app->get_options();
  app->add_flag("--proof", proof,
                "count kernels of known traffic: are the events of this CPU to be trusted?");
  app->add_flag("--show-events", show_events,
                "the events of this CPU, as perf stat takes them, and what they mean");
  counters.add(app);
  app->add_option("-o,--output", output, "file for the report (default: stdout)")
      ->type_name("FILE");
  // Is there for the help: what stands behind -- was cut off.
  app->add_option_function<std::string>(
         "COMMAND",
         [](const std::string& word) {
           throw UsageError("a command stands behind --: ioattn measure -- " + word);
         },
         "after --: count this command and all that it starts")
      ->type_name("");
  add_json(app, &json);
}

void MeasureOptions::check() const {
  const auto given = std::find_if(of_problem.begin(), of_problem.end(),
                                  [](const CLI::Option* option) { return option->count() > 0; });
  const bool has_problem = given != of_problem.end(), has_command = !command.empty();
  if (has_problem + proof + show_events + has_command > 1) {
    throw UsageError(
        "a problem, -- COMMAND, --proof and --show-events are measured one at a time" +
        (has_problem ? ": " + (*given)->get_name() + " is of a problem" : std::string()));
  }
  const bool counts = perf || has_command;
  if (!counters.named.empty() && !counts) {
    throw UsageError("--event is counted with --perf or of a -- COMMAND");
  }
  if (!counters.record.empty() && !counts && !proof) {
    throw UsageError("--record keeps what --perf, --proof or a -- COMMAND counts");
  }
  if (!counters.file.empty() && !counts && !proof && !show_events) {
    throw UsageError("--events is for --perf, --proof, --show-events or a -- COMMAND");
  }
  for (const api::Objective one : objectives) {
    const auto takes = [&](int level) { return level_of(one, level) == level; };
    if (std::none_of(levels.begin(), levels.end(), takes)) {
      throw UsageError(
          fmt::format("--objective {} is for a level that --level leaves out", name_of(one)));
    }
  }
  if (!sweep.empty() && objectives_at(levels.back()).size() > 1) {
    throw UsageError(
        fmt::format("--sweep-M plans for one objective, --objective names several "
                    "for L{}",
                    levels.back()));
  }
  check_distinct({{"--output", output}, {"--html", html}, {"--record", counters.record}},
                 {{"--events", counters.file},
                  {"--A1", paths.a1},
                  {"--A2", paths.a2},
                  {"--A3", paths.a3},
                  {"--X", paths.x},
                  {"--Y", paths.y},
                  {"--dO", paths.d_o}});
}

}  // namespace ioattn::tune
