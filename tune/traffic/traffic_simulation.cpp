#include "tune/traffic/traffic_simulation.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "instruments/simulators/optimal_cache.hpp"
#include "instruments/simulators/stack_distance.hpp"
#include "instruments/simulators/tracing_kernels.hpp"
#include "tune/command_error.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

using instruments::CacheGeometry;
using instruments::LineTraffic;
using instruments::Replacement;

index_t lines_of(index_t bytes, int line_bytes) { return std::max<index_t>(bytes / line_bytes, 1); }

// Of fewer lines than ways: a single set.
CacheGeometry geometry_of(index_t bytes, int line_bytes, int most_ways) {
  const index_t lines = lines_of(bytes, line_bytes);
  const index_t ways = std::clamp<index_t>(most_ways, 1, lines);
  return {static_cast<std::uint64_t>(lines / ways), static_cast<int>(ways), Replacement::lru};
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

// The simulators that one thread's trace passes through.
class ThreadSimulators {
 public:
  ThreadSimulators(const SimulatedCache& cache, const TraceLimits& limits)
      : cache_(cache),
        limits_(limits),
        buffer_(limits.optimal),
        recorder_(cache.line_bytes, limits.accesses, made(cache)) {}

  instruments::TraceRecorder* recorder() { return &recorder_; }

  // Accesses and lines; the curve of LRU caches of every size is added to *lru.
  Traffic::OfThread finish(double words_per_line, std::vector<double>* lru) {
    recorder_.finish();
    Traffic::OfThread result;
    result.accesses = static_cast<index_t>(recorder_.accesses());
    const std::string whole = recorder_.overflowed() ? too_long(limits_.accesses) : "";
    const auto add = [&](const std::string& ways, const std::string& what, const std::string& key,
                         const std::string& reason, const auto& traffic_of) {
      TrafficLine line;
      line.name = ways.empty() ? what : ways + " " + what;
      if (!ways.empty()) line.head = "by ways " + what;
      line.key = key;
      line.reason = whole.empty() ? reason : whole;
      if (line.is_available()) {
        const LineTraffic lines = result.accesses == 0 ? LineTraffic() : traffic_of();
        line.in = static_cast<double>(lines.fills) * words_per_line;
        line.out = static_cast<double>(lines.write_backs) * words_per_line;
      }
      result.lines.push_back(line);
    };
    const auto capacity =
        static_cast<std::uint64_t>(lines_of(cache_.capacity_bytes, cache_.line_bytes));
    const std::vector<LineTraffic> curve = distances_.curve();
    add("", "LRU", "lru", "",
        [&] { return curve[std::min<std::size_t>(capacity, curve.size()) - 1]; });
    add("", "OPT", "opt", buffer_.overflowed() ? too_long(limits_.optimal) : "", [&] {
      return instruments::optimal_traffic(buffer_, instruments::next_uses(buffer_), capacity);
    });
    const std::string ways = ways_text();
    add(ways, "LRU", "set_lru", by_lru_.reason, [&] { return by_lru_.simulator->traffic(); });
    add(ways, "tree-PLRU", "set_plru", by_plru_.reason,
        [&] { return by_plru_.simulator->traffic(); });
    if (cache_.first != nullptr) {
      add(ways, fmt::format("behind L{}", cache_.first->level), "behind_first", second_.reason,
          [&] { return second_.simulator->second_level(); });
    }
    if (!curve.empty()) add_curve(curve, words_per_line, lru);
    return result;
  }

  bool is_whole() const { return !recorder_.overflowed(); }

 private:
  std::vector<instruments::AccessSink*> made(const SimulatedCache& cache) {
    const CacheGeometry lru = geometry_of(cache.capacity_bytes, cache.line_bytes, cache.ways);
    CacheGeometry plru = lru;
    plru.replacement = Replacement::tree_plru;
    by_lru_.make(cache, lru);
    by_plru_.make(cache, plru);
    std::vector<instruments::AccessSink*> sinks = {&distances_, &buffer_};
    if (by_lru_.simulator) sinks.push_back(&*by_lru_.simulator);
    if (by_plru_.simulator) sinks.push_back(&*by_plru_.simulator);
    if (cache.first != nullptr) {
      if (cache.first->ways == 0) {
        second_.reason = fmt::format("the number of ways of L{} is unknown", cache.first->level);
      } else {
        second_.make(
            cache, geometry_of(cache.first->share_bytes, cache.line_bytes, cache.first->ways), lru);
      }
      if (second_.simulator) sinks.push_back(&*second_.simulator);
    }
    return sinks;
  }

  // Sets are as long as each other: some lines may be left over.
  std::string ways_text() const {
    if (cache_.ways == 0) return "by ways";
    const index_t lines = lines_of(cache_.capacity_bytes, cache_.line_bytes);
    const CacheGeometry used = geometry_of(cache_.capacity_bytes, cache_.line_bytes, cache_.ways);
    const index_t in_sets = static_cast<index_t>(used.sets) * used.ways;
    if (in_sets == lines) return fmt::format("{} ways", used.ways);
    return fmt::format("{} ways ({} of {} lines)", used.ways, in_sets, lines);
  }

  // Beyond its own lines a thread moves no less in a larger cache.
  static void add_curve(const std::vector<LineTraffic>& curve, double words_per_line,
                        std::vector<double>* lru) {
    const double rest = lru->empty() ? 0 : lru->back();
    if (lru->size() < curve.size()) lru->resize(curve.size(), rest);
    for (std::size_t i = 0; i < lru->size(); ++i) {
      const LineTraffic& lines = curve[std::min(i, curve.size() - 1)];
      (*lru)[i] += static_cast<double>(lines.fills + lines.write_backs) * words_per_line;
    }
  }

  SimulatedCache cache_;
  TraceLimits limits_;
  instruments::StackDistance distances_;
  instruments::TraceBuffer buffer_;
  WithWays<instruments::SetAssociative> by_lru_, by_plru_;
  WithWays<instruments::TwoLevel> second_;
  instruments::TraceRecorder recorder_;
};

}  // namespace

