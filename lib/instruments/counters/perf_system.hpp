#pragma once

#include <cstdint>
#include <vector>

#include "instruments/counters/event.hpp"

struct perf_event_attr;

namespace ioattn::instruments {

// One counter to open: user-space code of one thread, on any CPU, disabled.
struct OpenRequest {
  EventId event;
  int thread = 0;              // thread or process id
  int leader = -1;             // descriptor whose group it joins; -1: leads one of its own
  bool with_children = false;  // begins at exec and counts all that the process starts; never in a
                               // group, as Linux reads no inherited groups

  bool operator==(const OpenRequest&) const = default;
};

// As the kernel reads them: a group {members, enabled, running, values...}, one with children
// {value, enabled, running}.
void fill_attributes(const OpenRequest& request, perf_event_attr* attributes);

// The system calls that counting takes. Linux has them; tests and recordings play them.
class PerfSystem {
 public:
  PerfSystem() = default;
  virtual ~PerfSystem() = default;
  PerfSystem(const PerfSystem&) = delete;
  PerfSystem& operator=(const PerfSystem&) = delete;

  virtual std::vector<int> threads() = 0;            // of this process, ascending
  virtual int open(const OpenRequest& request) = 0;  // a descriptor, or -errno
  virtual int enable(int leader, bool on) = 0;       // the whole group; 0 or -errno
  virtual int read(int leader, std::vector<std::uint64_t>* words) = 0;  // fits words; 0 or -errno
  virtual void close(int descriptor) = 0;
};

PerfSystem& linux_perf();

}  // namespace ioattn::instruments
