// Workers compute in the default floating-point environment, whatever the caller's is, and the
// caller finds its own unchanged.

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <cmath>
#include <limits>

#include "parallel/parallel.hpp"

namespace ioattn::parallel {
namespace {

// Restores the environment that the test program started with.
class KeepEnvironment {
 public:
  KeepEnvironment() { std::fegetenv(&saved_); }
  ~KeepEnvironment() { std::fesetenv(&saved_); }
  KeepEnvironment(const KeepEnvironment&) = delete;
  KeepEnvironment& operator=(const KeepEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

// As sums of floats see it: std::fegetround() may tell of long double's.
bool rounds_to_nearest() {
  volatile float one = 1, little = 0x1p-30f;
  return one + little == 1 && one - little == 1;
}

TEST(Environment, RoundingIsToNearestOnEveryWorkerAndTheCallersKept) {
  const KeepEnvironment keep;
  for (const int threads : {1, 2, 5}) {
    for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
      ASSERT_EQ(std::fesetround(mode), 0);
      std::atomic<int> workers{0}, to_nearest{0};
      auto body = [&](int) {
        ++workers;
        to_nearest += rounds_to_nearest();
      };
      run(threads, body);
      EXPECT_EQ(std::fegetround(), mode);
      EXPECT_FALSE(rounds_to_nearest());
      EXPECT_EQ(workers, threads);
      EXPECT_EQ(to_nearest, threads);
    }
  }
}

TEST(Environment, WorkersThatChangeItLeaveNoTrace) {
  const KeepEnvironment keep;
  for (const int threads : {1, 2}) {
    std::fesetenv(FE_DFL_ENV);
    auto body = [](int) { std::fesetround(FE_UPWARD); };
    run(threads, body);
    EXPECT_TRUE(rounds_to_nearest());
  }
}

TEST(Environment, FlagsOfTheCallerAreKeptAndThoseOfTheWorkersAreNotAdded) {
  const KeepEnvironment keep;
  volatile float least = std::numeric_limits<float>::min(), zero = 0;
  for (const int threads : {1, 2}) {
    std::feclearexcept(FE_ALL_EXCEPT);
    ASSERT_EQ(least * least, 0);
    std::atomic<int> raised_before{0};
    auto body = [&](int) {
      raised_before += std::fetestexcept(FE_ALL_EXCEPT) != 0;
      EXPECT_TRUE(std::isinf(1 / zero));
      EXPECT_TRUE(std::isnan(zero / zero));
    };
    run(threads, body);
    EXPECT_EQ(raised_before, 0);
    EXPECT_NE(std::fetestexcept(FE_UNDERFLOW), 0);
    EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO | FE_INVALID), 0);
  }
}

#if defined(__x86_64__) && defined(__GLIBC__)
// MXCSR's switches for subnormal numbers, which -ffast-math sets in some programs.
TEST(Environment, SubnormalNumbersAreNotFlushedInsideOnly) {
  const KeepEnvironment keep;
  constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
  volatile float least = std::numeric_limits<float>::min();
  for (const int threads : {1, 2}) {
    std::fenv_t environment;
    std::fegetenv(&environment);
    environment.__mxcsr |= flush_to_zero | denormals_are_zero;
    std::fesetenv(&environment);
    ASSERT_EQ(least * 0.5f, 0.0f);
    std::atomic<int> kept{0};
    auto body = [&](int) { kept += least * 0.5f > 0.0f; };
    run(threads, body);
    EXPECT_EQ(kept, threads);
    std::fegetenv(&environment);
    EXPECT_EQ(environment.__mxcsr & (flush_to_zero | denormals_are_zero),
              flush_to_zero | denormals_are_zero);
  }
}
#endif

}  // namespace
}  // namespace ioattn::parallel
