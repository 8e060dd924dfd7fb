// exp on every float and on millions of doubles: too long for the first tier.

#include <algorithm>
#include <cstdint>
#include <iostream>

#include "kernels/exponential_arguments.hpp"

namespace ioattn_test {
namespace {

class ExponentialSweep : public KernelTest {};

std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Units in the last place of a float in [exact, 2 exact) per 1; exact is neither subnormal nor
// large. From the bits of its exponent, as ldexp would take most of the time of a sweep.
double ulps_per_one(double exact) {
  std::uint64_t bits;
  std::memcpy(&bits, &exact, sizeof bits);
  bits = (2 * 1023 + std::numeric_limits<float>::digits - 1 - (bits >> 52)) << 52;
  std::memcpy(&exact, &bits, sizeof exact);
  return exact;
}

// Calls act(x, y) for every step-th float whose bits are in [first, last], with y = exp(x).
template <class Act>
void for_floats(const KernelTable<float>& table, std::uint32_t first, std::uint32_t last,
                std::uint32_t step, const Act& act) {
  constexpr std::size_t batch = 1 << 13;
  const std::vector<float> zeros(batch, 0.0f);
  std::vector<float> x(batch), y(batch);
  for (std::uint64_t bits = first; bits <= last;) {
    std::size_t count = 0;
    for (; count < batch && bits <= last; bits += step)
      x[count++] = float_of(static_cast<std::uint32_t>(bits));
    std::copy_n(x.begin(), count, y.begin());
    const index_t queries = static_cast<index_t>(count);
    table.exp_tile({y.data(), queries, 1, queries}, zeros.data());
    act(x.data(), y.data(), count);
  }
}

struct Sweep {
  double worst = 0;
  float at = 0;
  std::uint64_t checked = 0;
};

// Both signs, from 0 to where the result is 0 and to where it is no longer that of x.
Sweep sweep_range(const KernelTable<float>& table, std::uint32_t step) {
  Sweep sweep;
  for (const float end : {highest<float>, lowest<float>}) {
    const std::uint32_t zero = bits_of(end > 0 ? 0.0f : -0.0f);
    for_floats(
        table, zero, bits_of(end), step, [&](const float* x, const float* y, std::size_t count) {
          for (std::size_t i = 0; i < count; ++i) {
            // exp in double errs by 1e-8 ulp of a float: no need of long double here.
            const double exact = std::exp(static_cast<double>(x[i]));
            const double error = std::abs(static_cast<double>(y[i]) - exact) * ulps_per_one(exact);
            if (error <= sweep.worst) continue;
            sweep.worst = std::isnan(error) ? HUGE_VAL : error;
            sweep.at = x[i];
          }
          sweep.checked += count;
        });
  }
  return sweep;
}

void expect_two_ulp(const Sweep& sweep) {
  EXPECT_LE(sweep.worst, 2) << sweep.at;
  EXPECT_GT(sweep.worst, 0.4);  // a correctly rounded result errs by up to 1/2
  std::cout << sweep.checked << " floats, at most " << sweep.worst << " ulp\n";
}

TEST_P(ExponentialSweep, EveryThirteenthFloat) {
  const Sweep sweep = sweep_range(table<float>(), 13);
  expect_two_ulp(sweep);
  EXPECT_GT(sweep.checked, 160'000'000u);
}

// Of powers of 2, from 0 to where the result is no normal number.
Sweep sweep_powers_of_2(const KernelTable<float>& table, std::uint32_t step) {
  constexpr std::size_t batch = 1 << 13;
  const std::uint32_t last = bits_of(lowest_of_2<float>);
  Sweep sweep;
  for (std::uint64_t bits = bits_of(-0.0f); bits <= last;) {
    std::vector<float> x;
    for (; x.size() < batch && bits <= last; bits += step)
      x.push_back(float_of(static_cast<std::uint32_t>(bits)));
    const std::vector<float> y = powers_of_2(table, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp2(static_cast<double>(x[i]));
      const double error = std::abs(static_cast<double>(y[i]) - exact) * ulps_per_one(exact);
      if (error <= sweep.worst) continue;
      sweep.worst = std::isnan(error) ? HUGE_VAL : error;
      sweep.at = x[i];
    }
    sweep.checked += x.size();
  }
  return sweep;
}

TEST_P(ExponentialSweep, EveryThirteenthPowerOf2) {
  const Sweep sweep = sweep_powers_of_2(table<float>(), 13);
  expect_two_ulp(sweep);
  EXPECT_GT(sweep.checked, 80'000'000u);
}

TEST_P(ExponentialSweep, PowersOf2OfEveryFloat) {
  const Sweep sweep = sweep_powers_of_2(table<float>(), 1);
  expect_two_ulp(sweep);
  EXPECT_GT(sweep.checked, 1'000'000'000u);
}

TEST_P(ExponentialSweep, EveryFloat) {
  const KernelTable<float>& f32 = table<float>();
  Sweep sweep = sweep_range(f32, 1);
  expect_two_ulp(sweep);

  // Beyond: 0 below, the largest result above, NaN for every NaN.
  const float infinity = std::numeric_limits<float>::infinity();
  const std::uint32_t largest = bits_of(exponentials(f32, std::vector<float>{highest<float>})[0]);
  const auto count_others = [&](std::uint32_t first, std::uint32_t last, const auto& is_expected) {
    std::uint64_t others = 0;
    for_floats(f32, first, last, 1, [&](const float*, const float* y, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) others += is_expected(y[i]) ? 0u : 1u;
      sweep.checked += count;
    });
    return others;
  };
  EXPECT_EQ(count_others(bits_of(lowest<float>) + 1, bits_of(-infinity),
                         [](float y) { return bits_of(y) == 0; }),
            0u);
  EXPECT_EQ(count_others(bits_of(highest<float>) + 1, bits_of(infinity),
                         [&](float y) { return bits_of(y) == largest; }),
            0u);
  for (const float sign : {1.0f, -1.0f}) {
    const std::uint32_t first = bits_of(sign * infinity) + 1;
    EXPECT_EQ(count_others(first, first + 0x7ffffe, [](float y) { return std::isnan(y); }), 0u);
  }
  EXPECT_EQ(sweep.checked, std::uint64_t(1) << 32);
}

// Against the 64 bits of long double's mantissa, or its 113.
TEST_P(ExponentialSweep, TenMillionDoubles) {
  constexpr int batches = 40;
  double worst = 0, at = 0;
  std::size_t checked = 0;
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    const std::vector<double> x = arguments<double>(270'000, 100 + batch);
    const std::vector<double> y = exponentials(table<double>(), x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = error_in_ulp(x[i], y[i]);
      if (error <= worst) continue;
      worst = std::isnan(error) ? HUGE_VAL : error;
      at = x[i];
    }
    checked += x.size();
  }
  EXPECT_LE(worst, 2) << at;
  EXPECT_GT(worst, 0.4);
  EXPECT_GE(checked, 10'000'000u);
  std::cout << checked << " doubles, at most " << worst << " ulp\n";
}

IOATTN_FOR_EACH_IMPLEMENTATION(ExponentialSweep);

}  // namespace
}  // namespace ioattn_test
