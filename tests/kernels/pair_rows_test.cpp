// The online softmax of rows of scores by pairs, and weights straight from the tiles or registers
// that scores are made in: the same bits.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/half.hpp"
#include "kernels/pair_implementations.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using kernels::bf16x2;
using Pairs = kernels::Product<float, bf16x2>;

class PairRowsTest : public PairImplementationTest {
 protected:
  PairRowsTest() : PairImplementationTest(5) {}
  float normal(float deviation) { return std::normal_distribution<float>(0, deviation)(random_); }
  bf16x2 random_pair(float deviation) {
    const auto half = [&] { return std::uint32_t{from_float<bf16>(normal(deviation)).bits}; };
    return {half() | half() << 16};
  }
};
class PairWeightsTest : public PairRowsTest {};

constexpr std::uint32_t untouched = 7;

float weight_of(const std::vector<bf16x2>& weights, index_t stride, index_t i, index_t j) {
  const std::uint32_t pair = weights[std::size_t(i * stride + j / 2)].bits;
  return to_float(bf16{std::uint16_t(j % 2 == 0 ? pair : pair >> 16)});
}

// Against doubles, relative to the maxima that it reports. Row 0 sees -inf alone.
TEST_P(PairRowsTest, SoftmaxOfRowsScalesAndRounds) {
  int kept = 0, grown = 0;
  for (int trial = 0; trial < 200 && !HasFailure(); ++trial) {
    const index_t keys = uniform(1, trial % 20 == 0 ? 600 : 90), queries = uniform(1, 40);
    const index_t stride = keys + uniform(0, 3), dst_stride = ceil_div(keys, 2) + uniform(0, 3);
    const float scale = 0.3f, margin = trial % 4 == 1 ? 16.f : 0.f;
    std::vector<float> tile(std::size_t(queries * stride));
    std::vector<float> row_max(std::size_t(queries), -INFINITY), row_sum(row_max.size(), 0.f),
        rescale(row_max.size(), 7.f);
    std::vector<bf16x2> weights(std::size_t(queries * dst_stride));
    std::vector<double> exact_sum(row_max.size(), 0.);
    for (int part = 0; part < 3; ++part) {
      const float level = trial % 3 == 0 ? 60.f * float(part) : 0.f;
      for (float& x : tile) x = normal(5) + level;
      for (index_t j = 0; j < keys; ++j) tile[std::size_t(j)] = -INFINITY;
      for (bf16x2& pair : weights) pair = {untouched};
      const std::vector<float> before = row_max;
      pairs().softmax_rows({tile.data(), stride, keys, queries}, scale, row_max.data(),
                           row_sum.data(), rescale.data(), weights.data(), dst_stride, margin);
      for (index_t i = 0; i < queries; ++i) {
        const auto at = std::size_t(i);
        const auto score = [&](index_t j) {
          return double(scale) * double(tile[std::size_t(i * stride + j)]);
        };
        double largest = -HUGE_VAL;
        for (index_t j = 0; j < keys; ++j) largest = std::max(largest, score(j));
        if (largest > double(before[at]) + std::log(256.) + 1e-4) {
          const double refers_to = largest + double(margin);
          ASSERT_NEAR(double(row_max[at]), refers_to, 1e-6 * std::fabs(largest) + 1e-6 * margin);
          ++grown;
        } else if (largest < double(before[at]) + std::log(256.) - 1e-4) {
          ASSERT_EQ(row_max[at], before[at]);
          ++kept;
        }
        const double shift = std::isinf(row_max[at]) ? 0 : double(row_max[at]);
        const double factor = std::exp(double(before[at]) - shift);
        // Of exponents, too, which are as large as what a margin makes them refer to.
        const double rounding = margin == 0 ? 3e-6 : 2e-6 + 0x1p-23 * std::fabs(shift);
        ASSERT_NEAR(double(rescale[at]), factor, rounding * factor);
        if (i > 0 && row_max[at] == before[at]) {
          ASSERT_EQ(rescale[at], 1);
        }
        exact_sum[at] *= factor;
        for (index_t j = 0; j < keys; ++j) {
          const double expected = std::exp(score(j) - shift);
          const double out = double(weight_of(weights, dst_stride, i, j));
          ASSERT_NEAR(out, expected, 1.001 / 256 * expected + 1e-37) << i << " " << j;
          exact_sum[at] += expected;
        }
        if (keys % 2 != 0) {
          ASSERT_EQ(weight_of(weights, dst_stride, i, keys), 0);
        }
        for (index_t k = ceil_div(keys, 2); k < dst_stride; ++k)
          ASSERT_EQ(weights[std::size_t(i * dst_stride + k)].bits, untouched);
        ASSERT_NEAR(double(row_sum[at]), exact_sum[at], rounding * exact_sum[at]);
      }
      ASSERT_EQ(row_max[0], -INFINITY);
    }
    tile[0] = NAN;
    pairs().softmax_rows({tile.data(), stride, keys, queries}, scale, row_max.data(),
                         row_sum.data(), nullptr, weights.data(), dst_stride, 0);
    EXPECT_TRUE(std::isnan(row_sum[0]));
    if (queries > 1) {
      EXPECT_FALSE(std::isnan(row_sum[1]));
    }
  }
  EXPECT_GT(kept, 1000);
  EXPECT_GT(grown, 1000);
}

