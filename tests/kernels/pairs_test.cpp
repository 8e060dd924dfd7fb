// Products of pairs of bf16 terms, and their operands: against loops over single terms. Integers
// make sums exact whatever their order.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/half.hpp"
#include "kernels/guarded_pages.hpp"
#include "kernels/pair_implementations.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using kernels::bf16x2;
using Pairs = kernels::Product<float, bf16x2>;

class PairsTest : public PairImplementationTest {
 protected:
  PairsTest() : PairImplementationTest(7) {}
  bf16 integer() { return from_float<bf16>(float(uniform(-8, 8))); }
  bf16 anything() { return {std::uint16_t(uniform(0, 0xffff))}; }
};
IOATTN_FOR_EACH_PAIR_IMPLEMENTATION(PairsTest, pair_implementations());

float first(bf16x2 x) { return to_float(bf16{std::uint16_t(x.bits)}); }
float second(bf16x2 x) { return to_float(bf16{std::uint16_t(x.bits >> 16)}); }

// As the instructions round: denormals are 0.
bf16 nearest(float x) {
  return from_float<bf16>(std::fabs(x) < 0x1p-126f ? std::copysign(0.f, x) : x);
}

TEST_P(PairsTest, ProductIsThatOfSingleTerms) {
  for (int trial = 0; trial < 400 && !HasFailure(); ++trial) {
    Pairs p;
    p.rows = uniform(1, 40);
    p.cols = uniform(1, 80);
    p.depth = trial % 20 == 0 ? uniform(250, 700) : uniform(0, 40);
    const bool by_rows = trial % 2 == 0;
    p.a.row = by_rows ? p.depth + uniform(0, 3) : 1;
    p.a.depth = by_rows ? 1 : p.rows + uniform(0, 3);
    const index_t panels = ceil_div(p.cols, nr()), c_row = panels * nr() + uniform(0, 2);
    p.accumulate = uniform(0, 1) == 1;
    p.scale = trial % 3 == 0 ? 0.25f : 1.f;
    std::vector<bf16x2> a(std::size_t(p.rows * p.depth + 3 * (p.rows + p.depth) + 1)),
        b(std::size_t(panels * p.depth * nr() + 1));
    for (auto* operand : {&a, &b})
      for (bf16x2& x : *operand) x = {integer().bits | std::uint32_t(integer().bits) << 16};
    std::vector<float> c(std::size_t(p.rows * c_row)), row_scale(std::size_t(p.rows), 0.5f);
    for (float& x : c) x = float(uniform(-100, 100));
    const std::vector<float> before = c;
    if (p.accumulate && trial % 5 == 0) p.row_scale = row_scale.data();
    p.a.data = a.data();
    p.b = {b.data(), p.depth * nr(), nr()};
    p.c = {c.data(), nr(), c_row};
    pairs().product(p);
    for (index_t i = 0; i < p.rows; ++i)
      for (index_t j = 0; j < c_row; ++j) {
        double sum = 0;
        const std::size_t at = std::size_t(i * c_row + j);
        for (index_t q = 0; q < p.depth && j < p.cols; ++q) {
          const bf16x2 x = *p.a.at(i, q);
          const bf16x2 y = p.b.row_of(j / nr(), q)[j % nr()];
          sum += double(first(x)) * double(first(y)) + double(second(x)) * double(second(y));
        }
        const double old = double(before[at]) * (p.row_scale != nullptr ? 0.5 : 1);
        const double expected = double(p.scale) * sum + (p.accumulate ? old : 0);
        ASSERT_EQ(double(c[at]), j < p.cols ? expected : double(before[at])) << i << " " << j;
      }
  }
}

TEST_P(PairsTest, EpiloguesSeeTheScaledSums) {
  constexpr index_t rows = 13, depth = 9;
  const index_t cols = 3 * nr() - 1;
  std::vector<bf16x2> a(rows * depth), b(std::size_t(3 * depth * nr()));
  for (auto* operand : {&a, &b})
    for (bf16x2& x : *operand) x = {integer().bits | std::uint32_t(integer().bits) << 16};
  std::vector<float> scores(std::size_t(rows * 3 * nr())), shift(rows, 2.5f);
  Pairs p = dense_product(rows, cols, depth, a.data(), b.data(), scores.data(), nr());
  p.scale = 1.f / 64;
  pairs().product(p);
  std::vector<float> weights = scores;
  p.c.data = weights.data();
  p.epilogue = kernels::Epilogue::exp;
  p.row = shift.data();
  pairs().product(p);
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < cols; ++j) {
      const std::size_t at = std::size_t(i * p.c.row + j);
      const double expected = std::exp(std::min(double(scores[at]) - 2.5, 0.0));
      ASSERT_NEAR(double(weights[at]), expected, 1e-6 * expected);
    }
}

