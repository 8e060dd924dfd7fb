#pragma once

#include <string>
#include <vector>

#include "base/isa.hpp"
#include "base/types.hpp"

namespace ioattn::machine {

// Where a number comes from. Unknown numbers are 0 with source `unknown`; nothing is guessed silently.
enum class Source : std::uint8_t { unknown, override_variable, hwloc, sysfs, assumed };
const char* name_of(Source source);  // "unknown", "override", "hwloc", "sysfs", "assumed"

// One data or unified cache level as one thread of this process sees it: the least over the CPUs that
// the process may run on.
struct CacheLevel {
  int level = 0;             // 1, 2, 3
  index_t size_bytes = 0;    // the whole cache
  int line_bytes = 0;        // 0 = unknown
  int ways = 0;              // 0 = unknown or fully associative
  int sharing_cpus = 0;      // allowed CPUs that share it; 0 = unknown, counted as 1
  index_t share_bytes = 0;   // size_bytes / sharing_cpus: one thread's share with all CPUs busy
  Source source = Source::unknown;
};

struct Machine {
  std::string vendor;  // "AuthenticAMD", ...
  std::string model;   // "AMD EPYC ...", "" = unknown
  std::vector<CacheLevel> caches;  // ascending by level; always holds L1 and L2
  int allowed_cpus = 1;            // CPUs in the affinity mask
  Source cpus_source = Source::unknown;
  double cpu_quota = 0;      // CPUs' worth of time allowed by the cgroup; 0 = no limit
  int usable_threads = 1;    // min(allowed_cpus, ceil(cpu_quota)), at least 1
  bool virtual_machine = false;  // the CPU says that a hypervisor runs it: its L3 is not to be trusted
  IsaSet isa;
  std::vector<std::string> notes;  // one sentence per thing the user should know

  const CacheLevel* cache(int level) const;  // nullptr if there is none
};

// Roots and switches that tests replace.
struct DetectOptions {
  std::string sysfs_root = "/sys";
  std::string proc_root = "/proc";
  bool use_hwloc = true;
  bool use_environment = true;  // IOATTN_L1, IOATTN_L2, IOATTN_L3 = bytes
};

// Never fails: what cannot be found is assumed (32 KiB L1, 512 KiB L2) and says so.
Machine detect(const DetectOptions& options = {});

// detect() once per process; safe to call from any thread.
const Machine& this_machine();

// M: the words of fast memory that one thread may plan with at one cache level.
struct FastMemory {
  int level = 0;
  index_t share_bytes = 0;
  double fraction = 0;  // L1 0.5, L2 and L3 0.75: what is left beside lines of other data
  index_t words = 0;    // floor(share_bytes * fraction / size of a word)
  Source source = Source::unknown;
};
FastMemory fast_memory(const CacheLevel& cache, DType dtype);

}  // namespace ioattn::machine
