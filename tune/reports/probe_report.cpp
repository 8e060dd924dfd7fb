#include "tune/reports/probe_report.hpp"

#include <fmt/format.h>

#include "machine/machine.hpp"
#include "tune/command_error.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

using search::CacheVerdict;

bool contradicts(const search::ProbedCache& cache) {
  return cache.verdict == CacheVerdict::smaller || cache.verdict == CacheVerdict::larger;
}

// What makes the planner believe the probe.
std::string override_of(const machine::CacheLevel& told, const search::ProbedCache& cache) {
  return fmt::format("IOATTN_L{}={}k", told.level, std::max<index_t>(cache.found_bytes >> 10, 1));
}

}  // namespace

CacheProbe judged(const machine::Machine& machine, int threads,
                  const std::vector<api::ProbedSize>& points) {
  CacheProbe probe;
  probe.threads = threads;
  probe.points = points;
  std::vector<index_t> told;
  for (const int level : {1, 2}) {
    probe.told.push_back(*machine.cache(level));
    told.push_back(probe.told.back().share_bytes);
  }
  std::vector<search::CurvePoint> accesses, streams;
  for (const api::ProbedSize& point : points) {
    accesses.push_back({point.bytes, point.access_seconds});
    streams.push_back({point.bytes, point.stream_seconds});
  }
  probe.caches = search::judge_caches(
      told, {search::find_knees(std::move(accesses)), search::find_knees(std::move(streams))});
  return probe;
}

CacheProbe probe_machine(const kernels::Kernels& kernels) {
  const machine::Machine& machine = machine::this_machine();
  const std::vector<index_t> sizes =
      api::probe_sizes(machine.cache(1)->share_bytes, machine.cache(2)->share_bytes);
  const auto points = api::probe_caches(kernels, machine.usable_threads, sizes);
  if (points.empty()) throw RunError("there is no memory for the probe");
  return judged(machine, machine.usable_threads, points);
}

Json probe_json(const CacheProbe& probe) {
  Json json;
  json["threads"] = probe.threads;
  json["points"] = Json::array();
  for (const api::ProbedSize& point : probe.points) {
    json["points"].push_back({{"bytes", point.bytes},
                              {"access_seconds", point.access_seconds},
                              {"stream_seconds_per_word", point.stream_seconds}});
  }
  json["caches"] = Json::array();
  for (std::size_t i = 0; i < probe.told.size(); ++i) {
    const search::ProbedCache& cache = probe.caches[i];
    const machine::CacheLevel& told = probe.told[i];
    json["caches"].push_back(
        {{"level", "L" + std::to_string(told.level)},
         {"told_bytes", told.share_bytes},
         {"found_bytes", cache.found_bytes > 0 ? Json(cache.found_bytes) : Json()},
         {"verdict", name_of(cache.verdict)},
         {"override", contradicts(cache) ? Json(override_of(told, cache)) : Json()}});
  }
  return json;
}

std::string probe_text(const CacheProbe& probe) {
  Table table({"each of " + std::to_string(probe.threads) + " threads on", "a load takes",
               "words of a stream per ns"});
  for (const api::ProbedSize& point : probe.points) {
    table.add({bytes_text(point.bytes), fmt::format("{:.2f} ns", point.access_seconds * 1e9),
               fmt::format("{:.2f}", 1e-9 / point.stream_seconds)});
  }
  std::string text = table.text();
  for (std::size_t i = 0; i < probe.told.size(); ++i) {
    const search::ProbedCache& cache = probe.caches[i];
    const machine::CacheLevel& told = probe.told[i];
    text += fmt::format("L{}: a thread's share is told to be {} ({}); ", told.level,
                        bytes_text(told.share_bytes), name_of(told.source));
    if (cache.verdict == CacheVerdict::unclear) {
      text += "unclear: no times rise there\n";
      continue;
    }
    text += fmt::format("times rise at {}: {}\n", bytes_text(cache.found_bytes),
                        name_of(cache.verdict));
    if (contradicts(cache)) {
      text += fmt::format("    to plan with what was found, set {}\n", override_of(told, cache));
    }
  }
  return text;
}

}  // namespace ioattn::tune
