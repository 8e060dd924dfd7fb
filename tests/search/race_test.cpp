// Races on a clock of the test's own: each candidate has a true time, and noise as clocks have it.

#include "search/race.hpp"

#include <gtest/gtest.h>

#include <random>

#include "search/statistics.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using search::Race;
using search::RaceOptions;

TEST(Statistics, AreRobust) {
  EXPECT_EQ(search::median({}), 0);
  EXPECT_EQ(search::median({3, 1, 2}), 2);
  EXPECT_EQ(search::median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(search::mad({1, 2, 3, 4, 100}), 1);
  const search::Mean mean = search::winsorised_mean({1, 1.1, 0.9, 1.05, 0.95, 50});
  EXPECT_LT(mean.value, 1.2);
  EXPECT_GT(mean.error, 0);
  EXPECT_EQ(search::winsorised_mean({2}).value, 2);
  EXPECT_GT(search::winsorised_mean({2}).error, 1e9);
}

class Track {
 public:
  Track(std::vector<double> times, double noise, unsigned seed)
      : times_(std::move(times)), noise_(noise), random_(seed) {
    runs.resize(times_.size());
  }

  RaceOptions options(double seconds) {
    RaceOptions options;
    options.seconds = seconds;
    options.clock = [this] { return clock_; };
    return options;
  }
  Race race(const RaceOptions& options) {
    Race result;
    const Status status = search::race(
        times_.size(), [this](std::size_t i) { return run(i); }, options, &result);
    EXPECT_OK(status);
    EXPECT_EQ(result.timings.size(), times_.size());
    return result;
  }
  search::Duel duel(const RaceOptions& options) {
    search::Duel result;
    EXPECT_OK(search::duel([this](std::size_t i) { return run(i); }, options, &result));
    EXPECT_EQ(result.timings[0].rounds(), result.timings[1].rounds());
    return result;
  }
  double clock() const { return clock_; }
  std::vector<int> runs;

 private:
  Status run(std::size_t i) {
    ++runs[i];
    // Never faster than it is, sometimes much slower.
    std::exponential_distribution<double> slower(1);
    const bool disturbed = std::uniform_int_distribution<int>(0, 19)(random_) == 0;
    clock_ += times_[i] * (1 + noise_ * slower(random_) + (disturbed ? 3 : 0));
    return Status::ok();
  }

  std::vector<double> times_;
  double noise_;
  std::mt19937 random_;
  double clock_ = 100;
};

TEST(Race, IsWonByTheFastest) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Track track({1.0, 1.3, 0.9, 2.0, 0.8, 1.1}, 0.03, seed);
    const Race race = track.race(track.options(200));
    EXPECT_EQ(race.winner, 4u) << seed;
    EXPECT_TRUE(race.is_decided);
    EXPECT_FALSE(race.stopped);
    EXPECT_LE(track.clock(), 100 + 200 * 1.05);
  }
}

// The promise that tuning is never more than 2 % slower, among candidates that are a little slower
// than the first, as fast, or hardly faster.
TEST(Race, KeepsTheFirstUnlessAnotherIsSurelyFaster) {
  const std::vector<double> times = {1.0, 1.03, 1.0, 1.05, 0.995, 1.025};
  int changed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Track track(times, 0.1, seed);
    const std::size_t winner = track.race(track.options(300)).winner;
    EXPECT_LE(times[winner], 1.02) << seed;
    changed += winner != 0 ? 1 : 0;
  }
  EXPECT_LE(changed, 15);
}

TEST(Race, DropsThoseThatFallBehind) {
  Track track({1.0, 5.0, 1.2, 0.9}, 0.01, 1);
  track.race(track.options(500));
  EXPECT_LE(track.runs[1], 2);
  EXPECT_LE(track.runs[2], 6);
  EXPECT_GE(track.runs[0], 20);
  EXPECT_GE(track.runs[3], 20);
}

TEST(Race, EndsInTime) {
  // Two runs take longer than all the time: nobody else runs.
  Track slow({1.0, 0.1}, 0, 1);
  const Race none = slow.race(slow.options(0.5));
  EXPECT_EQ(none.winner, 0u);
  EXPECT_FALSE(none.is_decided);
  EXPECT_EQ(slow.runs[0], 1);
  EXPECT_EQ(slow.runs[1], 0);
  // There is time for some: the most promising.
  Track many(std::vector<double>(100, 1.0), 0, 1);
  many.race(many.options(60));
  EXPECT_LE(many.clock(), 162);
  EXPECT_GE(many.runs[5], 1);
  EXPECT_EQ(many.runs[99], 0);
  // Short ones are repeated until a clock can tell.
  Track tiny({1e-6, 0.8e-6}, 0.01, 1);
  EXPECT_EQ(tiny.race(tiny.options(0.5)).winner, 1u);
  EXPECT_GT(tiny.runs[1], 1000);
}

TEST(Race, StopsWhenAsked) {
  Track track({1.0, 0.5}, 0.01, 1);
  RaceOptions options = track.options(1000);
  double done = 0;
  int asked = 0;
  options.progress = [&](const search::Progress& progress) {
    EXPECT_GE(progress.done, done);
    EXPECT_LE(progress.done, 1);
    EXPECT_GE(progress.running, 1);
    done = progress.done;
    return ++asked < 40;
  };
  const Race race = track.race(options);
  EXPECT_TRUE(race.stopped);
  EXPECT_EQ(asked, 40);
  EXPECT_EQ(race.winner, 1u) << "what was learned is kept";
}

