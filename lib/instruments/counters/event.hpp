#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace ioattn::instruments {

// What the kernel is asked to count: type and config of perf_event_attr.
struct EventId {
  std::uint32_t type = 0;
  std::uint64_t config = 0;

  bool operator==(const EventId&) const = default;
};

struct Event {
  std::string name;
  EventId id;
  std::string text;      // what it counts on the CPU at hand
  std::string pmu = {};  // the only one that counts it, where CPUs of several kinds have their own
};

// A name that perf knows on every CPU: page-faults, task-clock (all CPU time, in the kernel too),
// cache-misses, L1-dcache-load-misses. The last two are generic: the kernel decides for each CPU
// what they count. None of what happens in the kernel alone, as context switches do: it is not
// counted.
bool find_kernel_event(std::string_view name, EventId* id);
bool is_kernel_event(const EventId& id);  // one of these names
bool is_generic(const EventId& id);       // counted by hardware of the kernel's choice

// One event by name: a kernel event, r<hexadecimal code of this CPU's PMU>, or a name of libpfm4
// ("skx::L1D:REPLACEMENT", "L2_LINES_IN:ALL") if that was there when this was built.
Status resolve_event(std::string_view name, Event* event);

// By libpfm4 alone; StatusCode::unsupported without it. A name of another CPU's PMU is known only
// if the environment has LIBPFM_ENCODE_INACTIVE=1. One that needs more than a type and a code, or
// counts other than user-space code, is refused.
bool built_with_libpfm();
Status resolve_libpfm_name(const std::string& name, EventId* id);

// How `perf stat -e` is told to count it: "r0151:u", "page-faults:u"; where a CPU has several PMUs,
// in which a code means different events, "cpu_core/config=0x151/u".
std::string perf_stat_name(const Event& event, const std::string& pmu = "");

}  // namespace ioattn::instruments
