#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "instruments/counters/event.hpp"
#include "machine/cpu_id.hpp"

// Which events measure traffic between caches on one kind of CPU. Text, one file per
// microarchitecture in events/, compiled in: the command runs wherever it is copied to, and has no
// file to miss. Another file may be given at run time.
namespace ioattn::instruments {

enum class CacheTraffic : std::uint8_t { fills, write_backs };
const char* name_of(CacheTraffic kind);  // "fills", "write-backs"

struct Term {
  int sign = 1;
  std::size_t event = 0;  // index into EventFile::events
};

// Lines that came into, or were written back from, the cache of one level.
struct Quantity {
  int level = 0;
  CacheTraffic kind = CacheTraffic::fills;
  std::vector<Term> formula;  // empty: no event of this CPU counts it, `text` says why
  std::string text;

  std::string name() const;  // "L1 fills"
};

struct EventFile {
  std::string cpu;  // "AMD Zen 3"
  std::string pmu;  // a folder of /sys/bus/event_source/devices; "" = the CPU's only one
  std::vector<machine::CpuPattern> matches;  // empty: any CPU
  std::vector<Event> events;
  std::vector<std::string> libpfm;  // of each event, "" if it has none there
  std::vector<Quantity> quantities;
  std::vector<Event> generic;  // what the kernel's generic ids count on this CPU

  bool is_for(const machine::CpuId& id) const;
  const Quantity* find(int level, CacheTraffic kind) const;  // null: not in the file
  std::string formula_text(const Quantity& quantity) const;
};

// The grammar is in events/README.md. `where` names the text in messages.
Status parse_event_file(std::string_view text, const std::string& where, EventFile* file);
Status read_event_file(const std::string& path, EventFile* file);

struct NamedText {
  std::string_view name, text;
};
// Compiled in, the one for any CPU last.
const std::vector<NamedText>& builtin_event_texts();
// The first whose pattern the CPU matches; there always is one.
const EventFile& builtin_events_for(const machine::CpuId& cpu);

// Of an event that hardware counts: the file's PMU, for what is said if it never does.
void set_pmu(const EventFile& file, Event* event);

// Raw events are of the file's PMU: their type is what sysfs says, on hybrid CPUs another than
// PERF_TYPE_RAW.
void set_pmu_type(const std::string& sysfs_root, EventFile* file);

}  // namespace ioattn::instruments
