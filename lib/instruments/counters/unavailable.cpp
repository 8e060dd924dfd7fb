#include "instruments/counters/unavailable.hpp"

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "machine/text.hpp"

namespace ioattn::instruments {
namespace {

// Folders of the CPU's own PMU: cpu, on hybrid ones cpu_core; on Arm armv8_pmuv3,
// armv8_neoverse_n1.
bool has_pmu(const std::string& sysfs) {
  std::error_code error;
  std::filesystem::directory_iterator folder(sysfs + "/bus/event_source/devices", error), end;
  for (; !error && folder != end; folder.increment(error)) {
    const std::string name = folder->path().filename().string();
    if (name == "cpu" || name == "cpu_core" || name.rfind("armv", 0) == 0) return true;
  }
  return false;
}

std::string denied(const Surroundings& surroundings) {
  if (surroundings.paranoid && *surroundings.paranoid > 2 && !surroundings.privileged) {
    return "kernel.perf_event_paranoid is " + std::to_string(*surroundings.paranoid) +
           ": users may not count; sysctl kernel.perf_event_paranoid=2 or CAP_PERFMON allows it";
  }
  if (surroundings.seccomp_filter) {
    return "a seccomp filter forbids perf_event_open, as container runtimes set one up; give the "
           "container CAP_PERFMON or a profile that allows it";
  }
  if (surroundings.paranoid) {
    return "refused, though kernel.perf_event_paranoid is " +
           std::to_string(*surroundings.paranoid) +
           ": a security module, or a process of another user";
  }
  return "refused, and kernel.perf_event_paranoid cannot be read: a sandbox or a security module";
}

std::string not_there(const Surroundings& surroundings) {
  if (surroundings.has_pmu) return "the PMU of this CPU has no such event";
  return surroundings.virtual_machine
             ? "no PMU: the hypervisor gives this virtual machine no hardware counters"
             : "no PMU: the kernel found no hardware counters of this CPU";
}

std::string meaning_of(int error, const Surroundings& surroundings) {
  switch (error) {
    case ENOENT: return not_there(surroundings);
    case EACCES:
    case EPERM: return denied(surroundings);
    case ENOSYS: return "no perf_event_open here: a kernel without it or a sandbox";
    case EOPNOTSUPP:
    case ENODEV:
    case ENXIO:
      return surroundings.virtual_machine ? "the hypervisor does not let this event be counted"
                                          : "the PMU cannot count this event";
    case EINVAL: return "the kernel does not take this event: made for another CPU or kernel";
    case E2BIG: return "the kernel is older than what it was asked";
    case ENOSPC: return "more events than counters";
    case EBUSY: return "another program holds the PMU for itself";
    case EMFILE:
    case ENFILE: return "too many open files: each thread takes one per event (ulimit -n)";
    case ENOMEM: return "out of memory";
    case ESRCH: return "the thread or process has ended";
    case ENODATA: return "the kernel gave up counting it";
    default: return std::strerror(error);
  }
}

// Capabilities of a user namespace are none that perf_event_open asks for. Without the file there
// are no such namespaces.
bool in_first_user_namespace(const std::string& proc) {
  const auto line = machine::first_line(proc + "/self/uid_map");
  if (!line) return true;
  std::istringstream fields(*line);
  std::uint64_t first = 1, outside = 1, count = 0;
  fields >> first >> outside >> count;
  return first == 0 && outside == 0 && count == UINT32_MAX;
}

}  // namespace

Surroundings read_surroundings(bool virtual_machine, const SurroundingRoots& roots) {
  Surroundings found;
  found.virtual_machine = virtual_machine;
  found.has_pmu = has_pmu(roots.sysfs);
  if (const auto line = machine::first_line(roots.proc + "/sys/kernel/perf_event_paranoid")) {
    const std::string_view text = machine::trimmed(*line);
    int level = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), level);
    if (error == std::errc()) found.paranoid = level;
  }
  std::ifstream status(roots.proc + "/self/status");
  for (std::string line; machine::next_line(&status, &line);) {
    if (line.rfind("Seccomp:", 0) == 0) {
      found.seccomp_filter = machine::trimmed(std::string_view(line).substr(8)) == "2";
    }
    if (line.rfind("CapEff:", 0) == 0) {
      constexpr unsigned sys_admin = 21, perfmon = 38;
      const std::string_view digits = machine::trimmed(std::string_view(line).substr(7));
      std::uint64_t bits = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
      found.privileged =
          ((bits >> sys_admin | bits >> perfmon) & 1u) != 0 && in_first_user_namespace(roots.proc);
    }
  }
  return found;
}

std::string reason_of(int error, const Surroundings& surroundings) {
  const char* name = strerrorname_np(error);
  return std::string(name == nullptr ? "errno " + std::to_string(error) : name) + ": " +
         meaning_of(error, surroundings);
}

}  // namespace ioattn::instruments
