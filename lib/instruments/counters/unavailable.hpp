#pragma once

#include <optional>
#include <string>

namespace ioattn::instruments {

// What decides whether this process may count, and on what.
struct Surroundings {
  std::optional<int> paranoid;  // /proc/sys/kernel/perf_event_paranoid
  bool has_pmu = false;         // the kernel knows counters of this CPU
  bool virtual_machine = false;
  bool seccomp_filter = false;  // this process runs under one
  bool privileged = false;      // has CAP_PERFMON or CAP_SYS_ADMIN, not of a user namespace
};

struct SurroundingRoots {
  std::string sysfs = "/sys";
  std::string proc = "/proc";
};
Surroundings read_surroundings(bool virtual_machine, const SurroundingRoots& roots = {});

// Why perf_event_open or a read failed with this errno, and what may help: "ENOENT: no PMU: ...".
std::string reason_of(int error, const Surroundings& surroundings);

}  // namespace ioattn::instruments
