// Samples of runs on a clock of the test's own.

#include "search/sample.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ioattn_test {
namespace {

using namespace ioattn;

// A run of a true time, disturbed as on a machine that others use, too.
class Disturbed {
 public:
  Disturbed(double seconds, double share, unsigned seed)
      : seconds_(seconds), share_(share), random_(seed) {}
  double sample(double limit) {
    return search::seconds_of_run([this] { run(); },
                                  {.seconds = limit, .clock = [this] { return clock_; }});
  }
  double clock() const { return clock_; }
  int runs() const { return runs_; }

 private:
  void run() {
    ++runs_;
    const bool disturbed = std::uniform_real_distribution<double>(0, 1)(random_) < share_;
    const double longer = std::exponential_distribution<double>(1)(random_);
    clock_ += seconds_ * (1 + 0.01 * longer + (disturbed ? 4 * longer : 0));
  }

  double seconds_, share_;
  std::mt19937 random_;
  double clock_ = 50;
  int runs_ = 0;
};

TEST(Sample, IsTheTimeOfAnUndisturbedRun) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Disturbed run(2e-3, 0.7, seed);
    EXPECT_NEAR(run.sample(0.5) / 2e-3, 1, 0.05) << seed;
    EXPECT_LT(run.clock(), 50.6);
  }
}

TEST(Sample, RepeatsShortRuns) {
  Disturbed run(3e-8, 0, 1);
  EXPECT_NEAR(run.sample(0.05) / 3e-8, 1, 0.03);
  EXPECT_GT(run.runs(), 100000);
  EXPECT_LT(run.clock(), 50.07);
}

TEST(Sample, TakesThreeOfLongRuns) {
  Disturbed run(7, 0, 1);
  EXPECT_NEAR(run.sample(0.05), 7, 0.3);
  EXPECT_EQ(run.runs(), 5) << "one for the caches, one to know how long it takes, three";
}

TEST(Sample, EndsWhereTheClockStands) {
  int runs = 0;
  EXPECT_EQ(search::seconds_of_run([&] { ++runs; }, {.seconds = 0, .clock = [] { return 1.; }}), 0);
  EXPECT_GT(runs, 1);
}

}  // namespace
}  // namespace ioattn_test
