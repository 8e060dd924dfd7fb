#pragma once

#include <string>

#include "instruments/counters/perf_system.hpp"

// What a machine's counters answered, kept as text: made where there is a PMU, for tests to play.
// One line a call:
//   threads 812 813
//   open TYPE CONFIG THREAD LEADER children|group = DESCRIPTOR     (or = -ERRNO)
//   enable DESCRIPTOR = 0        disable DESCRIPTOR = 0
//   read DESCRIPTOR = WORD...    (or = -ERRNO)
namespace ioattn::instruments {

// A line as far as its answer.
std::string call_of(const OpenRequest& request);
std::string call_of(int leader, bool on);  // enable or disable
std::string read_call_of(int leader);

// Passes every call on and writes down what came of it.
class RecordingPerf final : public PerfSystem {
 public:
  explicit RecordingPerf(PerfSystem* system) : system_(*system) {}

  std::vector<int> threads() override;
  int open(const OpenRequest& request) override;
  int enable(int leader, bool on) override;
  int read(int leader, std::vector<std::uint64_t>* words) override;
  void close(int descriptor) override { system_.close(descriptor); }

  const std::string& text() const { return text_; }

 private:
  PerfSystem& system_;
  std::string text_;
};

}  // namespace ioattn::instruments
