#include "instruments/counters/counters.hpp"

#include <algorithm>
#include <cerrno>

namespace ioattn::instruments {
namespace {

std::string percent(double share) { return std::to_string(static_cast<int>(100 * share)) + "%"; }

// Counts and times are there; says how good they are.
void judge(CounterValue* value) {
  if (value->starved || value->running_ns == 0) {
    value->count.reset();
    value->estimate.reset();
    value->validity = Validity::unavailable;
    value->reason = !value->starved ? "no thread ran while it was to count"
                    : value->event.pmu.empty()
                        ? "it never got a counter: others held them"
                        : "it never got a counter: a thread stayed on cores that are not of " +
                              value->event.pmu + " (taskset pins it to those), or others held them";
  } else if (value->running_ns < value->enabled_ns) {
    value->validity = Validity::multiplexed;
    value->reason = "counted " + percent(value->running_share()) + " of the time";
  } else {
    value->validity = Validity::exact;
  }
}

// They were enabled for less than a quarter of the CPU time: the kernel takes them from a process
// that becomes more than its user may watch. What is left of exec is less than that.
void set_taken_away(std::uint64_t cpu_ns, CounterValue* value) {
  if (value->validity != Validity::unavailable) value->validity = Validity::incomplete;
  value->reason = "counted " +
                  percent(static_cast<double>(value->enabled_ns) / static_cast<double>(cpu_ns)) +
                  " of its CPU time: the kernel takes the counters from set-user-ID programs and "
                  "those that their user may not read";
}

void set_unavailable(int error, const Surroundings& surroundings, CounterValue* value) {
  value->validity = Validity::unavailable;
  value->count.reset();
  value->estimate.reset();
  value->error = error;
  value->reason = reason_of(error, surroundings);
}

}  // namespace

ThreadCounters::ThreadCounters(PerfSystem* system, std::vector<Event> events,
                               Surroundings surroundings)
    : system_(*system),
      events_(std::move(events)),
      surroundings_(surroundings),
      errors_(events_.size(), 0) {
  for (const int thread : system_.threads()) open_for(thread);
}

ThreadCounters::~ThreadCounters() {
  for (const Group& group : groups_) {
    for (const int descriptor : group.descriptors) system_.close(descriptor);
  }
}

void ThreadCounters::open_for(int thread) {
  Group group;
  const auto keep = [&] {
    if (!group.descriptors.empty()) groups_.push_back(std::move(group));
    group = {};
  };
  for (std::size_t i = 0; i < events_.size(); ++i) {
    if (group.descriptors.size() == largest_group) keep();
    OpenRequest request = {events_[i].id, thread, -1, false};
    int descriptor = -1;
    if (!group.descriptors.empty()) {
      request.leader = group.descriptors.front();
      descriptor = system_.open(request);
      // Of another PMU, or more than it has counters: a group of its own.
      if (descriptor == -EINVAL || descriptor == -ENOSPC) {
        keep();
        request.leader = -1;
        descriptor = system_.open(request);
      }
    } else {
      descriptor = system_.open(request);
    }
    if (descriptor == -ESRCH) break;  // it ended since it was listed
    if (descriptor < 0) {
      if (errors_[i] == 0) errors_[i] = -descriptor;
      continue;
    }
    group.descriptors.push_back(descriptor);
    group.events.push_back(i);
  }
  keep();
  opened_for_.push_back(thread);
}

void ThreadCounters::start() {
  for (const Group& group : groups_) {
    const int result = system_.enable(group.descriptors.front(), true);
    if (result < 0) control_error_ = -result;
  }
}

void ThreadCounters::stop() {
  for (const Group& group : groups_) {
    const int result = system_.enable(group.descriptors.front(), false);
    if (result < 0) control_error_ = -result;
  }
  const std::vector<int> now = system_.threads();
  const auto is_new = [&](int thread) {
    return std::find(opened_for_.begin(), opened_for_.end(), thread) == opened_for_.end();
  };
  // Counts add up: those that end before the next stop are still missing.
  new_threads_ =
      std::max(new_threads_, static_cast<int>(std::count_if(now.begin(), now.end(), is_new)));
}

void ThreadCounters::add(const Group& group, std::vector<CounterValue>* values) {
  constexpr std::size_t header = 3;  // members, enabled, running
  std::vector<std::uint64_t> words(header + group.events.size());
  int error = -system_.read(group.descriptors.front(), &words);
  if (error == 0 && words[0] != group.events.size()) error = ENODATA;
  for (std::size_t i = 0; i < group.events.size(); ++i) {
    CounterValue& value = (*values)[group.events[i]];
    if (error != 0) {
      if (value.error == 0) value.error = error;
      continue;
    }
    value.add(words[header + i], words[1], words[2]);
  }
}

std::vector<CounterValue> ThreadCounters::read() {
  std::vector<CounterValue> values(events_.size());
  for (std::size_t i = 0; i < events_.size(); ++i) {
    values[i].event = events_[i];
    values[i].error = errors_[i] != 0 ? errors_[i] : control_error_;
  }
  for (const Group& group : groups_) add(group, &values);
  for (CounterValue& value : values) {
    if (value.error != 0) {
      set_unavailable(value.error, surroundings_, &value);
      continue;
    }
    judge(&value);
    if (value.validity != Validity::unavailable && new_threads_ > 0) {
      value.validity = Validity::incomplete;
      value.reason = std::to_string(new_threads_) + " threads began after the counters were opened";
    }
  }
  return values;
}

CommandCounters::CommandCounters(PerfSystem* system, std::vector<Event> events,
                                 Surroundings surroundings, int process)
    : system_(*system), events_(std::move(events)), surroundings_(surroundings) {
  for (const Event& event : events_) {
    descriptors_.push_back(system_.open({event.id, process, -1, true}));
  }
}

CommandCounters::~CommandCounters() {
  for (const int descriptor : descriptors_) {
    if (descriptor >= 0) system_.close(descriptor);
  }
}

std::vector<CounterValue> CommandCounters::read(std::optional<std::uint64_t> cpu_ns) {
  std::vector<CounterValue> values(events_.size());
  for (std::size_t i = 0; i < events_.size(); ++i) {
    CounterValue& value = values[i];
    value.event = events_[i];
    std::vector<std::uint64_t> words(3);
    const int error =
        descriptors_[i] < 0 ? -descriptors_[i] : -system_.read(descriptors_[i], &words);
    if (error != 0) {
      set_unavailable(error, surroundings_, &value);
      continue;
    }
    value.add(words[0], words[1], words[2]);
    judge(&value);
    if (cpu_ns && value.enabled_ns < *cpu_ns / 4) set_taken_away(*cpu_ns, &value);
  }
  return values;
}

}  // namespace ioattn::instruments