// A denormal counts as 0, NaN and infinity do what they do in f32.
TEST_P(PairsTest, SpecialNumbers) {
  const std::uint32_t one = 0x3f80;
  const auto sum_of = [&](std::uint32_t x, std::uint32_t y) {
    bf16x2 a = {x | one << 16};
    std::vector<bf16x2> b(std::size_t(nr()), bf16x2{y | one << 16});
    std::vector<float> c(std::size_t(nr()), -1.f);
    Pairs p;
    p.rows = p.depth = 1;
    p.cols = nr();
    p.a = {&a, 1, 1};
    p.b = {b.data(), nr(), nr()};
    p.c = {c.data(), nr(), nr()};
    pairs().product(p);
    return c[0];
  };
  EXPECT_EQ(sum_of(one, one), 2.f);
  EXPECT_EQ(sum_of(0x0001, 0x7f00), 1.f);
  EXPECT_EQ(sum_of(one, 0x7f80), INFINITY);
  EXPECT_TRUE(std::isnan(sum_of(0, 0x7f80)));
  EXPECT_TRUE(std::isnan(sum_of(one, 0x7fc1)));
}

// Source and destination end at unmapped pages.
TEST_P(PairsTest, PackingPairsAdjacentTerms) {
  for (int trial = 0; trial < 300 && !HasFailure(); ++trial) {
    const index_t lanes = uniform(1, 70), depth = uniform(0, 90);
    const int layout = trial % 3;  // adjacent terms, adjacent lanes, neither
    const index_t gap = uniform(0, 3);
    const index_t lane_stride = layout == 0 ? depth + gap : layout == 1 ? 1 : 2 * depth + 3;
    const index_t depth_stride = layout == 0 ? 1 : layout == 1 ? lanes + gap : 2;
    const index_t used =
        depth == 0 ? 0 : (lanes - 1) * lane_stride + (depth - 1) * depth_stride + 1;
    const index_t rows = ceil_div(depth, 2), panels = ceil_div(lanes, nr());
    GuardedPages source(std::size_t(used) * sizeof(bf16));
    GuardedPages packed(std::size_t(panels * rows * nr()) * sizeof(bf16x2));
    const Side side = sides[trial / 3 % 2];
    bf16* src = source.place<bf16>(used, side);
    for (index_t i = 0; i < used; ++i) src[i] = anything();
    bf16x2* dst = packed.place<bf16x2>(panels * rows * nr(), side);
    pairs().pack(src, lane_stride, depth_stride, lanes, depth, dst);
    const auto term = [&](index_t lane, index_t q) -> std::uint32_t {
      if (lane >= lanes || q >= depth) return 0;
      return src[lane * lane_stride + q * depth_stride].bits;
    };
    for (index_t lane = 0; lane < panels * nr(); ++lane)
      for (index_t q = 0; q < rows; ++q)
        ASSERT_EQ(dst[lane / nr() * rows * nr() + q * nr() + lane % nr()].bits,
                  term(lane, 2 * q) | term(lane, 2 * q + 1) << 16)
            << lane << " " << q;
  }
}

TEST_P(PairsTest, CopyPairsAdjacentTerms) {
  for (index_t cols = 1; cols <= 70; ++cols) {
    constexpr index_t rows = 3;
    const index_t pairs_each = ceil_div(cols, 2);
    GuardedPages source(std::size_t(rows * cols) * sizeof(bf16));
    GuardedPages copied(std::size_t(rows * pairs_each) * sizeof(bf16x2));
    bf16* src = source.place<bf16>(rows * cols, Side::end);
    for (index_t i = 0; i < rows * cols; ++i) src[i] = anything();
    bf16x2* dst = copied.place<bf16x2>(rows * pairs_each, Side::end);
    pairs().copy(src, cols, rows, cols, dst, pairs_each);
    for (index_t i = 0; i < rows; ++i)
      for (index_t k = 0; k < cols; ++k) {
        const std::uint32_t pair = dst[i * pairs_each + k / 2].bits;
        ASSERT_EQ(k % 2 == 0 ? pair & 0xffff : pair >> 16, src[i * cols + k].bits);
        if (k + 1 == cols && k % 2 == 0) {
          ASSERT_EQ(pair >> 16, 0u);
        }
      }
  }
}

float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
bool same(bf16 a, bf16 b) {
  return a.bits == b.bits || (std::isnan(to_float(a)) && std::isnan(to_float(b)));
}

