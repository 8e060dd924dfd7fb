// Softmax weights and their gradients straight from the tiles that make scores and q, against
// doubles. Every operand ends at, or begins behind, a page that nothing may touch.

#include <cmath>
#include <random>

#include "base/half.hpp"
#include "kernels/guarded_pages.hpp"
#include "kernels/pair_implementations.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using kernels::bf16x2;
using Pairs = kernels::Product<float, bf16x2>;

constexpr std::uint32_t untouched = 7;

float term(bf16x2 pair, index_t second) {
  return to_float(bf16{std::uint16_t(second != 0 ? pair.bits >> 16 : pair.bits)});
}

// A product of random rows and columns, and the sums it makes.
struct Operands {
  std::vector<bf16x2> a, b;
  std::vector<double> sums;
  Pairs product;

  Operands(index_t rows, index_t cols, index_t depth, index_t nr, std::mt19937* random)
      : a(std::size_t(rows * depth)), b(std::size_t(round_up(cols, nr) * depth)) {
    std::normal_distribution<float> normal(0, 1);
    const auto half = [&] { return std::uint32_t{from_float<bf16>(normal(*random)).bits}; };
    for (bf16x2& pair : a) pair = {half() | half() << 16};
    product = dense_product(rows, cols, depth, a.data(), b.data(), nullptr, nr);
    for (index_t j = 0; j < cols; ++j)
      for (index_t q = 0; q < depth; ++q) column(j, q) = {half() | half() << 16};
    sum_up();
  }
  bf16x2& column(index_t j, index_t q) {
    const Pairs& p = product;
    return b[std::size_t(j / p.b.row * p.b.panel + q * p.b.row + j % p.b.row)];
  }
  void sum_up() {
    const Pairs& p = product;
    sums.assign(std::size_t(p.rows * p.cols), 0);
    for (index_t i = 0; i < p.rows; ++i)
      for (index_t j = 0; j < p.cols; ++j)
        for (index_t q = 0; q < p.depth; ++q)
          for (index_t k = 0; k < 2; ++k)
            sums[std::size_t(i * p.cols + j)] +=
                double(term(a[std::size_t(i * p.depth + q)], k)) * double(term(column(j, q), k));
  }
  double sum(index_t i, index_t j) const { return sums[std::size_t(i * product.cols + j)]; }
};

// What the kernel makes of two products.
struct Case {
  index_t rows, cols, stride;
  float scale = 0.11f;
  Operands scores, q;
  std::vector<float> lse, delta;
  std::vector<bf16x2> f, p_rows, p_cols;

  Case(index_t some_rows, index_t some_cols, index_t depth, index_t depth_of_q, index_t nr,
       std::mt19937* random)
      : rows(some_rows),
        cols(some_cols),
        stride(cols + 5),
        scores(rows, cols, depth, nr, random),
        q(rows, cols, depth_of_q, nr, random),
        lse(std::size_t(rows)),
        delta(std::size_t(rows)) {
    for (index_t i = 0; i < rows; ++i) {
      double total = 0;
      for (index_t j = 0; j < cols; ++j) total += std::exp(double(scale) * scores.sum(i, j));
      lse[std::size_t(i)] = float(std::log(total));
      delta[std::size_t(i)] = std::normal_distribution<float>(0, 1)(*random);
    }
  }

