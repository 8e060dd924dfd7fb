#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/isa.hpp"
#include "base/types.hpp"

namespace ioattn::machine {

// Where a number comes from. Unknown numbers are 0 with source `unknown`; nothing is guessed
// silently. `affinity` is the kernel's mask of CPUs that this thread may run on.
enum class Source : std::uint8_t { unknown, override_variable, hwloc, sysfs, assumed, affinity };
const char* name_of(Source source);  // as spelled above; override_variable is "override"

// One data or unified cache level as one thread of this process sees it: where CPUs differ, the
// cache of the CPU with the least share among those that the process may run on.
struct CacheLevel {
  int level = 0;            // 1, 2, 3
  index_t size_bytes = 0;   // the whole cache
  int line_bytes = 0;       // 0 = unknown
  int ways = 0;             // 0 = unknown or fully associative
  int sharing_cpus = 0;     // allowed CPUs that share it; 0 = unknown, counted as 1
  index_t share_bytes = 0;  // size_bytes / sharing_cpus: one thread's share with all CPUs busy
  Source source = Source::unknown;       // of size_bytes and share_bytes
  Source line_source = Source::unknown;  // of line_bytes: an override says nothing about lines
};

struct Machine {
  std::string vendor;                              // "AuthenticAMD", ...
  std::string model;                               // "AMD EPYC ...", "" = unknown
  int family = 0, model_number = 0, stepping = 0;  // as in CpuId
  std::vector<CacheLevel> caches;                  // ascending by level; always holds L1 and L2
  int allowed_cpus = 1;                            // CPUs in the affinity mask
  Source cpus_source = Source::unknown;
  double cpu_quota = 0;                   // CPUs' worth of time allowed by the cgroup; 0 = no limit
  Source quota_source = Source::unknown;  // unknown: no cgroup could be read, so none is counted
  int usable_threads = 1;                 // min(allowed_cpus, ceil(cpu_quota)), at least 1
  bool virtual_machine = false;           // a hypervisor runs this CPU: its L3 is not to be trusted
  IsaSet isa;
  std::string no_tiles = "not asked for";  // why isa lacks avx512_amx, or ""
  std::vector<std::string> notes;          // one sentence per thing the user should know

  const CacheLevel* cache(int level) const;  // nullptr if there is none
};

// Roots and switches that tests replace.
struct DetectOptions {
  std::string sysfs_root = "/sys";
  std::string proc_root = "/proc";
  bool use_hwloc = true;
  bool use_environment = true;         // IOATTN_L1, IOATTN_L2, IOATTN_L3 = bytes; IOATTN_ISA
  std::vector<int> allowed_cpus = {};  // in place of the affinity mask; empty = ask the kernel
};

// Never fails: what cannot be found is assumed (32 KiB L1, 512 KiB L2) and says so. Throws nothing
// but std::bad_alloc and prints nothing itself. IOATTN_L1/L2/L3 are decimal bytes from 64 to 2^40;
// k, M or G after the digits, of either case, scales by 2^10, 2^20 or 2^30. A variable sets the
// size and one thread's share; one that is malformed is ignored with a note, an empty one is unset.
// Unless IOATTN_ISA names another instruction set, the kernel is asked for the tiles of a CPU with
// AMX, and `isa` has avx512_amx if it grants them.
Machine detect(const DetectOptions& options = {});

// What to choose from where nobody names an instruction set. Intel's CPUs multiply pairs of bf16 by
// AVX512-BF16 at half the rate of f32 (Xeon with AMX: 120 and 256 Gflop/s), so not that there.
IsaSet fast_isa(const Machine& machine);

// Whether hwloc was compiled in (CMake option IOATTN_HWLOC).
bool built_with_hwloc();

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
