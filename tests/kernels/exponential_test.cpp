// exp, as the score tiles use it, against the correctly rounded value in units of its last place.

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/exponential_arguments.hpp"

namespace ioattn_test {
namespace {

class ExponentialTest : public KernelTest {};

template <class T>
T exponential(const KernelTable<T>& table, T x) {
  return exponentials(table, std::vector<T>{x}).front();
}

template <class T>
void check_errors(const std::vector<T>& x, const std::vector<T>& y) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = error_in_ulp(x[i], y[i]);
    ASSERT_LE(error, 2) << x[i];
    worst = std::max(worst, error);
  }
  EXPECT_GT(worst, 0.4);  // a correctly rounded result errs by up to 1/2: else nothing was measured
}

template <class T>
void check_accuracy(const KernelTable<T>& table) {
  const std::vector<T> x = arguments<T>(400000, T(0));
  check_errors(x, exponentials(table, x));
}

TEST_P(ExponentialTest, ErrsByTwoUlpAtMost) {
  check_accuracy(table<float>());
  check_accuracy(table<double>());
}

template <class T>
void check_weights(const KernelTable<T>& table) {
  const std::vector<T> x = arguments<T>(400000, highest<T>);
  check_errors(x, softmax_weights(table, x));
  constexpr T infinity = std::numeric_limits<T>::infinity();
  EXPECT_TRUE(same_bits(softmax_weights(table, std::vector<T>{0}).front(), T(1)));
  for (const T below : {least<T>, least<T> - 1, T(-1e30), -infinity})
    EXPECT_TRUE(same_bits(softmax_weights(table, std::vector<T>{below}).front(), T(0))) << below;
}

TEST_P(ExponentialTest, SoftmaxWeightsErrByTwoUlpAtMost) {
  check_weights(table<float>());
  check_weights(table<double>());
}

template <class T>
void check_limits(const KernelTable<T>& table) {
  const T infinity = std::numeric_limits<T>::infinity();
  const T zero = 0;
  EXPECT_TRUE(same_bits(exponential(table, zero), T(1)));
  EXPECT_TRUE(same_bits(exponential(table, -zero), T(1)));
  EXPECT_TRUE(same_bits(exponential(table, -infinity), zero));
  for (const T below : {least<T>, std::nextafter(least<T>, -infinity), least<T> * 2, T(-1e30),
                        std::numeric_limits<T>::lowest()})
    EXPECT_TRUE(same_bits(exponential(table, below), zero)) << below;
  EXPECT_GT(exponential(table, lowest<T>), std::numeric_limits<T>::min());
  for (T x = least<T>; x < lowest<T>; x += T(0.01)) {
    EXPECT_GE(exponential(table, x), zero) << x;
    EXPECT_LE(exponential(table, x), exponential(table, lowest<T>)) << x;
  }
  // Weights are at most 1, however LSE was rounded.
  for (const T above : {std::numeric_limits<T>::denorm_min(), T(1e-3), T(1), T(1e30), infinity})
    EXPECT_TRUE(same_bits(exponential(table, above), T(1))) << above;
}

TEST_P(ExponentialTest, MeetsItsLimits) {
  check_limits(table<float>());
  check_limits(table<double>());
}

// Whatever the sign and the payload, in which other programs store their missing values.
template <class T, class Bits>
void check_nan(const KernelTable<T>& table) {
  constexpr int mantissa = std::numeric_limits<T>::digits - 1;
  const Bits infinity_bits = ~Bits(0) << mantissa & ~(Bits(1) << (sizeof(T) * 8 - 1));
  std::vector<T> nans;
  for (const bool negative : {false, true}) {
    for (Bits payload = 1; payload >> mantissa == 0; payload = payload * 2 + payload % 3) {
      const Bits bits = infinity_bits | payload | Bits(negative) << (sizeof(T) * 8 - 1);
      T nan;
      std::memcpy(&nan, &bits, sizeof nan);
      ASSERT_TRUE(std::isnan(nan));
      nans.push_back(nan);
    }
  }
  for (const T result : exponentials(table, nans)) EXPECT_TRUE(std::isnan(result)) << result;
}

TEST_P(ExponentialTest, KeepsEveryNan) {
  check_nan<float, std::uint32_t>(table<float>());
  check_nan<double, std::uint64_t>(table<double>());
}

