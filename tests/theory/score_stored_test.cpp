#include <gtest/gtest.h>

#include <fstream>

#include "data_path.hpp"
#include "theory/word_level.hpp"

namespace ioattn::theory::word_level {
namespace {

// tests/data/score_stored.csv: random sizes and M, reads and writes; -1: M is too small. Made by an
// independent program whose count is its formula's wherever it walked the schedule word by word
// through a cache of M words (all of the small cases).
TEST(ScoreStored, MovesWhatAnIndependentProgramCounted) {
  std::ifstream file(ioattn_test::data_path("score_stored.csv"));
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  ASSERT_EQ(line, "n,m,d,M,reads,writes");
  int rows = 0, refused = 0;
  index_t n, m, d, M, reads, writes;
  char comma;
  while (file >> n >> comma >> m >> comma >> d >> comma >> M >> comma >> reads >> comma >> writes) {
    SCOPED_TRACE(testing::Message() << n << "," << m << "," << d << "," << M);
    const Cost cost = score_stored_forward({n, m, d, d, Tie::none}, M);
    ++rows;
    if (reads < 0) {
      ++refused;
      EXPECT_FALSE(cost);
      continue;
    }
    EXPECT_EQ(cost, (Words{reads, writes}));
    // Neither form nor tie changes the n x m products where dv = d; h has m rows, Z has n.
    EXPECT_EQ(score_stored_forward({n, m, d, d, Tie::kv}, M), cost);
    if (n == m) {
      EXPECT_EQ(score_stored_forward({n, m, d, d, Tie::none}, M, Form::h), cost);
    }
  }
  EXPECT_EQ(rows, 160);
  EXPECT_EQ(refused, 30);
}

// (2 x^2 + 2) n m, x = d / sqrt(M): under stationary and row_stream where 1 < x < sqrt(2).
TEST(ScoreStored, LeadsBetweenHalfOfDSquaredAndDSquared) {
  const index_t n = index_t(1) << 20, d = 512;
  const LayerShape shape = {n, n, d, d, Tie::none};
  for (const double x : {1.05, 1.2, 1.4}) {
    const index_t M = index_t(double(d * d) / (x * x));
    const double words = double(score_stored_forward(shape, M)->total()) / (double(n) * double(n));
    EXPECT_NEAR(words, 2 * x * x + 2, 0.05) << x;
    EXPECT_LT(words, double(stationary_forward(shape, M)->total()) / (double(n) * double(n)));
    EXPECT_LT(words, double(row_stream_forward(shape, M)->total()) / (double(n) * double(n)));
  }
}

// With dv = d / 16 the sum over values streams h instead of A3.
TEST(ScoreStored, TheHFormPaysWhereDvIsSmall) {
  const LayerShape narrow = {4096, 4096, 512, 32, Tie::none};
  const index_t M = 1 << 17;
  EXPECT_LT(score_stored_forward(narrow, M, Form::h)->total(),
            score_stored_forward(narrow, M, Form::g)->total());
}

}  // namespace
}  // namespace ioattn::theory::word_level
