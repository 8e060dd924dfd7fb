#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/run_options.hpp"
#include "search/race.hpp"
#include "search/sample.hpp"

// The search for the fastest plan, of whatever problem.
namespace ioattn::api {

// Plans that a search compares, by number, the estimate first, and what they are timed on.
class Ways {
 public:
  virtual ~Ways() = default;
  virtual std::size_t count() const = 0;
  virtual std::string problem() const = 0;  // that is timed, as text
  virtual std::string plan(std::size_t i) const = 0;
  virtual index_t bytes() const = 0;         // of memory to run on
  virtual double least_seconds() const = 0;  // that even a fast CPU takes for the estimate
  virtual Status prepare() = 0;              // memory to run on
  virtual Status run(std::size_t i) = 0;     // a pass
  virtual void add_neighbours_of(std::size_t i) = 0;
  // In seconds: of the search, and of the calling thread alone.
  virtual double now() const { return search::steady_seconds(); }
  virtual double thread_now() const { return search::thread_seconds(); }
};

// What a search found.
struct Found {
  int threads = 1;
  std::vector<search::Timing> timings;  // of the candidates; those that never ran have no rounds
  std::size_t winner = 0;
  bool stopped = false;
  double seconds = 0;       // that the search took
  wisdom::Verdict verdict;  // fine if something was learned
  wisdom::Record record;    // what was learned
  bool kept = false;        // the process knows it now, and nothing of more rigor
};

using Watch = std::function<bool(const search::Progress&)>;  // false: stop; null: nobody asks

// Seconds that a search may take.
double seconds_of(const RunOptions& options);
// What one that takes all of them counts as: patience that is limited to the time of less is less.
wisdom::Rigor rigor_of(const RunOptions& options);

// Times the ways for as long as the options allow, from `begin` on (search::steady_seconds). Where
// that tells nothing, because a run takes too long, it is no failure: the verdict says so.
Status find_fastest(const RunOptions& options, double begin, const Watch& watch, Ways* ways,
                    Found* found);

// Whether the options ask for a search.
inline bool asks_for_search(const RunOptions& options) {
  return options.rigor == wisdom::Rigor::measure || options.rigor == wisdom::Rigor::patient;
}

}  // namespace ioattn::api
