// The only file that includes hwloc (https://www.open-mpi.org/projects/hwloc/).
#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "machine/provider.hpp"
#include "machine/text.hpp"

namespace ioattn::machine {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Handle = std::unique_ptr<hwloc_topology, Destroy>;

// Whether the kernel's files are there, as they are not in some jails, or another machine is
// described.
bool has_files_to_read() {
#if defined(__linux__)
  for (const char* described : {"HWLOC_XMLFILE", "HWLOC_FSROOT", "HWLOC_SYNTHETIC"}) {
    const char* const value = std::getenv(described);
    if (value != nullptr && *value != '\0') return true;
  }
  return access("/sys/devices/system/cpu", F_OK) == 0 || access("/sys/bus/cpu", F_OK) == 0;
#else
  return true;
#endif
}

// Only caches and CPUs are kept. hwloc prints to stderr when the system contradicts itself, nearly
// always about packages, dies, groups or NUMA nodes against caches; what is filtered out is never
// compared. Its one switch for the rest, HWLOC_HIDE_ERRORS=2, is the user's: changing the
// environment here would race with every getenv of the process.
Handle load(unsigned long flags) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Handle topology(raw);
  if (!has_files_to_read()) {  // it would print; CPUID tells the caches, too
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "linux");
  }
  for (int i = HWLOC_OBJ_TYPE_MIN; i < HWLOC_OBJ_TYPE_MAX; ++i) {
    const auto type = static_cast<hwloc_obj_type_t>(i);
    const bool required =
        type == HWLOC_OBJ_MACHINE || type == HWLOC_OBJ_PU || type == HWLOC_OBJ_NUMANODE;
    if (required || hwloc_obj_type_is_dcache(type)) continue;
    hwloc_topology_set_type_filter(raw, type, HWLOC_TYPE_FILTER_KEEP_NONE);
  }
  if (hwloc_topology_set_flags(raw, flags) != 0 || hwloc_topology_load(raw) != 0) return nullptr;
  return topology;
}

CpuList cpus_in(hwloc_const_bitmap_t set, const CpuList& among) {
  CpuList cpus;
  for (int cpu : among) {
    if (hwloc_bitmap_isset(set, static_cast<unsigned>(cpu))) cpus.push_back(cpu);
  }
  return cpus;
}

CpuList allowed_in(hwloc_topology_t topology) {
  CpuList cpus;
  const hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topology);
  for (hwloc_obj_t pu = nullptr;
       (pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != nullptr;) {
    if (hwloc_bitmap_isset(allowed, pu->os_index)) cpus.push_back(static_cast<int>(pu->os_index));
  }
  sort_unique(&cpus);
  return cpus;
}

CpuCaches caches_over(hwloc_obj_t pu, const CpuList& allowed) {
  CpuCaches caches;
  caches.cpu = static_cast<int>(pu->os_index);
  for (hwloc_obj_t above = pu->parent; above != nullptr; above = above->parent) {
    if (!hwloc_obj_type_is_dcache(above->type)) continue;
    const auto& cache = above->attr->cache;
    const int level = static_cast<int>(cache.depth);
    const bool known = cache.size > 0 && cache.size <= std::uint64_t{cache_bytes_limit};
    if (!known || level > deepest_level) continue;
    caches.levels.push_back(make_level(level, static_cast<index_t>(cache.size),
                                       static_cast<int>(cache.linesize), cache.associativity,
                                       static_cast<int>(cpus_in(above->cpuset, allowed).size()),
                                       Source::hwloc));
  }
  return caches;
}

}  // namespace

bool built_with_hwloc() { return true; }

Topology topology_from_hwloc(const CpuList& allowed) {
  Topology result;
  if (hwloc_get_api_version() >> 16 != HWLOC_API_VERSION >> 16) {
    result.notes.push_back("hwloc is not used: its version differs from the one compiled against.");
    return result;
  }
  const char* file = std::getenv("HWLOC_XMLFILE");
  const bool from_file = file != nullptr && *file != '\0';
  // Where the kernel lists no caches hwloc can ask each CPU in turn, moving the calling thread over
  // all of them: only if nothing else works.
  for (const unsigned long flags : {HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING + 0ul, 0ul}) {
    const Handle topology = load(flags);
    if (!topology) continue;
    result.this_system = hwloc_topology_is_thissystem(topology.get()) != 0;
    const CpuList counted = result.this_system ? allowed : allowed_in(topology.get());
    result.cpus.clear();
    for (hwloc_obj_t pu = nullptr;
         (pu = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_PU, pu)) != nullptr;) {
      const int cpu = static_cast<int>(pu->os_index);
      if (!std::binary_search(counted.begin(), counted.end(), cpu)) continue;
      result.cpus.push_back(caches_over(pu, counted));
    }
    if (!result.has_caches()) continue;
    if (!result.this_system) {
      result.notes.push_back("The caches are those of a described machine, not of this one.");
    } else if (from_file && access(file, R_OK) != 0) {
      result.notes.push_back("HWLOC_XMLFILE cannot be read; the caches are those of this machine.");
    }
    return result;
  }
  result.notes.push_back(from_file ? "hwloc finds no caches in HWLOC_XMLFILE."
                                   : "hwloc finds no caches.");
  return result;
}

}  // namespace ioattn::machine
