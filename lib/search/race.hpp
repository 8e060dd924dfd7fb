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
  std::function<double()> run_clock;              // that runs are timed by; null: the same
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

// Runs a champion, 0, and a challenger, 1, that a race has found, pair by pair, each pair beginning
// with the other: on times of their own, as those that made it the fastest of many were the
// luckiest of many, too.
struct Duel {
  std::vector<Timing> timings;  // of both, by pair
  bool is_won = false;          // by the challenger
  bool stopped = false;         // by the progress function: nobody has won
};
Status duel(const std::function<Status(std::size_t)>& run, const RaceOptions& options,
            Duel* result);
inline constexpr index_t least_pairs = 9;

// Whether a challenger that took so many times as long as the champion beside it, by pairs, is
// faster by 2.5 % and surely by 1 %.
bool is_surely_faster(const std::vector<double>& ratios);

}  // namespace ioattn::search