TEST_P(PairsTest, RoundPairsRowsToNearestEven) {
  for (const index_t rows : {1, 2, 3, 8})
    for (index_t cols = 1; cols <= 50; ++cols) {
      GuardedPages source(std::size_t(rows * cols) * sizeof(float));
      GuardedPages rounded(std::size_t(ceil_div(rows, 2) * cols) * sizeof(bf16x2));
      float* src = source.place<float>(rows * cols, Side::end);
      for (index_t i = 0; i < rows * cols; ++i) {
        // Any float, and often half way between two.
        const auto bits = std::uint32_t(uniform(0, 0xffffffff));
        src[i] = float_of(uniform(0, 2) == 0 ? (bits & 0xffff0000) | 0x8000 : bits);
      }
      bf16x2* dst = rounded.place<bf16x2>(ceil_div(rows, 2) * cols, Side::end);
      pairs().round(src, cols, rows, cols, dst, cols);
      for (index_t i = 0; i < round_up(rows, 2); ++i)
        for (index_t j = 0; j < cols; ++j) {
          const std::uint32_t pair = dst[i / 2 * cols + j].bits;
          const bf16 out = {std::uint16_t(i % 2 == 0 ? pair : pair >> 16)};
          const bf16 expected = i < rows ? nearest(src[i * cols + j]) : bf16{0};
          ASSERT_TRUE(same(out, expected)) << i << " " << j << " " << src[i * cols + j];
        }
    }
}

TEST_P(PairsTest, GradientIsRoundedBothWays) {
  for (int trial = 0; trial < 300 && !HasFailure(); ++trial) {
    kernels::PairGradient g;
    g.rows = uniform(1, 9);
    g.cols = uniform(1, 90);
    g.stride = g.cols + uniform(0, 5);
    g.by_rows_stride = g.cols + uniform(0, 3);
    g.by_cols_stride = trial % 4 == 0 ? g.stride : ceil_div(g.cols, 2) + uniform(0, 3);
    g.scale = 0.125f;
    std::vector<float> f(std::size_t(g.rows * g.stride)), q(f.size()),
        delta(std::size_t(g.rows), 0.f);
    std::normal_distribution<float> normal;
    for (auto* operand : {&f, &q, &delta})
      for (float& x : *operand) x = normal(random_);
    std::vector<bf16x2> by_rows(std::size_t(ceil_div(g.rows, 2) * g.by_rows_stride), {7}),
        by_cols(std::size_t(g.rows * g.by_cols_stride), {7});
    const std::vector<float> weights = f, products = q;
    std::vector<float> apart(q.size(), 7.f);
    g.f = f.data();
    g.q = q.data();
    g.delta = delta.data();
    if (trial % 3 != 1) g.by_rows = by_rows.data();
    if (trial % 3 != 2)  // sometimes in place of f
      g.by_cols = trial % 4 == 0 ? reinterpret_cast<bf16x2*>(f.data()) : by_cols.data();
    if (trial % 5 < 3)  // sometimes in place of q
      g.in_f32 = trial % 5 == 0 ? q.data() : apart.data();
    pairs().gradient(g);
    const auto element = [&](index_t i, index_t j) {
      if (i >= g.rows || j >= g.cols) return bf16{0};
      const std::size_t at = std::size_t(i * g.stride + j);
      return nearest(g.scale * weights[at] * (products[at] - delta[std::size_t(i)]));
    };
    for (index_t i = 0; i < g.rows && g.in_f32 != nullptr; ++i)
      for (index_t j = 0; j < g.stride; ++j) {
        const std::size_t at = std::size_t(i * g.stride + j);
        const float untouched = g.in_f32 == q.data() ? products[at] : 7.f;
        const float p = weights[at] * (products[at] - delta[std::size_t(i)]);
        ASSERT_EQ(g.in_f32[at], j < g.cols ? p : untouched) << i << " " << j;
      }
    for (index_t i = 0; i < round_up(g.rows, 2) && g.by_rows != nullptr; ++i)
      for (index_t j = 0; j < g.by_rows_stride; ++j) {
        const std::uint32_t pair = g.by_rows[i / 2 * g.by_rows_stride + j].bits;
        if (j >= g.cols) {
          ASSERT_EQ(pair, 7u);
          continue;
        }
        ASSERT_EQ(i % 2 == 0 ? pair & 0xffff : pair >> 16, element(i, j).bits) << i << " " << j;
      }
    for (index_t i = 0; i < g.rows && g.by_cols != nullptr; ++i)
      for (index_t j = 0; j < round_up(g.cols, 2); ++j) {
        std::uint32_t pair = 0;
        std::memcpy(&pair, g.by_cols + i * g.by_cols_stride + j / 2, sizeof pair);
        ASSERT_EQ(j % 2 == 0 ? pair & 0xffff : pair >> 16, element(i, j).bits) << i << " " << j;
      }
  }
}

