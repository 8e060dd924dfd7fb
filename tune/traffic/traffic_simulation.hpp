#pragma once

#include "instruments/simulators/set_associative.hpp"
#include "machine/machine.hpp"
#include "tune/traffic/traffic_report.hpp"

namespace ioattn::tune {

// What the trace of a thread may have: of the first all simulators but OPT take, which keeps it in
// memory.
struct TraceLimits {
  std::uint64_t accesses = 200'000'000;
  std::uint64_t optimal = 50'000'000;
};

// The geometry of a cache that is simulated.
struct SimulatedCache {
  index_t capacity_bytes = 0;
  int line_bytes = 64;
  int ways = 0;                                // 0: unknown
  const machine::CacheLevel* first = nullptr;  // a level before it, or null
};

// Runs the pass as planned last with kernels that trace, on so many threads that have private
// caches each, and adds what caches of the given geometry move to traffic->lines, to
// traffic->threads and, for every capacity, to traffic->lru. Throws RunError if the run has other
// results than `bits`.
void simulate(const SimulatedCache& cache, const TraceLimits& limits, std::uint64_t bits,
              TrafficCase* problem, Traffic* traffic, int threads = 1);

}  // namespace ioattn::tune