void simulate(const SimulatedCache& cache, const TraceLimits& limits, std::uint64_t bits,
              TrafficCase* problem, Traffic* traffic, int threads) {
  const double words_per_line =
      static_cast<double>(cache.line_bytes) / static_cast<double>(size_of(problem->dtype()));
  std::vector<std::unique_ptr<ThreadSimulators>> simulators;
  std::vector<instruments::TraceRecorder*> recorders;
  for (int i = 0; i < threads; ++i) {
    simulators.push_back(std::make_unique<ThreadSimulators>(cache, limits));
    recorders.push_back(simulators.back()->recorder());
  }
  {
    // Wisdom may have named others than calls use.
    const instruments::TracingKernels tracing(*kernels::find_kernels(problem->isa()), recorders);
    problem->run_on(threads, nullptr, &tracing.kernels());
  }
  if (problem->result_bits() != bits) {
    throw RunError("internal error: the pass gave other bits when it was traced");
  }
  std::vector<Traffic::OfThread> of_threads;
  bool are_whole = true;
  for (const auto& one : simulators) {
    are_whole = are_whole && one->is_whole();
    of_threads.push_back(one->finish(words_per_line, &traffic->lru));
    traffic->accesses += of_threads.back().accesses;
  }
  if (!are_whole) traffic->lru.clear();
  const std::size_t count = of_threads.front().lines.size();
  for (std::size_t i = 0; i < count; ++i) {
    TrafficLine sum = of_threads.front().lines[i];
    double in = 0, out = 0;
    for (const Traffic::OfThread& one : of_threads) {
      if (!one.lines[i].is_available()) sum.reason = one.lines[i].reason;
      in += one.lines[i].in;
      out += *one.lines[i].out;
    }
    sum.in = in;
    sum.out = out;
    traffic->lines.push_back(sum);
  }
  if (threads > 1) traffic->threads = std::move(of_threads);
}

}  // namespace ioattn::tune
