#include "theory/crossovers.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "theory/word_level.hpp"

namespace ioattn::theory {
namespace {

struct Known {
  Pass pass;
  Tie tie;
  Schedule below, above;
  double mu;
};
double squared_inverse(double x) { return 1 / (x * x); }

// Solved by hand, x = d / sqrt(M). A product with d columns costs 1 + x^2 for x^2 <= 2, then
// 2 + x^2/2 for x^2 <= 6; of the paper's tiles 2x + 2 for x <= 1, 2x + 6 for 5/2 < x <= 3.
TEST(Crossovers, ClosedForms) {
  const auto of = [](double numerator, double denominator) {
    return squared_inverse(numerator / denominator);
  };
  const double r3 = std::sqrt(3.0), r7 = std::sqrt(7.0), r22 = std::sqrt(22.0);
  const Known known[] = {
      // 6x^2 = 3x^2 + 2; 3x^2 + 2 = x^2 + 2x + 6; x^2 + 2x + 6 = 6x + 3; 4/(mu - 2) = 6/mu
      {Pass::backward, Tie::none, Schedule::q_stored, Schedule::row_stream, 1.5},
      {Pass::backward, Tie::none, Schedule::half_dim, Schedule::q_stored, 0.25},
      {Pass::backward, Tie::none, Schedule::stationary, Schedule::half_dim, 1.0 / 9},
      {Pass::backward, Tie::none, Schedule::row_stream, Schedule::weight_resident, 6},
      // 6x^2 = x^2 + 4x + 4, 6x^2 = 10x + 15, 2x^2 + 2x + 2 = x^2/2 + 4x + 5
      {Pass::backward, Tie::none, Schedule::stationary, Schedule::row_stream,
       of(2 + 2 * std::sqrt(6.0), 5)},
      {Pass::backward, Tie::none, Schedule::paper_small, Schedule::row_stream,
       of(5 + std::sqrt(115.0), 6)},
      {Pass::backward, Tie::none, Schedule::stationary, Schedule::q_stored, of(2 + r22, 3)},
      // 2x^2 + 6 = x^2 + 4x + 4
      {Pass::backward, Tie::none, Schedule::half_dim, Schedule::stationary,
       squared_inverse(2 - std::sqrt(2.0))},
      // 4y = (3y + 2)(1 - 2y), y = x^2
      {Pass::backward, Tie::none, Schedule::q_stored, Schedule::weight_resident,
       12 / (std::sqrt(73.0) - 5)},
      // 6x^2 = sqrt(48) x + 2; 2 = sqrt(96) x; sqrt(96) x = 3x^2 + 2; x^2 + 4x + 4 = sqrt(48) x + 2
      {Pass::backward, Tie::none, Schedule::tile_fused, Schedule::row_stream,
       of(std::sqrt(12.0) + std::sqrt(24.0), 6)},
      {Pass::backward, Tie::none, Schedule::paper_large, Schedule::tile_fused, 24},
      {Pass::backward, Tie::none, Schedule::q_stored, Schedule::tile_fused,
       of(std::sqrt(24.0) - std::sqrt(18.0), 3)},
      {Pass::backward, Tie::none, Schedule::stationary, Schedule::tile_fused,
       squared_inverse(std::sqrt(12.0) - 2 - std::sqrt(14 - 8 * r3))},
      // 3x^2 = x^2/2 + 4x + 3
      {Pass::backward, Tie::kv, Schedule::stationary, Schedule::row_stream,
       of(4 + std::sqrt(46.0), 5)},
      {Pass::backward, Tie::kv, Schedule::row_stream, Schedule::weight_resident, 6},
      // 3x^2 = 2x^2 + 2x + 2, 3x^2 + 2 = x^2/2 + 4x + 3, 2/(mu - 2) = 3/mu + 2
      {Pass::backward, Tie::kv, Schedule::q_stored, Schedule::row_stream, squared_inverse(1 + r3)},
      {Pass::backward, Tie::kv, Schedule::stationary, Schedule::q_stored,
       of(4 + std::sqrt(26.0), 5)},
      {Pass::backward, Tie::kv, Schedule::q_stored, Schedule::weight_resident,
       (3 + std::sqrt(57.0)) / 4},
      // 2x^2 = x^2/2 + 2x + 3
      {Pass::forward, Tie::kv, Schedule::stationary, Schedule::row_stream, of(2 + r22, 3)},
      // 4x^2 = 2x^2 + 2, 2x^2 + 2 = x^2/2 + 2x + 3, 4x^2 = x^2 + 2x + 2
      {Pass::forward, Tie::none, Schedule::score_stored, Schedule::row_stream, 1},
      {Pass::forward, Tie::none, Schedule::stationary, Schedule::score_stored,
       of(2 + std::sqrt(10.0), 3)},
      {Pass::forward, Tie::none, Schedule::stationary, Schedule::row_stream, of(1 + r7, 3)}};
  for (const Known& expected : known) {
    int found = 0;
    for (const Crossover& crossover : crossovers(expected.pass, expected.tie)) {
      if (crossover.below != expected.below || crossover.above != expected.above) continue;
      ++found;
      EXPECT_NEAR(crossover.mu, expected.mu, 1e-9 * expected.mu)
          << name_of(expected.below) << " " << name_of(expected.above);
    }
    EXPECT_EQ(found, 1) << name_of(expected.below) << " " << name_of(expected.above);
  }
}

// Leading terms are what exact costs come to from above, for every schedule that has any.
TEST(Crossovers, LeadingTermsOfExactCosts) {
  const index_t n = index_t(1) << 24, d = 4096;
  const double pairs = double(n) * double(n);
  for (const Pass pass : {Pass::backward, Pass::forward}) {
    for (const Tie tie : {Tie::none, Tie::kv}) {
      int compared = 0;
      for (int i = 0; i < schedule_count; ++i) {
        const Schedule schedule = static_cast<Schedule>(i);
        for (const double mu : {0.02, 0.06, 0.15, 0.3, 0.6, 1.3, 2.5, 4.1, 8.0, 20.0, 50.0}) {
          const auto leading = leading_cost(pass, schedule, tie, mu);
          const auto exact =
              exact_cost(pass, schedule, {n, n, d, d, tie}, index_t(mu * double(d) * double(d)));
          if (!leading || !exact) continue;
          ++compared;
          const double ratio = double(exact->total()) / pairs / *leading;
          EXPECT_TRUE(ratio > 0.998 && ratio < 1.06)
              << ratio << " " << name_of(pass) << " " << name_of(tie) << " " << name_of(schedule)
              << " " << mu;
        }
      }
      EXPECT_GT(compared, pass == Pass::backward ? 70 : 50) << name_of(pass) << " " << name_of(tie);
    }
  }
}

// Every pair whose leading terms cross is found to cross in exact costs, at the size of
// docs/regimes.md; for d that is large beside the rows of a block nearly where the terms do, even
// where curves are almost parallel.
TEST(Crossovers, MeasuredOnExactCosts) {
  struct Seen {
    int crossovers, of_winners;
  };
  const auto seen_with = [](Pass pass, Tie tie) {
    Seen seen = {};
    for (const Crossover& crossover : crossovers(pass, tie)) {
      SCOPED_TRACE(std::string(name_of(pass)) + " " + name_of(tie) + " " +
                   name_of(crossover.below) + " " + name_of(crossover.above));
      ++seen.crossovers;
      const auto at = measured_crossover(pass, tie, crossover, 1 << 20, 512);
      const auto large = measured_crossover(pass, tie, crossover, 1 << 24, 8192);
      EXPECT_TRUE(at && large) << crossover.mu;
      if (!at || !large) continue;
      EXPECT_NEAR(*large / crossover.mu, 1, 0.03);
      const double cost = *leading_cost(pass, crossover.below, tie, crossover.mu);
      bool is_least = true;
      for (int i = 0; i < schedule_count; ++i) {
        const auto other = leading_cost(pass, static_cast<Schedule>(i), tie, crossover.mu);
        is_least = is_least && !(other && *other < 0.999 * cost);
      }
      if (!is_least) continue;
      ++seen.of_winners;
      EXPECT_NEAR(*at / crossover.mu, 1, 0.05);
    }
    return seen;
  };
  for (const Pass pass : {Pass::backward, Pass::forward}) {
    for (const Tie tie : {Tie::none, Tie::kv}) {
      const bool backward = pass == Pass::backward;
      const Seen seen = seen_with(pass, tie);
      const int pairs = backward ? (tie == Tie::none ? 29 : 27) : (tie == Tie::none ? 13 : 12);
      EXPECT_EQ(seen.crossovers, pairs) << name_of(pass) << " " << name_of(tie);
      // Tied: stationary, row_stream and, backward, weight_resident.
      const int winners = tie == Tie::none ? (backward ? 4 : 2) : (backward ? 2 : 1);
      EXPECT_EQ(seen.of_winners, winners) << name_of(pass) << " " << name_of(tie);
    }
  }
}

}  // namespace
}  // namespace ioattn::theory
