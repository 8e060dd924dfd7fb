#pragma once

#include <string>
#include <vector>

#include "tune/text/report_json.hpp"
#include "tune/traffic/counter_setup.hpp"

namespace ioattn::tune {

// A command of the user's and what was counted while it and all that it started ran, from exec on.
struct MeasuredCommand {
  int exit_status = 0;  // 128 + signal if one ended it
  double seconds = 0;
  std::vector<instruments::CounterValue> values;  // in the order of the setup's events
};

// Runs it with this process's standard streams; interrupts from the terminal are for the command
// alone. Throws CommandError if it cannot be started, RunError if there is no process for it.
MeasuredCommand run_measured(const std::vector<std::string>& command, CounterSetup* setup);

std::string to_text(const MeasuredCommand& run, const CounterSetup& setup);
Json to_json(const MeasuredCommand& run, const std::vector<std::string>& command,
             const CounterSetup& setup);

}  // namespace ioattn::tune
