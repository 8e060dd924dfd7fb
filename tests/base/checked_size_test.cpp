#include "base/checked_size.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace ioattn {
namespace {

constexpr index_t most = std::numeric_limits<index_t>::max();
constexpr index_t least = std::numeric_limits<index_t>::min();

TEST(CheckedSize, ComputesWhatFits) {
  EXPECT_EQ((CheckedSize(6) * 7).value(), 42);
  EXPECT_EQ((CheckedSize(6) + 7).value(), 13);
  EXPECT_EQ((CheckedSize(most) * 1 + 0).value(), most);
  EXPECT_EQ((CheckedSize(most - 1) + 1).value(), most);
  EXPECT_EQ((CheckedSize(least) + most).value(), -1);
  for (const CheckedSize& size : {CheckedSize(0), CheckedSize(most), CheckedSize(most - 1) + 1,
                                  CheckedSize(most / 7) * 7, CheckedSize(most) * 0})
    EXPECT_FALSE(size.overflow());
}

TEST(CheckedSize, NoticesWhatDoesNot) {
  EXPECT_TRUE((CheckedSize(most) + 1).overflow());
  EXPECT_TRUE((CheckedSize(least) + -1).overflow());
  EXPECT_TRUE((CheckedSize(most / 2 + 1) * 2).overflow());
  EXPECT_TRUE((CheckedSize(least) * -1).overflow());
  EXPECT_TRUE((CheckedSize(index_t(1) << 32) * (index_t(1) << 31)).overflow());
  EXPECT_FALSE((CheckedSize(index_t(1) << 31) * (index_t(1) << 31)).overflow());
}

TEST(CheckedSize, NeverForgets) {
  const CheckedSize lost = CheckedSize(most) + 1;
  for (const CheckedSize& size : {lost * 0, CheckedSize(0) * lost, lost + -5, CheckedSize(1) + lost,
                                  lost * lost, lost + lost})
    EXPECT_TRUE(size.overflow());
}

TEST(CheckedSize, RoundsToMultiples) {
  EXPECT_EQ(round_up(CheckedSize(0), 128).value(), 0);
  EXPECT_EQ(round_up(CheckedSize(128), 128).value(), 128);
  EXPECT_EQ(round_up(CheckedSize(129), 128).value(), 256);
  EXPECT_FALSE(round_up(CheckedSize(most - 127), 128).overflow());
  EXPECT_TRUE(round_up(CheckedSize(most - 126), 128).overflow());
  EXPECT_TRUE(round_up(CheckedSize(most) + 1, 128).overflow());
}

TEST(CheckedSize, AgreesWithWiderArithmetic) {
  std::mt19937_64 engine(11);
  int overflows = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto draw = [&] { return static_cast<index_t>(engine()) >> (engine() % 63); };
    const index_t a = draw(), b = draw();
    __extension__ using wide_t = __int128;
    const wide_t product = wide_t(a) * b, sum = wide_t(a) + b;
    const bool product_fits = product >= least && product <= most;
    const bool sum_fits = sum >= least && sum <= most;
    ASSERT_EQ((CheckedSize(a) * b).overflow(), !product_fits) << a << " * " << b;
    ASSERT_EQ((CheckedSize(a) + b).overflow(), !sum_fits) << a << " + " << b;
    if (product_fits) {
      ASSERT_EQ((CheckedSize(a) * b).value(), index_t(product));
    }
    if (sum_fits) {
      ASSERT_EQ((CheckedSize(a) + b).value(), index_t(sum));
    }
    overflows += !product_fits;
  }
  EXPECT_GT(overflows, 1000);
  EXPECT_LT(overflows, 19000);
}

TEST(Types, RoundToMultiples) {
  for (index_t b = 1; b <= 9; ++b) {
    for (index_t a = 0; a <= 40; ++a) {
      index_t up = 0;
      while (up * b < a) ++up;
      EXPECT_EQ(ceil_div(a, b), up);
      EXPECT_EQ(round_up(a, b), up * b);
      EXPECT_EQ(round_down(a, b), a - a % b);
    }
  }
}

}  // namespace
}  // namespace ioattn
