#pragma once

#include <string>
#include <vector>

#include "machine/cpu_list.hpp"
#include "machine/machine.hpp"

namespace ioattn::machine {

// Caches beyond L3 lie outside the socket or beside the memory: no thread plans with a share of
// one.
constexpr int deepest_level = 3;

// The data and unified caches that serve one CPU, every field of every level filled.
struct CpuCaches {
  int cpu = 0;
  std::vector<CacheLevel> levels;
};

// What one provider saw. No caches on any CPU: the next provider is asked.
struct Topology {
  std::vector<CpuCaches> cpus;
  bool this_system = true;  // false: HWLOC_XMLFILE or the like describes another machine
  std::vector<std::string> notes;

  bool has_caches() const;
};

// A cache of `size_bytes` (in 1 ... cache_bytes_limit) from a provider; share = size / sharing
// CPUs.
CacheLevel make_level(int level, index_t size_bytes, int line_bytes, int ways, int sharing_cpus,
                      Source source);

// Both count sharing CPUs among `allowed`, except where HWLOC_XMLFILE describes another machine:
// then the CPUs allowed there. Without hwloc in the build, topology_from_hwloc sees nothing.
Topology topology_from_hwloc(const CpuList& allowed);
Topology topology_from_sysfs(const std::string& sysfs_root, const CpuList& allowed);

}  // namespace ioattn::machine