// The caller's environment is as it was: denormals are numbers there.
TEST_P(PairsTest, GradientTakesDenormalsForZero) {
  const index_t cols = 40;
  const std::vector<float> f(2 * cols, 0x1p-120f), q(2 * cols, 0x1p-8f), delta(2, 0.f);
  std::vector<bf16x2> by_rows(cols, {7});
  kernels::PairGradient g;
  g.rows = 2;
  g.cols = cols;
  g.f = f.data();
  g.q = q.data();
  g.stride = cols;
  g.delta = delta.data();
  g.by_rows = by_rows.data();
  g.by_rows_stride = cols;
  pairs().gradient(g);
  for (const bf16x2& pair : by_rows) EXPECT_EQ(pair.bits, 0u);
  volatile float half = 0.5f, least = 0x1p-126f;
  EXPECT_GT(half * least, 0);
}

// Against doubles; a query that sees nothing but -inf, and one whose scores have a NaN.
TEST_P(PairsTest, SoftmaxUpdateScalesAndRounds) {
  for (int trial = 0; trial < 200 && !HasFailure(); ++trial) {
    const index_t keys = uniform(1, trial % 20 == 0 ? 600 : 40), queries = uniform(1, 80);
    const index_t stride = queries + uniform(0, 3);
    const float scale = 0.3f;
    std::normal_distribution<float> normal(0, 10);
    std::vector<float> tile(std::size_t(keys * stride));
    std::vector<float> row_max(std::size_t(queries), -INFINITY), row_sum(row_max.size(), 0.f),
        rescale(row_max.size(), 7.f);
    std::vector<bf16x2> weights(std::size_t(ceil_div(keys, 2) * stride), {7});
    std::vector<double> exact_max(row_max.size(), -HUGE_VAL), exact_sum(row_max.size(), 0.);
    for (int part = 0; part < 2; ++part) {
      for (float& x : tile) x = normal(random_);
      for (index_t j = 0; j < keys; ++j) tile[std::size_t(j * stride)] = -INFINITY;
      const std::vector<double> old_max = exact_max;
      const std::vector<float> before = row_max;
      pairs().softmax_update({tile.data(), stride, keys, queries}, scale, row_max.data(),
                             row_sum.data(), rescale.data(), weights.data(), stride);
      for (index_t i = 0; i < queries; ++i) {
        const auto at = std::size_t(i);
        for (index_t j = 0; j < keys; ++j)
          exact_max[at] =
              std::max(exact_max[at], double(scale) * double(tile[std::size_t(j * stride + i)]));
        const double shift = std::isinf(exact_max[at]) ? 0 : exact_max[at];
        const double factor = std::exp(old_max[at] - shift);
        exact_sum[at] *= factor;
        ASSERT_NEAR(double(rescale[at]), factor, 2e-6 * factor);
        if (part == 1 && i > 0 && row_max[at] == before[at]) {
          ASSERT_EQ(rescale[at], 1);
        }
        for (index_t j = 0; j < round_up(keys, 2); ++j) {
          const std::uint32_t pair = weights[std::size_t(j / 2 * stride + i)].bits;
          const bf16 out = {std::uint16_t(j % 2 == 0 ? pair : pair >> 16)};
          const double expected =
              j < keys ? std::exp(double(scale) * double(tile[std::size_t(j * stride + i)]) - shift)
                       : 0;
          ASSERT_NEAR(double(to_float(out)), expected, 1.001 / 256 * expected + 1e-37) << i << j;
          exact_sum[at] += expected;
        }
        if (i == 0) {
          ASSERT_EQ(row_max[0], -INFINITY);
        } else {
          ASSERT_NEAR(double(row_max[at]), exact_max[at], 1e-6 * std::fabs(exact_max[at]));
        }
        ASSERT_NEAR(double(row_sum[at]), exact_sum[at], 3e-6 * exact_sum[at]);
      }
      for (index_t r = 0; r < ceil_div(keys, 2); ++r)
        for (index_t i = queries; i < stride; ++i)
          ASSERT_EQ(weights[std::size_t(r * stride + i)].bits, 7u);
    }
    tile[std::size_t((keys - 1) * stride)] = NAN;
    pairs().softmax_update({tile.data(), stride, keys, queries}, scale, row_max.data(),
                           row_sum.data(), nullptr, weights.data(), stride);
    EXPECT_TRUE(std::isnan(row_sum[0]));
    if (queries > 1) {
      EXPECT_FALSE(std::isnan(row_sum[1]));
    }
  }
}

}  // namespace
}  // namespace ioattn_test