  void run(const kernels::PairKernels& pairs, Side side) {
    GuardedPages pages[9] = {GuardedPages(bytes(scores.a)), GuardedPages(bytes(scores.b)),
                             GuardedPages(bytes(q.a)),      GuardedPages(bytes(q.b)),
                             GuardedPages(bytes(lse)),      GuardedPages(bytes(delta)),
                             GuardedPages(words_by_rows()), GuardedPages(words_by_rows()),
                             GuardedPages(words_by_cols())};
    const auto place = [&](int page, const auto& values) {
      return pages[page].place(values.data(), index_t(values.size()), side);
    };
    Pairs of_scores = scores.product, of_q = q.product;
    of_scores.a.data = place(0, scores.a);
    of_scores.b.data = place(1, scores.b);
    of_q.a.data = place(2, q.a);
    of_q.b.data = place(3, q.b);
    kernels::PairGradients made;
    made.lse = place(4, lse);
    made.delta = place(5, delta);
    made.scale = scale;
    made.stride = stride;
    f.assign(words_by_rows() / sizeof(bf16x2), {untouched});
    p_rows = f;
    p_cols.assign(words_by_cols() / sizeof(bf16x2), {untouched});
    bf16x2* const placed[] = {place(6, f), place(7, p_rows), place(8, p_cols)};
    made.f_by_rows = placed[0];
    made.p_by_rows = placed[1];
    made.p_by_cols = placed[2];
    pairs.gradients(of_scores, of_q, made);
    f.assign(placed[0], placed[0] + f.size());
    p_rows.assign(placed[1], placed[1] + p_rows.size());
    p_cols.assign(placed[2], placed[2] + p_cols.size());
  }

  float f_at(index_t i, index_t j) const { return by_rows(f, i, j); }
  float p_at(index_t i, index_t j) const { return by_rows(p_rows, i, j); }
  float by_rows(const std::vector<bf16x2>& x, index_t i, index_t j) const {
    return term(x[std::size_t(i / 2 * stride + j)], i % 2);
  }
  float by_cols(index_t i, index_t j) const {
    return term(p_cols[std::size_t(i * stride + j / 2)], j % 2);
  }

 private:
  template <class T>
  static std::size_t bytes(const std::vector<T>& values) {
    return values.size() * sizeof(T);
  }
  std::size_t words_by_rows() const {
    return std::size_t(span_of(ceil_div(rows, index_t(2)), cols, stride)) * sizeof(bf16x2);
  }
  std::size_t words_by_cols() const {
    return std::size_t(span_of(rows, ceil_div(cols, index_t(2)), stride)) * sizeof(bf16x2);
  }
};

class PairGradientsTest : public PairImplementationTest {
 protected:
  PairGradientsTest() : PairImplementationTest(9) {}
};
IOATTN_FOR_EACH_PAIR_IMPLEMENTATION(PairGradientsTest, gradient_implementations());

TEST_P(PairGradientsTest, AreRoundedBothWays) {
  for (int trial = 0; trial < 60 && !HasFailure(); ++trial) {
    const index_t rows = uniform(1, 70), cols = uniform(1, 100);
    Case made(rows, cols, uniform(1, 70), uniform(1, 70), nr(), &random_);
    made.run(pairs(), sides[trial % 2]);
    const double scale = double(made.scale);
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < cols; ++j) {
        const double f = std::exp(scale * made.scores.sum(i, j) - double(made.lse[std::size_t(i)]));
        const double q = made.q.sum(i, j) - double(made.delta[std::size_t(i)]);
        const double size = std::abs(made.q.sum(i, j)) + 40;  // sums in f32
        ASSERT_LE(std::abs(double(made.f_at(i, j)) - f), 0x1.02p-8 * f + 1e-37) << i << " " << j;
        ASSERT_LE(std::abs(double(made.p_at(i, j)) - scale * f * q),
                  0x1.02p-8 * scale * f * std::abs(q) + 1e-5 * scale * f * size + 1e-37);
        ASSERT_EQ(made.p_at(i, j), made.by_cols(i, j)) << i << " " << j;
      }
    // What has no partner is paired with 0, and nothing is touched beside.
    for (index_t j = 0; j < cols && rows % 2 != 0; ++j) {
      ASSERT_EQ(made.f_at(rows, j), 0);
      ASSERT_EQ(made.p_at(rows, j), 0);
    }
    for (index_t i = 0; i < rows && cols % 2 != 0; ++i) ASSERT_EQ(made.by_cols(i, cols), 0);
    for (index_t i = 0; i + 1 < ceil_div(rows, index_t(2)); ++i)
      for (index_t j = cols; j < made.stride; ++j) {
        ASSERT_EQ(made.f[std::size_t(i * made.stride + j)].bits, untouched);
        ASSERT_EQ(made.p_rows[std::size_t(i * made.stride + j)].bits, untouched);
      }
    for (index_t i = 0; i + 1 < rows; ++i)
      for (index_t j = ceil_div(cols, index_t(2)); j < made.stride; ++j)
        ASSERT_EQ(made.p_cols[std::size_t(i * made.stride + j)].bits, untouched);
  }
}

