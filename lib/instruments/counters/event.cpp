#include "instruments/counters/event.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/parse.hpp"

namespace ioattn::instruments {
namespace {

struct KernelEvent {
  std::string_view name;
  EventId id;
};

constexpr std::uint64_t l1d_read_misses = std::uint64_t(PERF_COUNT_HW_CACHE_L1D) |
                                          std::uint64_t(PERF_COUNT_HW_CACHE_OP_READ) << 8 |
                                          std::uint64_t(PERF_COUNT_HW_CACHE_RESULT_MISS) << 16;

constexpr KernelEvent kernel_events[] = {
    {"page-faults", {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS}},
    {"task-clock", {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK}},
    {"cache-misses", {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES}},
    {"L1-dcache-load-misses", {PERF_TYPE_HW_CACHE, l1d_read_misses}},
};

bool parse_raw(std::string_view name, std::uint64_t* code) {
  return name.starts_with('r') && parse_number(name.substr(1), code, 16);
}

}  // namespace

bool find_kernel_event(std::string_view name, EventId* id) {
  for (const KernelEvent& event : kernel_events) {
    if (event.name != name) continue;
    *id = event.id;
    return true;
  }
  return false;
}

bool is_kernel_event(const EventId& id) {
  return std::any_of(std::begin(kernel_events), std::end(kernel_events),
                     [&](const KernelEvent& event) { return event.id == id; });
}

bool is_generic(const EventId& id) {
  return id.type == PERF_TYPE_HARDWARE || id.type == PERF_TYPE_HW_CACHE;
}

Status resolve_event(std::string_view name, Event* event) {
  Event found;
  found.name = name;
  std::uint64_t code = 0;
  if (find_kernel_event(name, &found.id)) {
    if (is_generic(found.id)) {
      found.text = "A generic id: the kernel decides for each CPU what it counts.";
    } else if (found.id.config == PERF_COUNT_SW_TASK_CLOCK) {
      found.text = "Nanoseconds of CPU time, those in the kernel too.";
    }
  } else if (parse_raw(name, &code)) {
    found.id = {PERF_TYPE_RAW, code};
  } else if (const Status status = resolve_libpfm_name(found.name, &found.id); !status.is_ok()) {
    return status;
  }
  *event = std::move(found);
  return Status::ok();
}

std::string perf_stat_name(const Event& event, const std::string& pmu) {
  for (const KernelEvent& known : kernel_events) {
    if (known.id == event.id) return std::string(known.name) + ":u";
  }
  char digits[17];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, event.id.config, 16);
  const std::string code(digits, end);
  return pmu.empty() ? "r" + code + ":u" : pmu + "/config=0x" + code + "/u";
}

}  // namespace ioattn::instruments
