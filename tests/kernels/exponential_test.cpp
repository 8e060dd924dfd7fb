// exp, as the score tiles use it, against the correctly rounded value in units of its last place.

#include <cmath>
#include <limits>
#include <random>

#include "kernels/implementations.hpp"

namespace ioattn_test {
namespace {

using ioattn::kernels::KernelTable;

class ExponentialTest : public KernelTest {};

// Arguments from which on the result is 0, and up to which it is exact (generic/exponential.hpp).
template <class T>
constexpr T lowest = sizeof(T) == 4 ? T(-86.9) : T(-707);
template <class T>
constexpr T highest = sizeof(T) == 4 ? T(88) : T(709);

template <class T>
std::vector<T> exponential(const KernelTable<T>& table, std::vector<T> x) {
  const std::vector<T> zeros(x.size(), T(0));
  const index_t count = static_cast<index_t>(x.size());
  table.exp_tile({x.data(), count, 1, count}, zeros.data());
  return x;
}

template <class T>
T exponential(const KernelTable<T>& table, T x) {
  return exponential(table, std::vector<T>{x}).front();
}

// Distance from the exact value in units of the last place of the type.
template <class T>
double error_in_ulp(T x, T result) {
  const long double exact = std::exp(static_cast<long double>(x));
  int exponent;
  std::frexp(exact, &exponent);
  const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<long double>(result) - exact) / ulp);
}

template <class T>
double worst_error(const KernelTable<T>& table, const std::vector<T>& x) {
  const std::vector<T> y = exponential(table, x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = error_in_ulp(x[i], y[i]);
    if (!(error <= worst)) worst = error;  // NaN is worst
    if (std::isnan(error)) return error;
  }
  return worst;
}

// Uniform in the range, uniform in the logarithm, both sides of every rounding of x / ln 2, limits.
template <class T>
std::vector<T> arguments(std::size_t count) {
  std::mt19937_64 engine(3);
  std::vector<T> x = {lowest<T>,
                      highest<T>,
                      std::nextafter(lowest<T>, T(0)),
                      std::nextafter(highest<T>, T(0)),
                      std::numeric_limits<T>::min(),
                      std::numeric_limits<T>::denorm_min(),
                      std::numeric_limits<T>::epsilon()};
  for (int half = -2050; half <= 2050; ++half) {
    const T middle = static_cast<T>(half * 0.5 * 0.69314718055994530942);
    for (const T near : {std::nextafter(middle, T(-2000)), middle, std::nextafter(middle, T(2000))})
      if (near >= lowest<T> && near <= highest<T>) x.push_back(near);
  }
  std::uniform_real_distribution<T> uniform(lowest<T>, highest<T>);
  std::uniform_real_distribution<T> logarithm(-40, 0);
  while (x.size() < count) {
    x.push_back(uniform(engine));
    const T small = std::exp(logarithm(engine));
    x.push_back(highest<T> * small);
    x.push_back(lowest<T> * small);
  }
  return x;
}

template <class T>
void check_accuracy(const KernelTable<T>& table) {
  const double worst = worst_error(table, arguments<T>(300000));
  EXPECT_LE(worst, 2);
  EXPECT_GT(worst, 0.4);  // a correctly rounded result errs by up to 1/2: else nothing was measured
}

TEST_P(ExponentialTest, ErrsByTwoUlpAtMost) {
  check_accuracy(table<float>());
  check_accuracy(table<double>());
}

template <class T>
void check_limits(const KernelTable<T>& table) {
  const T infinity = std::numeric_limits<T>::infinity();
  const T zero = 0;
  EXPECT_TRUE(same_bits(exponential(table, zero), T(1)));
  EXPECT_TRUE(same_bits(exponential(table, -zero), T(1)));
  EXPECT_TRUE(same_bits(exponential(table, -infinity), zero));
  for (const T below : {std::nextafter(lowest<T>, -infinity), lowest<T> - 1, lowest<T> * 2,
                        T(-1e30), std::numeric_limits<T>::lowest()})
    EXPECT_TRUE(same_bits(exponential(table, below), zero)) << below;
  EXPECT_GT(exponential(table, lowest<T>), std::numeric_limits<T>::min());  // no subnormal result
  // Never reached by softmax, whose arguments are at most 0: the largest result, not garbage.
  for (const T above : {highest<T> + 1, T(1e30), infinity})
    EXPECT_TRUE(same_bits(exponential(table, above), exponential(table, highest<T>))) << above;
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
  for (const T result : exponential(table, nans)) EXPECT_TRUE(std::isnan(result)) << result;
}

TEST_P(ExponentialTest, KeepsEveryNan) {
  check_nan<float, std::uint32_t>(table<float>());
  check_nan<double, std::uint64_t>(table<double>());
}

// Every 13th float of the whole range: about 170 million.
TEST_P(ExponentialTest, ErrsByTwoUlpAtMostForEveryFloat13th) {
  constexpr std::uint32_t step = 13, batch = 1 << 16;
  double worst = 0;
  std::size_t checked = 0;
  for (const float end : {highest<float>, lowest<float>}) {
    std::uint32_t bits, last;
    const float start = end > 0 ? 0.0f : -0.0f;
    std::memcpy(&bits, &start, sizeof bits);
    std::memcpy(&last, &end, sizeof last);
    while (bits <= last) {
      std::vector<float> x;
      for (; x.size() < batch && bits <= last; bits += step) {
        float value;
        std::memcpy(&value, &bits, sizeof value);
        x.push_back(value);
      }
      checked += x.size();
      const std::vector<float> y = exponential(table<float>(), x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        // exp in double errs by 1e-8 ulp of a float: no need of long double here.
        const double exact = std::exp(static_cast<double>(x[i]));
        int exponent;
        std::frexp(exact, &exponent);
        const double error = std::abs(static_cast<double>(y[i]) - exact) *
                             std::ldexp(1.0, std::numeric_limits<float>::digits - exponent);
        if (!(error <= worst)) worst = error;
        ASSERT_LE(error, 2) << x[i];
      }
    }
  }
  EXPECT_GT(checked, 160'000'000u);
  EXPECT_GT(worst, 0.4);
}

IOATTN_FOR_EACH_IMPLEMENTATION(ExponentialTest);

}  // namespace
}  // namespace ioattn_test
