#pragma once

#include <string>

#include "api/run/sdpa.hpp"
#include "api/search/sdpa_search.hpp"
#include "tune/cli_fwd.hpp"
#include "tune/text/report_json.hpp"

// What subcommands tell of plans of SDPA, and of how they were found.
namespace ioattn::tune {

bool is_sdpa(const std::string& text);  // of a problem
// Valid, each size at least 1, some key in sight. Throws UsageError.
SdpaProblem sdpa_of(const std::string& text);

// --rigor measure or patient.
CLI::Option* add_rigor(CLI::App* app, wisdom::Rigor* rigor);

// The file that --file names, or the user's. Throws UsageError if there is no place for one.
std::string wisdom_file(const std::string& named);
// The message ends in what else the command has to offer.
std::string users_wisdom_file(const std::string& otherwise = "");

// Throws UsageError if a file of wisdom is wrong, RunError if it cannot be written.
void require(const wisdom::Verdict& verdict);

// The plan that calls take, where it came from, and what else there was.
void print_sdpa_plan(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                     const api::RunOptions& options, bool explain, bool json);

}  // namespace ioattn::tune
