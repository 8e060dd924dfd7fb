#pragma once

#include <string>
#include <vector>

#include "api/search/cache_probe.hpp"
#include "machine/machine.hpp"
#include "search/knees.hpp"
#include "tune/text/report_json.hpp"

// What the caches of this machine do, held against what they are told to be.
namespace ioattn::tune {

struct CacheProbe {
  int threads = 1;
  std::vector<api::ProbedSize> points;
  std::vector<machine::CacheLevel> told;    // L1 and L2
  std::vector<search::ProbedCache> caches;  // of these
};

// Measures for a second or two. Throws RunError if there is no memory.
CacheProbe probe_machine(const kernels::Kernels& kernels);

// From points that were measured.
CacheProbe judged(const machine::Machine& machine, int threads,
                  const std::vector<api::ProbedSize>& points);

Json probe_json(const CacheProbe& probe);
std::string probe_text(const CacheProbe& probe);

}  // namespace ioattn::tune
