// a3: what a segment may compute of p with words of pairs that spare one of two zones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "theory/bounds.hpp"
#include "theory/segments.hpp"

namespace ioattn::theory {
namespace {

// Pairs without a word, with one of the scores, of q, or both; rows and columns of both zones.
TEST(HalfTouched, NoSegmentHasMorePairs) {
  std::mt19937_64 generator(4);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto any = [&] { return uniform(generator) * uniform(generator); };
  double closest[3] = {};
  for (int trial = 0; trial < 300000; ++trial) {
    const double none = any(), scores = trial % 2 == 0 ? 0 : any(), q = any(), both = any();
    const double of_scores = none + q, of_q = none + scores;  // that need their zones
    const double names = scores + q + 2 * both, pairs = none + scores + q + both;
    // The fewest words: squares; rows of both past the same columns; the same words for rows, too.
    const double apart = 2 * std::sqrt(of_scores) + 2 * std::sqrt(of_q);
    const double shared = 2 * std::sqrt(of_scores + of_q);
    const double indices = std::sqrt(of_scores);
    const double all = std::max(indices + of_q / indices, 2 * std::sqrt(of_q));
    for (const double mix : {0.0, 0.3, 1.0}) {
      const double most = (1 + mix) * apart * apart / 16 + (3 - mix) * names / 4;
      EXPECT_LE(pairs, most * (1 + 1e-12));
      closest[0] = std::max(closest[0], pairs / most);
    }
    const double most_shared = shared * shared / 8 + names / 2;
    const double most_all = all * all / 2 + names / 2;
    EXPECT_LE(pairs, most_shared * (1 + 1e-12));
    EXPECT_LE(pairs, most_all * (1 + 1e-12));
    closest[1] = std::max(closest[1], pairs / most_shared);
    closest[2] = std::max(closest[2], pairs / most_all);
  }
  EXPECT_GT(closest[0], 0.97);
  EXPECT_GT(closest[1], 0.99);
  EXPECT_GT(closest[2], 0.8);
}

// Words per pair as n grows, by another program that tries every length of a segment.
TEST(HalfTouched, KnownValues) {
  const index_t n = index_t(1) << 30, d = 512;
  const double pairs = double(n) * double(n);
  const double known[][3] = {{0.5, 2.627, 2.627}, {1, 1.989, 1.856}, {1.5, 1.751, 1.333},
                             {2, 1.554, 1.0},     {4, 0.993, 0.5},   {6, 0.667, 0.333}};
  for (const auto& [mu, apart, shared] : known) {
    const index_t M = index_t(mu * double(d * d));
    const auto words = [&](Tie tie) {
      return bound_a3(Pass::backward, {n, n, d, d, tie}, M) / pairs;
    };
    EXPECT_NEAR(words(Tie::none), apart, 0.002) << mu;
    EXPECT_NEAR(words(Tie::kv), shared, 0.002) << mu;
    EXPECT_LT(words(Tie::all), words(Tie::kv)) << mu;
  }
  EXPECT_EQ(bound_a3(Pass::forward, {n, n, d, d}, d * d), 0);
}

}  // namespace
}  // namespace ioattn::theory
