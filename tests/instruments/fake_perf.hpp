#pragma once

#include <cerrno>
#include <functional>
#include <map>
#include <vector>

#include "instruments/counters/perf_system.hpp"

namespace ioattn::instruments {

// Plays the kernel: every call is kept, and answered as the test says.
class FakePerf final : public PerfSystem {
 public:
  struct Counter {
    OpenRequest request;
    std::vector<int> members;  // of its group, if it leads one
    bool enabled = false;
  };

  std::vector<int> thread_ids = {100};
  std::map<std::uint64_t, int> open_errors;  // by config: errno
  std::size_t largest_group = 99;            // a larger one is refused
  int group_error = EINVAL;                  // with this
  int enable_error = 0, read_error = 0;
  std::uint64_t enabled_ns = 1000, running_ns = 1000;
  // Of an event of a thread.
  std::function<std::uint64_t(std::uint64_t config, int thread)> count = [](std::uint64_t config,
                                                                            int) { return config; };
  std::function<std::uint64_t(int thread)> running_of;  // in place of running_ns
  // Whether a group of so many gets its counters.
  std::function<bool(std::size_t members)> runs = [](std::size_t) { return true; };

  std::map<int, Counter> open_counters;
  int enables = 0, disables = 0;

  std::vector<int> threads() override { return thread_ids; }

  int open(const OpenRequest& request) override {
    const auto error = open_errors.find(request.event.config);
    if (error != open_errors.end()) return -error->second;
    if (request.leader >= 0) {
      std::vector<int>& members = open_counters.at(request.leader).members;
      if (members.size() >= largest_group) return -group_error;
      members.push_back(next_);
    }
    open_counters[next_] = {request, {next_}, false};
    return next_++;
  }

  int enable(int leader, bool on) override {
    if (enable_error != 0) return -enable_error;
    open_counters.at(leader).enabled = on;
    ++(on ? enables : disables);
    return 0;
  }

  int read(int leader, std::vector<std::uint64_t>* words) override {
    if (read_error != 0) return -read_error;
    const Counter& counter = open_counters.at(leader);
    const auto value = [&](int descriptor) {
      const OpenRequest& request = open_counters.at(descriptor).request;
      return count(request.event.config, request.thread);
    };
    std::uint64_t running = running_of ? running_of(counter.request.thread) : running_ns;
    if (!runs(counter.members.size())) running = 0;
    std::vector<std::uint64_t> answer;
    if (counter.request.with_children) {
      answer = {value(leader), enabled_ns, running};
    } else {
      answer = {counter.members.size(), enabled_ns, running};
      for (const int member : counter.members) answer.push_back(value(member));
    }
    if (answer.size() != words->size()) return -ENODATA;
    *words = answer;
    return 0;
  }

  void close(int descriptor) override { open_counters.erase(descriptor); }

 private:
  int next_ = 3;
};

}  // namespace ioattn::instruments