// One score of each other row is so much larger than all before, which is more than exponents of
// f32 can say from 89 on. Their rounding is one of the weights, unless they are as large as 2^12.
constexpr float rises[] = {7,   50,  88,  89,  100,  127,    128,  130,   177,   178,  200,
                           256, 300, 355, 360, 1000, 100000, 2e6f, 1e10f, 1e20f, 3e38f};

// An online softmax of 20 queries, whose scores are in rows or in columns.
struct Rising {
  static constexpr index_t keys = 70, queries = 20;
  bool in_rows;
  std::vector<float> scores = std::vector<float>(keys * queries);
  std::vector<float> max = std::vector<float>(queries, -INFINITY);
  std::vector<float> sum = std::vector<float>(queries, 0.f), rescale = sum;
  std::vector<bf16x2> weights = std::vector<bf16x2>(keys * queries);

  static index_t raised(index_t i) { return 7 * i % keys; }
  float& score(index_t i, index_t j) {
    return scores[std::size_t(in_rows ? i * keys + j : j * queries + i)];
  }
  std::uint32_t pair(index_t i, index_t k) const {
    return weights[std::size_t(in_rows ? i * keys + k : k * queries + i)].bits;
  }
  float weight(index_t i, index_t j) const {
    return to_float(bf16{std::uint16_t(j % 2 == 0 ? pair(i, j / 2) : pair(i, j / 2) >> 16)});
  }
  void update(const kernels::PairKernels& pairs) {
    if (in_rows) {
      pairs.softmax_rows({scores.data(), keys, keys, queries}, 1, max.data(), sum.data(),
                         rescale.data(), weights.data(), keys, 0);
    } else {
      pairs.softmax_update({scores.data(), queries, keys, queries}, 1, max.data(), sum.data(),
                           rescale.data(), weights.data(), queries);
    }
  }
};

TEST_P(PairRowsTest, NoRiseOfTheScoresIsTooSteep) {
  for (const float rise : rises) {
    for (const bool in_rows : {false, true}) {
      SCOPED_TRACE(testing::Message() << rise << " in rows " << in_rows);
      Rising softmax = {in_rows};
      for (float& x : softmax.scores) x = normal(1);
      softmax.update(pairs());
      Rising flat = softmax;
      const std::vector<float> before = softmax.max;
      for (index_t i = 0; i < Rising::queries; i += 2) softmax.score(i, Rising::raised(i)) = rise;
      softmax.update(pairs());
      flat.update(pairs());
      for (index_t i = 0; i < Rising::queries; ++i) {
        const auto at = std::size_t(i);
        if (i % 2 != 0) {  // of no concern
          ASSERT_EQ(softmax.max[at], flat.max[at]) << i;
          ASSERT_EQ(softmax.sum[at], flat.sum[at]) << i;
          for (index_t k = 0; k < Rising::keys / 2; ++k)
            ASSERT_EQ(softmax.pair(i, k), flat.pair(i, k)) << i;
        } else if (rise > 10) {
          ASSERT_EQ(softmax.max[at], rise) << i;
          ASSERT_EQ(softmax.weight(i, Rising::raised(i)), 1) << i;
          ASSERT_NEAR(softmax.sum[at], 1, rise < 0x1p12f ? 1.2e-7f * rise : 0) << i;
        }
        const double factor = std::exp(double(before[at]) - double(softmax.max[at]));
        ASSERT_NEAR(double(softmax.rescale[at]), factor, 1e-5 * factor + 1e-37) << i;
      }
    }
  }
}

