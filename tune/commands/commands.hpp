#pragma once

#include <string>
#include <vector>

#include "tune/cli_fwd.hpp"

// The subcommands. Each adds itself to the command line and runs when it was parsed; errors are
// exceptions (command_error.hpp).
namespace ioattn::tune {

void add_machine_command(CLI::App* app);
void add_bounds_command(CLI::App* app);
void add_plan_command(CLI::App* app);
void add_regimes_command(CLI::App* app);
void add_figure_command(CLI::App* app);
void add_grad_command(CLI::App* app);
void add_sdpa_command(CLI::App* app);
void add_tune_command(CLI::App* app);
void add_wisdom_command(CLI::App* app);
void add_demo_command(CLI::App* app);
// `command`: what stands behind --.
void add_measure_command(CLI::App* app, std::vector<std::string> command);
void add_watched_command(CLI::App* app);  // not in the help: `measure` runs it under Valgrind

// Parses, runs, and returns the exit code: 0 done, 1 failed while doing, 2 wrong command line or
// input. Results go to stdout; an error is one line on stderr.
int run_command(int argc, const char* const* argv);

}  // namespace ioattn::tune
