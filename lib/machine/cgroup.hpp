#pragma once

#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace ioattn::machine {

struct CpuQuota {
  double cpus = 0;                  // CPU time per time; 0 = no limit
  Source source = Source::unknown;  // sysfs once any cgroup of the process was seen
  std::vector<std::string> notes;
};

// The least CFS bandwidth limit over the cgroups of this process and their ancestors, as far as
// they are mounted at <sysfs_root>/fs/cgroup: v2 cpu.max, v1 cpu.cfs_quota_us and
// cpu.cfs_period_us, both in microseconds. Linux: Documentation/admin-guide/cgroup-v2.rst,
// scheduler/sched-bwc.rst.
CpuQuota read_cpu_quota(const std::string& sysfs_root, const std::string& proc_root);

// min(allowed_cpus, ceil(quota)), at least 1.
int usable_threads(int allowed_cpus, double cpu_quota);

}  // namespace ioattn::machine