// A row's bits do not depend on what is in others, or in its own last panel.
TEST_P(PairGradientsTest, RowsKeepToThemselves) {
  Case all(40, 70, 20, 30, nr(), &random_);
  all.run(pairs(), Side::end);
  Case other = all;
  other.lse[3] = NAN;
  other.lse[4] = INFINITY;
  other.delta[5] = NAN;
  other.run(pairs(), Side::end);
  for (index_t i = 0; i < all.rows; ++i)
    for (index_t j = 0; j < all.cols; ++j) {
      if (i == 3) {
        EXPECT_TRUE(std::isnan(other.f_at(i, j)));
      } else if (i == 4) {
        EXPECT_EQ(other.f_at(i, j), 0);
      } else {
        EXPECT_EQ(other.f_at(i, j), all.f_at(i, j));
      }
      if (i == 3 || i == 5) {
        EXPECT_TRUE(std::isnan(other.p_at(i, j)));
      } else if (i != 4) {
        EXPECT_EQ(other.p_at(i, j), all.p_at(i, j));
      }
    }
}

// Weights of scores of any size are those of their distance from LSE, and 1 at most; below 2^-126
// they are 0. A panel of many rows and terms may be made beside the next.
TEST_P(PairGradientsTest, OfLargeScoresAreRight) {
  for (const bool large : {false, true}) {
    const index_t rows = large ? 32 : 2, cols = large ? 2 * nr() : 4, depth = large ? 32 : 1;
    SCOPED_TRACE(rows);
    Case made(rows, cols, depth, depth, nr(), &random_);
    made.scale = 1;
    for (bf16x2& pair : made.scores.a) pair = {0x3f80};  // 1, 0
    const auto set_scores = [&](const float(&scores)[4]) {
      for (index_t j = 0; j < cols; ++j) {
        for (index_t q = 0; q < depth; ++q) made.scores.column(j, q) = {0};
        made.scores.column(j, 0) = {from_float<bf16>(scores[j % 4]).bits};
      }
    };
    set_scores({2e9f, 1.9e9f, -INFINITY, 2e9f});
    const float largest = to_float(from_float<bf16>(2e9f));
    for (index_t i = 0; i < rows; ++i) made.lse[std::size_t(i)] = i % 2 == 0 ? largest : 79.5f;
    made.run(pairs(), Side::end);
    for (index_t i = 0; i < rows; i += 2)
      for (index_t j = 0; j < cols; j += 4) {
        EXPECT_EQ(made.f_at(i, j), 1);
        EXPECT_EQ(made.f_at(i, j + 1), 0);
        EXPECT_EQ(made.f_at(i, j + 2), 0);
        EXPECT_EQ(made.f_at(i, j + 3), 1);
        EXPECT_EQ(made.f_at(i + 1, j), 1);
        EXPECT_EQ(made.f_at(i + 1, j + 2), 0);
      }
    set_scores({-7.f, -7.5f, -8.f, -8.5f});
    made.run(pairs(), Side::end);  // exp(-86.5) and less
    for (index_t i = 1; i < rows; i += 2)
      for (index_t j = 0; j < cols; j += 4) {
        EXPECT_GT(made.f_at(i, j), 0);
        EXPECT_EQ(made.f_at(i, j + 2), 0);
        EXPECT_EQ(made.f_at(i, j + 3), 0);
      }
  }
}

}  // namespace
}  // namespace ioattn_test