// Denormal weights would be slow.
TEST_P(PairRowsTest, WeightsBelowTheLeastNormalAreZero) {
  for (const bool in_rows : {false, true}) {
    Rising softmax = {in_rows};
    std::fill(softmax.max.begin(), softmax.max.end(), 0.f);
    for (index_t i = 0; i < Rising::queries; ++i)
      for (index_t j = 0; j < Rising::keys; ++j) softmax.score(i, j) = -87.5f - float(j) / 4;
    softmax.update(pairs());
    for (const float sum : softmax.sum) EXPECT_EQ(sum, 0);
  }
}

// What softmax_rows makes of the product.
TEST_P(PairWeightsTest, AreThoseOfTheProduct) {
  ASSERT_NE(pairs().weights, nullptr);
  int made = 0, refused = 0;
  for (int trial = 0; trial < 60 && !HasFailure(); ++trial) {
    const index_t rows = uniform(1, 32), depth = uniform(1, 80);
    const index_t keys = trial % 2 == 0 ? uniform(1, 150) : nr() * uniform(1, 4);
    const index_t stride = round_up(keys, nr()), dst_stride = ceil_div(keys, 2) + 3;
    const index_t panels = ceil_div(keys, nr());
    std::vector<bf16x2> a(std::size_t(rows * depth)), b(std::size_t(panels * depth * nr()));
    for (bf16x2& pair : a) pair = random_pair(1);
    std::vector<float> tile(std::size_t(rows * stride));
    Pairs p = dense_product(rows, keys, depth, a.data(), b.data(), tile.data(), nr());
    p.padded = true;
    struct State {
      std::vector<float> max, sum;
      std::vector<bf16x2> weights;
    };
    State state = {std::vector<float>(std::size_t(rows), -INFINITY),
                   std::vector<float>(std::size_t(rows), 0.f),
                   std::vector<bf16x2>(std::size_t(rows * dst_stride), {untouched})};
    const float scale = 0.2f;
    for (int part = 0; part < 4; ++part) {
      const bool is_large = uniform(0, 3) == 0;
      for (bf16x2& pair : b) pair = random_pair(is_large ? 9 : 1);
      State straight = state;
      std::vector<float> rescale(std::size_t(rows), 7.f);
      pairs().product(p);
      pairs().softmax_rows({tile.data(), stride, keys, rows}, scale, state.max.data(),
                           state.sum.data(), rescale.data(), state.weights.data(), dst_stride, 0);
      const State before = straight;
      const std::vector<float> scores = tile;
      const bool done = pairs().weights(p, {scale, straight.max.data(), straight.sum.data(),
                                            straight.weights.data(), dst_stride});
      EXPECT_EQ(0, std::memcmp(scores.data(), tile.data(), tile.size() * sizeof(float)));
      EXPECT_EQ(before.max, straight.max);
      const bool grows = before.max != state.max;
      if (grows) {
        EXPECT_FALSE(done);
      }
      if (done) {
        ++made;
        EXPECT_EQ(state.sum, straight.sum);
        for (std::size_t k = 0; k < state.weights.size(); ++k)
          ASSERT_EQ(state.weights[k].bits, straight.weights[k].bits) << k;
      } else {
        refused += part > 0;
        EXPECT_EQ(before.sum, straight.sum);
        for (index_t i = 0; i < rows; ++i)
          for (index_t k = ceil_div(keys, 2); k < dst_stride; ++k)
            ASSERT_EQ(straight.weights[std::size_t(i * dst_stride + k)].bits, untouched);
      }
      if (part > 0 && !grows && !is_large && keys < 40) {
        EXPECT_TRUE(done);  // or it would be of no use
      }
    }
  }
  EXPECT_GT(made, 40);
  EXPECT_GT(refused, 10);
}

TEST_P(PairWeightsTest, RefuseWhatIsNoNumber) {
  const bf16x2 one = {0x3f803f80};
  const index_t depth = 32;
  for (const index_t rows : {1, 8}) {
    std::vector<bf16x2> a(std::size_t(rows * depth), one), b(std::size_t(depth * nr()), one),
        weights(std::size_t(rows * nr()));
    b[3] = {0x7fc03f80};
    std::vector<float> row_max(std::size_t(rows), 0.f), row_sum(row_max.size(), 1.f);
    const Pairs p = dense_product(rows, nr(), depth, a.data(), b.data(), nullptr, nr());
    const kernels::PairWeights out = {0.01f, row_max.data(), row_sum.data(), weights.data(), nr()};
    EXPECT_FALSE(pairs().weights(p, out));
    for (const float sum : row_sum) EXPECT_EQ(sum, 1);
    b[3] = one;
    EXPECT_TRUE(pairs().weights(p, out));
    for (const float sum : row_sum)
      EXPECT_NEAR(double(sum), 1 + double(nr()) * std::exp(0.64), 1e-3);
  }
}

