// exp on every float and on millions of doubles: too long for the first tier.

#include <cstdint>
#include <cstring>
#include <iostream>

#include "kernels/exponential_arguments.hpp"

namespace ioattn_test {
namespace {

class ExponentialSweep : public KernelTest {};
class ExponentialSweepBesideTiles : public KernelTest {};

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

// Calls act(x, y) for every step-th float whose bits are in [first, last], with y = compute(x).
template <class Compute, class Act>
void for_floats(const Compute& compute, std::uint32_t first, std::uint32_t last, std::uint32_t step,
                const Act& act) {
  constexpr std::size_t batch = 1 << 13;
  for (std::uint64_t bits = first; bits <= last;) {
    std::vector<float> x;
    for (; x.size() < batch && bits <= last; bits += step)
      x.push_back(float_of(static_cast<std::uint32_t>(bits)));
    act(x, compute(x));
  }
}

struct Sweep {
  double worst = 0;  // in ulp
  float at = 0;
  std::uint64_t checked = 0;

  // From 0 to `last`.
  template <class Compute>
  void add(const Compute& compute, float last, std::uint32_t step) {
    const auto check = [&](const std::vector<float>& xs, const std::vector<float>& ys) {
      for (std::size_t i = 0; i < xs.size(); ++i) {
        // exp in double errs by 1e-8 ulp of a float: no need of long double here.
        const double x = xs[i], exact = std::exp(x);
        const double error = std::abs(static_cast<double>(ys[i]) - exact) * ulps_per_one(exact);
        if (error <= worst) continue;
        worst = std::isnan(error) ? HUGE_VAL : error;
        at = xs[i];
      }
      checked += xs.size();
    };
    for_floats(compute, bits_of(last > 0 ? 0.0f : -0.0f), bits_of(last), step, check);
  }
};

void expect_two_ulp(const Sweep& sweep) {
  EXPECT_LE(sweep.worst, 2) << sweep.at;
  EXPECT_GT(sweep.worst, 0.4);  // a correctly rounded result errs by up to 1/2
  std::cout << sweep.checked << " floats, at most " << sweep.worst << " ulp\n";
}

auto exp_of(const KernelTable<float>& table) {
  return [&table](const std::vector<float>& x) { return exponentials(table, x); };
}
auto weights_of(const KernelTable<float>& table) {
  return [&table](const std::vector<float>& x) { return softmax_weights(table, x); };
}

Sweep sweep_weights(const KernelTable<float>& table, std::uint32_t step) {
  Sweep sweep;
  for (const float last : {lowest<float>, highest<float>}) sweep.add(weights_of(table), last, step);
  return sweep;
}

TEST_P(ExponentialSweep, EveryThirteenthFloat) {
  Sweep sweep;
  sweep.add(exp_of(table<float>()), lowest<float>, 13);
  expect_two_ulp(sweep);
  EXPECT_GT(sweep.checked, 80'000'000u);
}

TEST_P(ExponentialSweep, SoftmaxWeightOfEveryThirteenthFloat) {
  const Sweep sweep = sweep_weights(table<float>(), 13);
  expect_two_ulp(sweep);
  EXPECT_GT(sweep.checked, 160'000'000u);
}

// Scores of one term, of keys of whole tiles and of others, to one of a panel of queries.
TEST_P(ExponentialSweepBesideTiles, EveryThirteenthFloat) {
  const KernelTable<float>& kernels = table<float>();
  if (kernels.weights == nullptr) GTEST_SKIP() << "no such kernel";
  const index_t lanes = kernels.tile.cols;
  const std::vector<float> ones(std::size_t(lanes), 1.0f), maxima(ones.size(), 0.0f);
  std::vector<float> weights;
  const auto beside_tiles = [&](const std::vector<float>& scores) {
    std::vector<float> sums(ones.size(), 0.0f);
    const index_t keys = static_cast<index_t>(scores.size());
    weights.resize(scores.size() * ones.size());
    ioattn::kernels::Product<float> product;
    product.rows = keys;
    product.cols = product.depth = 1;
    product.a = {scores.data(), 1, 1};
    product.b = {ones.data(), lanes, lanes};
    product.c = {weights.data(), lanes, lanes};
    product.padded = true;
    EXPECT_TRUE(kernels.weights(product, maxima.data(), sums.data()));
    std::vector<float> of_query(scores.size());
    for (std::size_t j = 0; j < scores.size(); ++j) of_query[j] = weights[j * ones.size()];
    return of_query;
  };
  std::uint64_t others = 0, checked = 0;
  for (const float last : {least<float>, highest<float>}) {
    for_floats(beside_tiles, bits_of(last > 0 ? 0.0f : -0.0f), bits_of(last), 13,
               [&](const std::vector<float>& scores, const std::vector<float>& made) {
                 const std::vector<float> expected = softmax_weights(kernels, scores);
                 for (std::size_t j = 0; j < made.size(); ++j)
                   others += bits_of(made[j]) == bits_of(expected[j]) ? 0u : 1u;
                 checked += made.size();
               });
  }
  EXPECT_EQ(others, 0u);
  EXPECT_GT(checked, 160'000'000u);
}

TEST_P(ExponentialSweep, SoftmaxWeightOfEveryFloat) {
  const Sweep sweep = sweep_weights(table<float>(), 1);
  expect_two_ulp(sweep);
  EXPECT_GT(sweep.checked, 2'000'000'000u);
}

TEST_P(ExponentialSweep, EveryFloat) {
  const auto exp = exp_of(table<float>());
  Sweep sweep;
  sweep.add(exp, lowest<float>, 1);
  expect_two_ulp(sweep);

  // Beyond: little and then 0 below, 1 above, NaN for every NaN.
  const float infinity = std::numeric_limits<float>::infinity();
  const auto count_others = [&](std::uint32_t first, std::uint32_t last, const auto& is_expected) {
    std::uint64_t others = 0;
    for_floats(exp, first, last, 1, [&](const std::vector<float>& x, const std::vector<float>& y) {
      for (const float result : y) others += is_expected(result) ? 0u : 1u;
      sweep.checked += x.size();
    });
    return others;
  };
  const std::uint32_t zero = bits_of(0.0f), last_zero = bits_of(least<float>);
  EXPECT_EQ(count_others(bits_of(lowest<float>) + 1, last_zero - 1,
                         [](float y) { return y >= 0 && y < 1.23e-38f; }),
            0u);
  EXPECT_EQ(
      count_others(last_zero, bits_of(-infinity), [&](float y) { return bits_of(y) == zero; }), 0u);
  EXPECT_EQ(count_others(zero, bits_of(infinity), [](float y) { return y == 1; }), 0u);
  for (const float sign : {1.0f, -1.0f}) {
    const std::uint32_t first = bits_of(sign * infinity) + 1;
    EXPECT_EQ(count_others(first, first + 0x7ffffe, [](float y) { return std::isnan(y); }), 0u);
  }
  EXPECT_EQ(sweep.checked, std::uint64_t(1) << 32);
}

// Against the 64 bits of long double's mantissa, or its 113.
template <class Compute>
void check_ten_million_doubles(const Compute& compute, double last) {
  constexpr int batches = 40;
  double worst = 0, at = 0;
  std::size_t checked = 0;
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    const std::vector<double> x = arguments<double>(270'000, last, 100 + batch);
    const std::vector<double> y = compute(x);
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

TEST_P(ExponentialSweep, TenMillionDoubles) {
  const auto exp = [&](const std::vector<double>& x) { return exponentials(table<double>(), x); };
  check_ten_million_doubles(exp, 0.0);
}

TEST_P(ExponentialSweep, SoftmaxWeightsOfTenMillionDoubles) {
  const auto exp = [&](const std::vector<double>& x) {
    return softmax_weights(table<double>(), x);
  };
  check_ten_million_doubles(exp, highest<double>);
}

IOATTN_FOR_EACH_IMPLEMENTATION(ExponentialSweep);
IOATTN_FOR_EACH_VARIANT(ExponentialSweepBesideTiles);

}  // namespace
}  // namespace ioattn_test
