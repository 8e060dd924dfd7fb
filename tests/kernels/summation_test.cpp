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