TEST_P(PairWeightsTest, RefuseAnyRise) {
  const auto pair = [](float x) { return bf16x2{std::uint32_t{from_float<bf16>(x).bits}}; };
  for (const float rise : rises) {
    if (rise < 10) continue;
    SCOPED_TRACE(rise);
    for (index_t raised = 0; raised < 2 * nr(); raised += 5) {
      for (const index_t depth : {1, 40}) {  // all terms but the first are 0
        const index_t rows = depth == 1 ? 3 : 8;
        std::vector<bf16x2> a(std::size_t(rows * depth), pair(0)),
            b(std::size_t(2 * depth * nr()), pair(1)), weights(std::size_t(rows * nr()));
        a[std::size_t(depth)] = pair(1);
        b[std::size_t(raised / nr() * depth * nr() + raised % nr())] = pair(rise);
        std::vector<float> row_max(std::size_t(rows), 0.f), row_sum(row_max.size(), 1.f);
        const std::vector<float> before = row_sum;
        const Pairs p = dense_product(rows, 2 * nr(), depth, a.data(), b.data(), nullptr, nr());
        EXPECT_FALSE(pairs().weights(p, {1, row_max.data(), row_sum.data(), weights.data(), nr()}));
        EXPECT_EQ(row_sum, before);
      }
    }
  }
}

TEST_P(PairWeightsTest, OfTheLeastScoresAreZero) {
  for (const index_t rows : {1, 8}) {
    const index_t depth = 32, keys = 2 * nr();
    std::vector<bf16x2> a(std::size_t(rows * depth), bf16x2{0}), b(std::size_t(depth * keys)),
        weights(std::size_t(rows * keys), {untouched});
    for (index_t i = 0; i < rows; ++i) a[std::size_t(i * depth)] = {0x3f80};
    for (index_t j = 0; j < keys; ++j) {
      const bf16 score = from_float<bf16>(j == 0 ? -INFINITY : -80.f - 3.f * float(j));
      b[std::size_t(j / nr() * depth * nr() + j % nr())] = {score.bits};
    }
    std::vector<float> row_max(std::size_t(rows), 0.f), row_sum(row_max.size(), 0.f);
    const Pairs p = dense_product(rows, keys, depth, a.data(), b.data(), nullptr, nr());
    ASSERT_TRUE(pairs().weights(p, {1, row_max.data(), row_sum.data(), weights.data(), keys}));
    for (index_t i = 0; i < rows; ++i) {
      for (index_t j = 0; j < keys; ++j) {
        const double exact = j == 0 || j > 2 ? 0 : std::exp(-80 - 3 * double(j));
        EXPECT_NEAR(double(weight_of(weights, keys, i, j)), exact, exact / 256) << i << " " << j;
      }
      EXPECT_NEAR(double(row_sum[std::size_t(i)]), std::exp(-83) + std::exp(-86), 1e-38);
    }
  }
}

TEST_P(PairWeightsTest, OfLargeScoresAreRightOrRefused) {
  for (int power = 0; power < 35; ++power) {
    const float score = 3 * std::pow(7.f, float(power));
    SCOPED_TRACE(score);
    const auto one = from_float<bf16>(1), other = from_float<bf16>(score);
    std::vector<bf16x2> a(3, {one.bits}), b(std::size_t(nr()), {other.bits}), weights(b.size() * 2);
    std::vector<float> row_max(3, to_float(other)), row_sum(3, 1.f);
    const Pairs p = dense_product(3, nr(), 1, a.data(), b.data(), nullptr, nr());
    if (!pairs().weights(p, {1, row_max.data(), row_sum.data(), weights.data(), nr() / 2}))
      continue;
    for (const float sum : row_sum) EXPECT_NEAR(sum, 1 + float(nr()), 0.1f * float(nr()));
  }
}

IOATTN_FOR_EACH_PAIR_IMPLEMENTATION(PairRowsTest, pair_implementations());
IOATTN_FOR_EACH_PAIR_IMPLEMENTATION(PairWeightsTest, weighing_implementations());

}  // namespace
}  // namespace ioattn_test
