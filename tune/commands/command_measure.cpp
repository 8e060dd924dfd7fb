#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "machine/machine.hpp"
#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/traffic/counter_report.hpp"
#include "tune/traffic/hardware_traffic.hpp"
#include "tune/traffic/measure_problem.hpp"
#include "tune/traffic/measured_command.hpp"

namespace ioattn::tune {
namespace {

// The report, to --output or stdout.
class Report {
 public:
  explicit Report(const MeasureOptions& options) : file_(options.output) {}

  void put(const std::string& text) {
    if (file_.is_wanted()) {
      file_.write(text);
    } else {
      fmt::print("{}", text);
    }
  }
  void put(const Json& json) {
    put(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }

 private:
  ReportFile file_;
};

void measure_command(const MeasureOptions& options, CounterSetup* setup, Report* report) {
  const MeasuredCommand run = run_measured(options.command, setup);
  if (options.json) {
    report->put(to_json(run, options.command, *setup));
  } else {
    report->put(to_text(run, *setup));
  }
  setup->write_recording();
  if (run.exit_status != 0) throw CommandEnded(run.exit_status);
}

void show_events(const MeasureOptions& options, const CounterSetup& setup, Report* report) {
  if (options.json) {
    Json json = event_file_json(setup.file());
    json["events_note"] = note_json(setup.note());
    report->put(json);
  } else {
    report->put(note_text(setup.note()) + event_file_text(setup.file()));
  }
}

// Kernels of known traffic, many times larger than the largest cache that is counted.
void prove_events(const MeasureOptions& options, CounterSetup* setup, Report* report) {
  constexpr int level = 2;
  constexpr index_t times_cache = 16;
  constexpr int passes = 4;
  const instruments::ProofSize size = {
      times_cache * largest_size_bytes(level) / static_cast<index_t>(sizeof(double)), passes,
      line_bytes_of(level)};
  const auto results =
      instruments::prove(setup->system(), setup->file(), setup->surroundings(), size);
  if (options.json) {
    Json json;
    json["cpu"] = setup->file().cpu;
    json["events_note"] = note_json(setup->note());
    json["kernels"] = proof_json(results);
    report->put(json);
  } else {
    report->put("events of " + setup->file().cpu + "\n" + note_text(setup->note()) +
                proof_text(results));
  }
  setup->write_recording();
}

void run_measure(const MeasureOptions& options) {
  options.check();
  CounterSetup setup(options.counters);
  Report report(options);
  if (options.show_events) {
    show_events(options, setup, &report);
  } else if (options.proof) {
    prove_events(options, &setup, &report);
  } else if (!options.command.empty()) {
    measure_command(options, &setup, &report);
  } else {
    const ProblemMeasured measured = measure_problem(options, &setup);
    if (options.json) {
      report.put(measured.json);
    } else {
      report.put(measured.text);
    }
    setup.write_recording();
  }
}

}  // namespace

void add_measure_command(CLI::App* app, std::vector<std::string> words) {
  CLI::App* command = app->add_subcommand("measure",
                                          "words that a pass moves: bound, formula, counted and "
                                          "simulated, by cache level; or the cache "
                                          "traffic of a command");
  const auto options = std::make_shared<MeasureOptions>();
  options->command = std::move(words);
  options->add(command);
  command->footer(
      "After -- the exit status is that of the command, 127 if there is none of that name and 126 "
      "if\n"
      "it cannot be run. A count that is missing is \"unavailable\" with its reason, and no "
      "error.");
  explain_problems(command);
  command->callback([options] { run_measure(*options); });
}

}  // namespace ioattn::tune