// exp(scale x - row) of a product, one x a row; of so many terms others are 0.
template <class T>
std::vector<T> shifted_exponentials(const KernelTable<T>& table, const std::vector<T>& x, T scale,
                                    const std::vector<T>& row, index_t depth) {
  const std::size_t rows = x.size(), width = static_cast<std::size_t>(depth);
  const std::size_t nr = static_cast<std::size_t>(table.tile.cols);
  std::vector<T> a(rows * width, T(0)), b(2 * width * nr, T(1)), c(rows * 2 * nr), y(rows);
  for (std::size_t i = 0; i < rows; ++i) a[i * width] = x[i];
  ioattn::kernels::Product<T> p;
  p.rows = static_cast<index_t>(rows);
  p.cols = 2 * table.tile.cols;
  p.depth = depth;
  p.a = {a.data(), depth, 1};
  p.b = {b.data(), depth * table.tile.cols, table.tile.cols};
  p.c = {c.data(), table.tile.cols, 2 * table.tile.cols};
  p.epilogue = ioattn::kernels::Epilogue::exp;
  p.row = row.data();
  p.scale = scale;
  table.product(p);
  for (std::size_t i = 0; i < rows; ++i) y[i] = c[i * 2 * nr + i % (2 * nr)];
  return y;
}

// As ErrsByTwoUlpAtMost where the exponent, scale x - row, is a number without rounding.
template <class T>
void check_of_scores(const KernelTable<T>& table) {
  std::mt19937_64 engine(6);
  std::uniform_real_distribution<T> uniform(lowest<T>, 0);
  for (const index_t depth : {1, 64, 300}) {
    std::vector<T> x, row;
    while (x.size() < 20000) {  // no rounding before exp
      const T sixteenths = std::round(uniform(engine) * 16) / 16;
      const T shift = std::round(uniform(engine) * 1000);
      row.push_back(x.size() % 2 == 0 ? shift : T(0));
      x.push_back(x.size() % 2 == 0 ? 8 * (shift + sixteenths) : 8 * uniform(engine));
    }
    const std::vector<T> y = shifted_exponentials(table, x, T(0.125), row, depth);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const T exponent = x[i] / 8 - row[i];
      const double error = error_in_ulp(exponent, y[i]);
      ASSERT_LE(error, 2) << x[i] << " / 8 - " << row[i] << ", depth " << depth;
      worst = std::max(worst, error);
    }
    EXPECT_GT(worst, 0.4);
  }
}

TEST_P(ExponentialTest, OfScoresErrsByTwoUlpAtMost) {
  check_of_scores(table<float>());
  check_of_scores(table<double>());
}

template <class T>
void check_limits_of_scores(const KernelTable<T>& table) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (const index_t depth : {1, 64}) {
    const auto one = [&](T x, T scale, T row) {
      return shifted_exponentials(table, std::vector<T>(9, x), scale, std::vector<T>(9, row), depth)
          .back();
    };
    for (const T scale : {T(1), T(0.3), T(3), std::numeric_limits<T>::max()}) {
      for (const T row : {T(-1e4), T(0), T(1e4)})
        EXPECT_TRUE(same_bits(one(-infinity, scale, row), T(0))) << row;
      EXPECT_TRUE(same_bits(one(T(0), scale, infinity), T(0)));
      EXPECT_TRUE(same_bits(one(T(0), scale, -least<T>), T(0)));
      EXPECT_LE(one(T(0), scale, -least<T> - T(0.1)), std::numeric_limits<T>::min());
      EXPECT_TRUE(same_bits(one(T(0), scale, T(0)), T(1)));
      for (const T large : {one(T(1e30), scale, T(1)), one(T(0), scale, -infinity)})
        EXPECT_TRUE(same_bits(large, T(1)));
      EXPECT_TRUE(std::isnan(one(nan, scale, T(1))));
      EXPECT_TRUE(std::isnan(one(T(1), scale, nan)));
    }
    EXPECT_TRUE(std::isnan(one(T(1), nan, T(1))));
  }
}

TEST_P(ExponentialTest, OfScoresMeetsItsLimits) {
  check_limits_of_scores(table<float>());
  check_limits_of_scores(table<double>());
}

IOATTN_FOR_EACH_IMPLEMENTATION(ExponentialTest);

}  // namespace
}  // namespace ioattn_test
