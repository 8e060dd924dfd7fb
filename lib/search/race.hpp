#pragma once

#include <functional>
#include <vector>

#include "base/status.hpp"
#include "base/types.hpp"

// Which of several ways of doing the same is the fastest, in a given time.
namespace ioattn::search {

struct Progress {
  double done = 0;          // of the time, from 0 to 1
  double seconds_left = 0;  // at most
  index_t running = 0;      // candidates that have not been dropped
};

struct RaceOptions {
  double seconds = 0.5;
  std::function<bool(const Progress&)> progress;  // false: stop; null: nobody asks
  std::function<double()> clock;                  // in seconds; null: the steady clock
};

struct Timing {
  std::vector<double> seconds;  // by round; a candidate that was dropped has fewer

  index_t rounds() const { return static_cast<index_t>(seconds.size()); }
  double median() const;
  double mad() const;
};

struct Race {
  std::size_t winner = 0;
  std::vector<Timing> timings;
  bool stopped = false;     // by the progress function
  bool is_decided = false;  // candidates were compared often enough to tell
};

// Runs the candidates in turn, round by round, each round beginning with another, and drops those
// that fall behind. Candidate 0 is the one to beat: another wins only if it is faster by more than
// 2 %, and surely faster, over the rounds that both ran. The others are in the order in which they
// are promising: where there is no time for all, the last do not run. Fails as a run fails.
Status race(std::size_t candidates, const std::function<Status(std::size_t)>& run,
            const RaceOptions& options, Race* result);

}  // namespace ioattn::search
