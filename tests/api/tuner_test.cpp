// Searches on a clock of the test's own.

#include "api/search/tuner.hpp"
#include "status_ok.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ioattn_test {
namespace {

using namespace ioattn;

// Each way takes its time, and those that were lucky less for their first runs.
class FakeWays final : public api::Ways {
 public:
  explicit FakeWays(std::vector<double> seconds) : seconds_(std::move(seconds)) {
    runs.resize(seconds_.size());
  }
  std::size_t count() const override { return seconds_.size(); }
  std::string problem() const override { return "a problem"; }
  std::string plan(std::size_t i) const override { return "plan " + std::to_string(i); }
  index_t bytes() const override { return 8; }
  double least_seconds() const override { return 1e-9; }
  Status prepare() override { return Status::ok(); }
  Status run(std::size_t i) override {
    const bool is_lucky = i == lucky && runs[i]++ < lucky_runs;
    clock_ += is_lucky ? 0.8 * seconds_[i] : seconds_[i];
    others_ += 0.1 * seconds_[i];
    return Status::ok();
  }
  void add_neighbours_of(std::size_t) override {}
  double now() const override { return clock_ + others_; }
  double thread_now() const override { return clock_; }

  api::Found search(double seconds, int threads = 1, const api::Watch& watch = nullptr) {
    api::RunOptions options;
    options.rigor = wisdom::Rigor::patient;
    options.time_limit_seconds = seconds;
    api::Found found;
    found.threads = threads;
    const double begin = now();
    EXPECT_OK(api::find_fastest(options, begin, watch, this, &found));
    EXPECT_LE(now() - begin, seconds * 1.1);
    return found;
  }

  std::size_t lucky = 1000;
  int lucky_runs = 0;
  std::vector<int> runs;

 private:
  std::vector<double> seconds_;
  double clock_ = 0, others_ = 50;
};

TEST(Tuner, FindsTheFastest) {
  FakeWays ways({1e-3, 1.2e-3, 0.9e-3, 0.95e-3});
  const api::Found found = ways.search(1);
  EXPECT_EQ(found.winner, 2u);
  EXPECT_EQ(found.record.plan, "plan 2");
  EXPECT_NEAR(found.record.seconds, 0.9e-3, 1e-9) << "by the thread's clock";
  EXPECT_NEAR(found.record.estimate_seconds, 1e-3, 1e-9);
  EXPECT_GE(found.record.rounds, search::least_pairs);
  EXPECT_NEAR(ways.search(1, 2).record.seconds, 0.99e-3, 1e-9) << "of two threads by all's";
}

// As fast as the estimate, but not while the race was on.
TEST(Tuner, KeepsTheEstimateAgainstTheLucky) {
  FakeWays ways({1e-3, 1e-3, 1e-3});
  ways.lucky = 1;
  ways.lucky_runs = 41;  // a race has 40 rounds
  const api::Found found = ways.search(1);
  EXPECT_EQ(found.winner, 0u);
  EXPECT_EQ(found.record.plan, "plan 0");
  EXPECT_NEAR(found.record.seconds, 1e-3, 1e-9);
  EXPECT_LT(found.timings[1].median(), 0.9e-3) << "it has won the race";
}

// The time that is kept is the estimate's, too.
TEST(Tuner, KeepsTheTimeOfTheEstimateThatWonTheDuel) {
  FakeWays ways({1e-3, 1.1e-3});
  ways.lucky = 1;
  ways.lucky_runs = 41;
  const api::Found found = ways.search(1);
  EXPECT_EQ(found.winner, 0u);
  EXPECT_NEAR(found.record.seconds, 1e-3, 1e-9);
}

// What was searched for less long than a patient search counts as measured.
TEST(Tuner, SaysHowPatientItWas) {
  FakeWays ways({1e-3, 1.2e-3, 0.9e-3});
  EXPECT_EQ(ways.search(0.25).record.rigor, wisdom::Rigor::measure);
  EXPECT_EQ(ways.search(1).record.rigor, wisdom::Rigor::patient);
  int asked = 0;
  const api::Found stopped = ways.search(1, 1, [&](const auto&) { return ++asked < 100; });
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.record.rigor, wisdom::Rigor::measure);
}

TEST(Tuner, KeepsTheEstimateWithoutTimeForADuel) {
  FakeWays ways({1e-2, 0.5e-2});
  EXPECT_EQ(ways.search(0.25).winner, 0u);
  EXPECT_EQ(ways.search(1).winner, 1u);
}

}  // namespace
}  // namespace ioattn_test
