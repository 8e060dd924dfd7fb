#pragma once

#include <string>

#include "tune/cli_fwd.hpp"
#include "wisdom/wisdom.hpp"

// Options of the subcommands that make wisdom or look after it.
namespace ioattn::tune {

// --rigor measure or patient.
CLI::Option* add_rigor(CLI::App* app, wisdom::Rigor* rigor);

// The file that --file names, or the user's. Throws UsageError if there is no place for one.
std::string wisdom_file(const std::string& named);
// The message ends in what else the command has to offer.
std::string users_wisdom_file(const std::string& otherwise = "");

// Throws UsageError if a file of wisdom is wrong, RunError if it cannot be written.
void require(const wisdom::Verdict& verdict);

}  // namespace ioattn::tune
