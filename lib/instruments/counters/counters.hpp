#pragma once

#include <vector>

#include "instruments/counters/counter_value.hpp"
#include "instruments/counters/perf_system.hpp"
#include "instruments/counters/unavailable.hpp"

// Counts events, in user-space code, of the threads of this process or of a command. Nothing here
// fails: an event that cannot be counted is a value that says why. The system outlives the
// counters.
namespace ioattn::instruments {

// A hyper-thread has four counters at least, and the kernel's watchdog may hold one of them: it
// takes a larger group, but that would never count.
constexpr std::size_t largest_group = 3;

// One group for each thread that lives now, opened by thread id: nothing has to run inside the
// OpenMP workers, and none is missed. Run the work once before, so that its workers exist.
class ThreadCounters {
 public:
  ThreadCounters(PerfSystem* system, std::vector<Event> events, Surroundings surroundings);
  ~ThreadCounters();
  ThreadCounters(const ThreadCounters&) = delete;
  ThreadCounters& operator=(const ThreadCounters&) = delete;

  // May be repeated: counts add up.
  void start();
  void stop();

  // Of all threads together, in the order of the events.
  std::vector<CounterValue> read();
  std::size_t threads() const { return opened_for_.size(); }

 private:
  struct Group {
    std::vector<int> descriptors;     // the leader first
    std::vector<std::size_t> events;  // that they count
  };
  void open_for(int thread);
  void add(const Group& group, std::vector<CounterValue>* values);

  PerfSystem& system_;
  std::vector<Event> events_;
  Surroundings surroundings_;
  std::vector<Group> groups_;
  std::vector<int> opened_for_;
  std::vector<int> errors_;  // of each event, the first; 0: open everywhere
  int control_error_ = 0;    // of enable or disable
  int new_threads_ = 0;      // that came while it counted
};

// A process that waits to exec, and all that it starts: opened one by one, as inherited events have
// no groups.
class CommandCounters {
 public:
  CommandCounters(PerfSystem* system, std::vector<Event> events, Surroundings surroundings,
                  int process);
  ~CommandCounters();
  CommandCounters(const CommandCounters&) = delete;
  CommandCounters& operator=(const CommandCounters&) = delete;

  // After the process has ended; cpu_ns is what it and its children took since exec, if known.
  std::vector<CounterValue> read(std::optional<std::uint64_t> cpu_ns = std::nullopt);

 private:
  PerfSystem& system_;
  std::vector<Event> events_;
  Surroundings surroundings_;
  std::vector<int> descriptors_;  // -errno where it could not be opened
};

}  // namespace ioattn::instruments