TEST(Duel, IsWonByWhoIsSurelyFaster) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Track track({1.0, 0.9}, 0.02, seed);
    const search::Duel duel = track.duel(track.options(50));
    EXPECT_TRUE(duel.is_won) << seed;
    EXPECT_GE(duel.timings[0].rounds(), search::least_pairs);
    EXPECT_LE(track.clock(), 100 + 50 + 8);
  }
}

// The promise again, in more noise than the differences are, whoever has won the race before.
TEST(Duel, LeavesTheChampionInNoise) {
  for (const double time : {0.99, 1.0, 1.02, 1.05})
    for (const double noise : {0.01, 0.05, 0.2})
      for (unsigned seed = 0; seed < 200; ++seed) {
        Track track({1.0, time}, noise, seed);
        EXPECT_FALSE(track.duel(track.options(20 + seed % 60)).is_won)
            << time << " " << noise << " " << seed;
      }
}

// Of many that are as fast as the first the luckiest wins some races; times of its own tell.
TEST(Duel, TellsTheLuckyFromTheFast) {
  int nominated = 0, changed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Track track(std::vector<double>(40, 1.0), 0.05, seed);
    if (track.race(track.options(400)).winner == 0) continue;
    ++nominated;
    changed += track.duel(track.options(60)).is_won ? 1 : 0;
  }
  EXPECT_GE(nominated, 3);
  EXPECT_EQ(changed, 0);
}

TEST(Duel, TakesTheClockOfRuns) {
  // Somebody else has the CPU while the challenger runs: on the clock of runs it is the faster.
  double clock = 0, run_clock = 0;
  RaceOptions options;
  options.seconds = 100;
  options.clock = [&] { return clock; };
  options.run_clock = [&] { return run_clock; };
  search::Duel duel;
  const auto run = [&](std::size_t i) {
    run_clock += i == 0 ? 1 : 0.8;
    clock += i == 0 ? 1 : 2;
    return Status::ok();
  };
  ASSERT_OK(search::duel(run, options, &duel));
  EXPECT_TRUE(duel.is_won);
  EXPECT_NEAR(duel.timings[1].median(), 0.8, 1e-9);
  Race race;
  ASSERT_OK(search::race(2, run, options, &race));
  EXPECT_EQ(race.winner, 1u);
}

// Caches are warm for the second of a pair, which each is every other time.
TEST(Duel, IsNotWonByComingSecond) {
  double clock = 0;
  std::size_t last = 1;
  RaceOptions options;
  options.seconds = 100;
  options.clock = [&] { return clock; };
  int run_of_pair = 0;
  const auto run = [&](std::size_t i) {
    clock += run_of_pair++ % 2 == 1 && i != last ? 0.9 : 1;
    last = i;
    return Status::ok();
  };
  search::Duel duel;
  ASSERT_OK(search::duel(run, options, &duel));
  EXPECT_GE(duel.timings[0].rounds(), search::least_pairs);
  EXPECT_FALSE(duel.is_won);
}

TEST(Duel, NeedsPairsEnough) {
  const std::vector<double> few(static_cast<std::size_t>(search::least_pairs - 1), 0.5);
  EXPECT_FALSE(search::is_surely_faster(few));
  std::vector<double> enough = few;
  enough.push_back(0.5);
  EXPECT_TRUE(search::is_surely_faster(enough));
  EXPECT_FALSE(search::is_surely_faster(std::vector<double>(20, 0.98)));
  Track short_of_time({1.0, 0.5}, 0, 1);
  EXPECT_FALSE(short_of_time.duel(short_of_time.options(12)).is_won);
  Track none({1.0, 0.5}, 0, 1);
  EXPECT_FALSE(none.duel(none.options(0)).is_won);
  EXPECT_EQ(none.runs[1], 0);
}

TEST(Duel, StopsAndFails) {
  Track track({1.0, 0.5}, 0.01, 1);
  RaceOptions options = track.options(1000);
  int asked = 0;
  options.progress = [&](const search::Progress&) { return ++asked < 5; };
  const search::Duel stopped = track.duel(options);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_FALSE(stopped.is_won);
  EXPECT_EQ(asked, 5);
  search::Duel duel;
  const auto run = [](std::size_t i) {
    return i == 0 ? Status::ok() : Status::error(StatusCode::out_of_memory, "no memory");
  };
  EXPECT_EQ(search::duel(run, {}, &duel).code(), StatusCode::out_of_memory);
}

TEST(Race, FailsAsARunFails) {
  Race race;
  const auto run = [](std::size_t i) {
    return i < 2 ? Status::ok() : Status::error(StatusCode::out_of_memory, "no memory");
  };
  EXPECT_EQ(search::race(3, run, {}, &race).code(), StatusCode::out_of_memory);
  EXPECT_OK(search::race(0, run, {}, &race));
}

}  // namespace
}  // namespace ioattn_test
