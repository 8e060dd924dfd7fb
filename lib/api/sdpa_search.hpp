#pragma once

#include <vector>

#include "api/sdpa_wisdom.hpp"
#include "api/session.hpp"
#include "plan/sdpa_candidates.hpp"
#include "search/race.hpp"

// The fastest plan of an SDPA problem, found by timing.
namespace ioattn::api {

// What is timed in place of a problem: one entry with as many heads as threads can take at a time,
// each with keys of its own, without a mask. Blocks depend on none of that.
SdpaProblem timed_problem(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                          int threads);

// Seconds that a search may take.
double seconds_of(const RunOptions& options);

struct SearchReport {
  SdpaProblem timed;
  int threads = 1;
  std::vector<plan::SdpaCandidate> candidates;  // the estimate first
  std::vector<search::Timing> timings;          // of these; those that never ran have no rounds
  std::size_t winner = 0;
  bool stopped = false;
  double seconds = 0;       // that the search took
  wisdom::Verdict verdict;  // fine if something was learned, which is then known to the process
  wisdom::Record record;    // what was learned
};

// Searches with the rigor, time and threads of the options, for a valid problem; whatever is known
// already. A problem too long to be timed in that time is no failure: nothing is learned.
Status search_sdpa(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                   const RunOptions& options,
                   const std::function<bool(const search::Progress&)>& progress,
                   SearchReport* report);

// Whether the options ask for a search, and nothing of that much rigor is known.
Status needs_search(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                    const RunOptions& options, bool* needed);

}  // namespace ioattn::api
