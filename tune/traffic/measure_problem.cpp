#include "tune/traffic/measure_problem.hpp"

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "instruments/created_memory.hpp"
#include "machine/machine.hpp"
#include "tune/command_error.hpp"
#include "tune/files/output_files.hpp"
#include "tune/options/options.hpp"
#include "tune/passes/measure.hpp"
#include "tune/text/progress_line.hpp"
#include "tune/traffic/cachegrind_traffic.hpp"
#include "tune/traffic/counter_report.hpp"
#include "tune/traffic/hardware_traffic.hpp"
#include "tune/traffic/traffic_case.hpp"
#include "tune/traffic/traffic_html.hpp"
#include "tune/traffic/traffic_report.hpp"
#include "tune/traffic/traffic_simulation.hpp"

namespace ioattn::tune {
namespace {

std::unique_ptr<TrafficCase> case_of(const MeasureOptions& options) {
  const LayerPaths& paths = options.paths;
  if (!(paths.a1 + paths.a2 + paths.a3 + paths.x + paths.y + paths.d_o).empty()) {
    if (paths.a1.empty() || paths.x.empty() || paths.y.empty()) {
      throw UsageError("of files --A1, --X and --Y are required");
    }
    return layer_case(options.pass, paths, options.dtype);
  }
  if (is_sdpa(options.problem)) return text_case(options.pass, options.problem);
  return layer_case(options.pass, layer_problem(options.problem, options.shape, options.dtype));
}

// The blocks fit in M words of the level, whether or not a level beyond it would hold more.
Traffic measure_at(const machine::CacheLevel& cache, index_t M, index_t capacity_bytes,
                   api::Objective objective, const MeasureOptions& options, TrafficCase* problem) {
  Traffic traffic;
  traffic.line_bytes = cache.line_bytes > 0 ? cache.line_bytes : 64;
  traffic.ways = cache.ways;
  traffic.capacity_bytes = capacity_bytes;
  api::RunOptions run = options.run;
  run.M = M;
  run.objective = objective;
  traffic.plan = problem->plan(run);
  traffic.plan.objective = name_of(objective);
  instruments::IoCounter counter;
  instruments::CreatedMemory created(&counter);
  problem->run(&created, nullptr);
  check_count(counter, traffic.plan.formula, traffic.plan.mask, traffic.plan.text);
  traffic.count = counter.total();
  traffic.created_memory = created.words();
  if (options.simulate) {
    const machine::CacheLevel* first = cache.level > 1 ? machine::this_machine().cache(1) : nullptr;
    // A cache of a sweep that is no larger than L1 is the first level itself.
    if (first != nullptr && capacity_bytes <= first->share_bytes) first = nullptr;
    simulate({traffic.capacity_bytes, traffic.line_bytes, traffic.ways, first}, TraceLimits(),
             problem->result_bits(), problem, &traffic, static_cast<int>(options.threads));
  }
  return traffic;
}

}  // namespace

ProblemMeasured measure_problem(const MeasureOptions& options, CounterSetup* setup) {
  if (!options.html.empty()) {
    require_gnuplot();
    require_writable(options.html);
  }
  if (options.cachegrind) {
    if (!options.sweep.empty()) {
      throw UsageError("--cachegrind watches the plans of cache levels, without --sweep-M");
    }
    choose_isa_of_valgrind();
  }
  const std::unique_ptr<TrafficCase> problem = case_of(options);
  TrafficReport report;
  std::vector<HardwareTraffic> hardware;
  std::vector<CachegrindTraffic> watched;
  report.problem = problem->problem_text();
  report.pass = problem->pass();
  report.dtype = problem->dtype();
  for (const int level : options.levels) {
    const machine::CacheLevel& cache = cache_of(level);
    const index_t M = machine::fast_memory(cache, report.dtype).words;
    for (const api::Objective objective : options.objectives_at(level)) {
      try {
        report.levels.push_back(
            measure_at(cache, M, cache.share_bytes, objective, options, problem.get()));
      } catch (const DoesNotFit& error) {  // at another level it may
        report.too_small.push_back({fmt::format("L{}", level), name_of(objective), error.what()});
        continue;
      }
      report.levels.back().plan.level = fmt::format("L{}", level);
      if (options.perf) {
        hardware.push_back(count_hardware(level, largest_size_bytes(level), problem.get(), setup));
      }
      if (options.cachegrind) {
        Traffic& traffic = report.levels.back();
        watched.push_back(watch(*problem, traffic.plan.text));
        traffic.lines.push_back(line_of(watched.back(), level));
      }
    }
  }
  if (report.levels.empty()) throw UsageError(report.too_small.front().reason);
  const machine::CacheLevel& last = cache_of(options.levels.back());
  const machine::FastMemory memory = machine::fast_memory(last, report.dtype);
  {
    ProgressLine line;
    for (const index_t M : options.sweep) {
      line.show(fmt::format("measuring {} of {}", report.sweep.size() + 1, options.sweep.size()));
      const double bytes = static_cast<double>(M * size_of(report.dtype));
      const auto capacity = static_cast<index_t>(std::llround(bytes / memory.fraction));
      report.sweep.push_back(measure_at(last, M, capacity,
                                        options.objectives_at(options.levels.back()).front(),
                                        options, problem.get()));
    }
  }
  Json json = to_json(report);
  std::string text = to_text(report);
  std::vector<Marker> markers;
  for (std::size_t i = 0; i < hardware.size(); ++i) {
    const Traffic& traffic = report.levels[i];
    if (i == 0) {
      text += "hardware, events of " + setup->file().cpu + "\n" + note_text(setup->note());
      json["events_note"] = note_json(setup->note());
    }
    text += hardware_text(hardware[i], traffic, report.dtype);
    json["levels"][i]["hardware"] = hardware_json(hardware[i], traffic, report.dtype);
    if (const auto marker = hardware_marker(hardware[i], traffic, report.dtype)) {
      markers.push_back(*marker);
    }
  }
  for (std::size_t i = 0; i < watched.size(); ++i) {
    text += cachegrind_text(watched[i], report.levels[i].plan);
    json["levels"][i]["cachegrind"] = cachegrind_json(watched[i]);
  }
  if (!options.html.empty()) write_html(report, markers, text, options.html);
  return {text, json};
}

}  // namespace ioattn::tune
