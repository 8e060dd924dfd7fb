// Long sums are blocked: their error must not grow with their length as that of a plain loop does.

#include <cmath>
#include <random>

#include "kernels/implementations.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn::kernels;

class SummationTest : public KernelTest {};

constexpr index_t terms = 100'000;
// Beyond 65536 the spacing of floats is 1/128: a plain sum drops every term's last 1/2000 there.
constexpr double threshold = 1e-5;

class LongSum {
 public:
  LongSum() {
    std::mt19937 engine(17);
    std::uniform_real_distribution<float> noise(0.0f, 1e-3f);
    for (index_t q = 0; q < terms; ++q) values_.push_back(1.0f + noise(engine));
    for (const float value : values_) exact_ += static_cast<double>(value);
  }
  const std::vector<float>& values() const { return values_; }
  double relative_error(float sum) const {
    return std::abs(static_cast<double>(sum) - exact_) / exact_;
  }

 private:
  std::vector<float> values_;
  double exact_ = 0;
};

TEST(LongSum, DefeatsAPlainLoop) {
  const LongSum sum;
  float plain = 0;
  for (const float value : sum.values()) plain += value;
  EXPECT_GT(sum.relative_error(plain), 5 * threshold);
}

TEST_P(SummationTest, ProductErrsLittle) {
  const LongSum sum;
  const KernelTable<float>& kernels = table<float>();
  const index_t nr = kernels.tile.cols;
  // One column of noise beside zeros; A is ones.
  std::vector<float> b(static_cast<std::size_t>(terms * nr), 0.0f);
  for (index_t q = 0; q < terms; ++q)
    b[static_cast<std::size_t>(q * nr)] = sum.values()[static_cast<std::size_t>(q)];
  const std::vector<float> a(static_cast<std::size_t>(terms), 1.0f);
  float c = guard<float>();
  Product<float> product;
  product.rows = product.cols = 1;
  product.depth = terms;
  product.a = {a.data(), terms, 1};
  product.b = {b.data(), terms * nr, nr};
  product.c = {&c, nr, nr};
  kernels.product(product);
  EXPECT_LT(sum.relative_error(c), threshold);
}

TEST_P(SummationTest, RowDotErrsLittle) {
  const LongSum sum;
  const std::vector<float> ones(static_cast<std::size_t>(terms), 1.0f);
  float result = guard<float>();
  table<float>().row_dot(1, terms, ones.data(), terms, sum.values().data(), terms, &result);
  EXPECT_LT(sum.relative_error(result), threshold);
}

TEST_P(SummationTest, DotTileErrsLittle) {
  LongSum sum;
  std::vector<float> ones(static_cast<std::size_t>(terms), 1.0f), values = sum.values();
  float result = 0;
  table<float>().dot_tile({ones.data(), 1, terms, 1}, {values.data(), 1, terms, 1}, &result);
  EXPECT_LT(sum.relative_error(result), threshold);
}

// Of floats a sum takes 64 terms: 2^24 and 64 ones would else be 2^24.
class ShortSum {
 public:
  static constexpr index_t terms = 128, half = 64;
  static constexpr float sum = 0x1p24f + 64;

  // Columns alike, and rows of ones.
  ShortSum(index_t rows, index_t nr)
      : b_(static_cast<std::size_t>(terms * nr), 1.0f),
        a_(static_cast<std::size_t>(rows * terms), 1.0f) {
    std::fill_n(b_.begin(), half * nr, 0x1p18f);
    product.rows = rows;
    product.cols = nr;
    product.depth = terms;
    product.a = {a_.data(), terms, 1};
    product.b = {b_.data(), terms * nr, nr};
    product.padded = true;
  }
  Product<float> product;

 private:
  std::vector<float> b_, a_;
};

TEST_P(SummationTest, TakesSixtyFourTermsAtOnce) {
  const KernelTable<float>& kernels = table<float>();
  const index_t nr = kernels.tile.cols, rows = 2 * kernels.tile.rows + 1;
  ShortSum sums(rows, nr);
  std::vector<float> c(static_cast<std::size_t>(rows * nr)),
      shift(static_cast<std::size_t>(rows + nr));
  Product<float>& p = sums.product;
  p.c = {c.data(), rows * nr, nr};
  const auto expect_all = [&](float expected, const char* what) {
    for (const float x : c) EXPECT_EQ(x, expected) << what;
  };
  kernels.product(p);
  expect_all(ShortSum::sum, "plain");
  p.accumulate = true;
  std::fill(c.begin(), c.end(), -ShortSum::sum);
  kernels.product(p);
  expect_all(0, "added");
  p.accumulate = false;
  p.epilogue = Epilogue::gradient;
  p.lane = shift.data();
  std::fill(c.begin(), c.end(), 0.5f);
  kernels.product(p);
  expect_all(ShortSum::sum / 2, "gradient by lane");
  p.lane = nullptr;
  p.row = shift.data();
  std::fill(c.begin(), c.end(), 0.5f);
  kernels.product(p);
  expect_all(ShortSum::sum / 2, "gradient by row");
  p.epilogue = Epilogue::exp;
  std::fill(shift.begin(), shift.end(), ShortSum::sum);
  kernels.product(p);
  expect_all(1, "exp");
  if (kernels.weights == nullptr) return;
  std::vector<float> row_sum(static_cast<std::size_t>(nr));
  p.epilogue = Epilogue::none;
  p.row = nullptr;
  ASSERT_TRUE(kernels.weights(p, shift.data(), row_sum.data()));
  expect_all(1, "weights");
}

// Weights near 1 after subtraction of the maximum: exp(log x) for every term x.
TEST_P(SummationTest, SoftmaxSumErrsLittle) {
  std::mt19937 engine(17);
  std::uniform_real_distribution<float> noise(0.0f, 1e-3f);
  std::vector<float> scores = {0.0f};
  double exact = 1;
  while (scores.size() < static_cast<std::size_t>(terms)) {
    scores.push_back(-noise(engine));
    exact += std::exp(static_cast<double>(scores.back()));
  }
  float row_max = -std::numeric_limits<float>::infinity(), row_sum = 0, plain = 0;
  for (const float score : scores) plain += std::exp(score);
  EXPECT_GT(std::abs(static_cast<double>(plain) - exact) / exact, 5 * threshold);
  table<float>().softmax_update({scores.data(), 1, terms, 1}, false, &row_max, &row_sum, nullptr);
  EXPECT_LT(std::abs(static_cast<double>(row_sum) - exact) / exact, threshold);
}

IOATTN_FOR_EACH_VARIANT(SummationTest);

}  // namespace
}  // namespace ioattn_test
