#pragma once

#include <memory>
#include <string>
#include <vector>

#include "instruments/counters/counters.hpp"
#include "instruments/counters/recording.hpp"
#include "tune/cli_fwd.hpp"
#include "tune/files/output_files.hpp"

namespace ioattn::tune {

// Options that say what the hardware is to count.
struct CounterOptions {
  std::string file;                // of events, in place of the one for this CPU
  std::vector<std::string> named;  // more events
  std::string record;              // file for the kernel's answers

  void add(CLI::App* app);
};

// What is counted, and by what system. The file's events come first, then those named.
class CounterSetup {
 public:
  // Opens the file of the recording. Throws UsageError, RunError.
  explicit CounterSetup(const CounterOptions& options);

  const instruments::EventFile& file() const { return file_; }
  const std::string& note() const { return note_; }  // what makes the file doubtful here, or ""
  const std::vector<instruments::Event>& events() const { return events_; }
  const instruments::Surroundings& surroundings() const { return surroundings_; }
  instruments::PerfSystem* system() { return recorder_ ? recorder_.get() : system_; }
  void write_recording();  // if it was asked for; throws RunError

 private:
  instruments::EventFile file_;
  std::string note_;
  std::vector<instruments::Event> events_;
  instruments::Surroundings surroundings_;
  instruments::PerfSystem* system_;
  std::unique_ptr<instruments::RecordingPerf> recorder_;
  ReportFile recording_;
};

}  // namespace ioattn::tune
