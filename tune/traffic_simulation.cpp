#include "tune/traffic_simulation.hpp"

#include <fmt/format.h>

#include <optional>

#include "instruments/simulators/optimal_cache.hpp"
#include "instruments/simulators/stack_distance.hpp"
#include "instruments/simulators/tracing_kernels.hpp"
#include "tune/command_error.hpp"
#include "tune/table.hpp"

namespace ioattn::tune {
namespace {

using instruments::CacheGeometry;
using instruments::LineTraffic;
using instruments::Replacement;

CacheGeometry geometry_of(index_t bytes, int line_bytes, int ways, Replacement replacement) {
  const index_t sets = bytes / (index_t{line_bytes} * ways);
  return {static_cast<std::uint64_t>(std::max<index_t>(sets, 1)), ways, replacement};
}

std::string too_long(std::uint64_t limit) {
  return fmt::format("the trace has more than {} accesses, the limit",
                     grouped(static_cast<index_t>(limit)));
}

// A simulator of a cache with ways, or why there is none.
template <class Simulator>
struct WithWays {
  std::optional<Simulator> simulator;
  std::string reason;

  template <class... Geometry>
  void make(const SimulatedCache& cache, const Geometry&... geometry) {
    if (cache.ways == 0) {
      reason = "the number of ways is unknown";
      return;
    }
    for (const CacheGeometry& one : {geometry...}) {
      const Status status = instruments::SetAssociativeCache::check(one);
      if (!status.is_ok()) reason = status.message();
    }
    if (reason.empty()) simulator.emplace(geometry...);
  }
};

}  // namespace

void simulate(const SimulatedCache& cache, const TraceLimits& limits, std::uint64_t bits,
              TrafficCase* problem, Traffic* traffic) {
  const double words_per_line =
      static_cast<double>(cache.line_bytes) / static_cast<double>(size_of(problem->dtype()));
  const auto capacity =
      static_cast<std::uint64_t>(std::max<index_t>(cache.capacity_bytes / cache.line_bytes, 1));
  const CacheGeometry lru = geometry_of(cache.capacity_bytes, cache.line_bytes,
                                        std::max(cache.ways, 1), Replacement::lru);
  CacheGeometry plru = lru;
  plru.replacement = Replacement::tree_plru;

  instruments::StackDistance distances;
  instruments::TraceBuffer buffer(limits.optimal);
  WithWays<instruments::SetAssociative> by_lru, by_plru;
  WithWays<instruments::TwoLevel> second;
  by_lru.make(cache, lru);
  by_plru.make(cache, plru);
  std::vector<instruments::AccessSink*> sinks = {&distances, &buffer};
  if (by_lru.simulator) sinks.push_back(&*by_lru.simulator);
  if (by_plru.simulator) sinks.push_back(&*by_plru.simulator);
  if (cache.first != nullptr) {
    const int ways = std::max(cache.first->ways, 1);
    second.make(cache,
                geometry_of(cache.first->share_bytes, cache.line_bytes, ways, Replacement::lru),
                lru);
    if (second.simulator) sinks.push_back(&*second.simulator);
  }

  instruments::TraceRecorder recorder(cache.line_bytes, limits.accesses, sinks);
  {
    const kernels::Kernels* kernels = nullptr;
    require(api::selected_kernels(&kernels));
    const instruments::TracingKernels tracing(*kernels, &recorder);
    problem->run(nullptr, &tracing.kernels());
  }
  recorder.finish();
  if (problem->result_bits() != bits) {
    throw RunError("internal error: the pass gave other bits when it was traced");
  }
  traffic->accesses = static_cast<index_t>(recorder.accesses());

  const std::string whole = recorder.overflowed() ? too_long(limits.accesses) : "";
  const auto add = [&](const std::string& name, const std::string& key, const std::string& reason,
                       const auto& traffic_of) {
    TrafficLine line = {name, key, whole.empty() ? reason : whole};
    if (line.is_available()) {
      const LineTraffic lines = traffic_of();
      line.in = static_cast<double>(lines.fills) * words_per_line;
      line.out = static_cast<double>(lines.write_backs) * words_per_line;
    }
    traffic->lines.push_back(line);
  };
  const std::vector<LineTraffic> curve = distances.curve();
  add("LRU", "lru", "", [&] { return curve[std::min<std::size_t>(capacity, curve.size()) - 1]; });
  add("OPT", "opt", buffer.overflowed() ? too_long(limits.optimal) : "", [&] {
    return instruments::optimal_traffic(buffer, instruments::next_uses(buffer), capacity);
  });
  const std::string ways = cache.ways > 0 ? fmt::format("{} ways", cache.ways) : "by ways";
  add(ways + " LRU", "set_lru", by_lru.reason, [&] { return by_lru.simulator->traffic(); });
  add(ways + " tree-PLRU", "set_plru", by_plru.reason,
      [&] { return by_plru.simulator->traffic(); });
  if (cache.first != nullptr) {
    add(fmt::format("{} behind L{}", ways, cache.first->level), "behind_first", second.reason,
        [&] { return second.simulator->second_level(); });
  }
  if (!whole.empty()) return;
  for (const LineTraffic& lines : curve) {
    traffic->lru.push_back(static_cast<double>(lines.fills + lines.write_backs) * words_per_line);
  }
}

}  // namespace ioattn::tune
