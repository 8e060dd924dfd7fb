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

// Solved by hand, x = d / sqrt(M).
TEST(Crossovers, ClosedForms) {
  const double r3 = std::sqrt(3.0), r10 = std::sqrt(10.0), r2 = std::sqrt(2.0);
  const Known known[] = {
      // 6x^2 = 3x^2 + 2; 3x^2 + 2 = x^2 + 2x + 6; x^2 + 2x + 6 = 6x + 3; 4/(mu - 2) = 6/mu
      {Pass::backward, Tie::none, Schedule::q_stored, Schedule::row_stream, 1.5},
      {Pass::backward, Tie::none, Schedule::half_dim, Schedule::q_stored, 0.25},
      {Pass::backward, Tie::none, Schedule::stationary, Schedule::half_dim, 1.0 / 9},
      {Pass::backward, Tie::none, Schedule::row_stream, Schedule::weight_resident, 6},
      // 6x^2 = 6x + 3, 6x^2 = 12x + 9, 2x^2 + 2x + 2 = 6x + 3
      {Pass::backward, Tie::none, Schedule::stationary, Schedule::row_stream,
       squared_inverse((1 + r3) / 2)},
      {Pass::backward, Tie::none, Schedule::paper_small, Schedule::row_stream,
       squared_inverse(1 + r10 / 2)},
      {Pass::backward, Tie::none, Schedule::stationary, Schedule::q_stored,
       squared_inverse(1 + std::sqrt(1.5))},
      // 4y = (3y + 2)(1 - 2y), y = x^2
      {Pass::backward, Tie::none, Schedule::q_stored, Schedule::weight_resident,
       12 / (std::sqrt(73.0) - 5)},
      // 3x^2 = 6x + 1
      {Pass::backward, Tie::kv, Schedule::stationary, Schedule::row_stream,
       squared_inverse(1 + 2 / r3)},
      {Pass::backward, Tie::kv, Schedule::row_stream, Schedule::weight_resident, 6},
      // 3x^2 = 2x^2 + 2x + 2, 3x^2 + 2 = 6x + 1 twice, 2/(mu - 2) = 3/mu + 2
      {Pass::backward, Tie::kv, Schedule::q_stored, Schedule::row_stream, squared_inverse(1 + r3)},
      {Pass::backward, Tie::kv, Schedule::stationary, Schedule::q_stored,
       squared_inverse(1 + r2 / r3)},
      {Pass::backward, Tie::kv, Schedule::q_stored, Schedule::stationary,
       squared_inverse(1 - r2 / r3)},
      {Pass::backward, Tie::kv, Schedule::q_stored, Schedule::weight_resident,
       (3 + std::sqrt(57.0)) / 4},
      // 2x^2 = 4x + 1
      {Pass::forward, Tie::kv, Schedule::stationary, Schedule::row_stream,
       squared_inverse(1 + r3 / r2)},
      // 4x^2 = 2x^2 + 2, 2x^2 + 2 = 4x + 1, 4x^2 = 4x + 1
      {Pass::forward, Tie::none, Schedule::score_stored, Schedule::row_stream, 1},
      {Pass::forward, Tie::none, Schedule::stationary, Schedule::score_stored,
       squared_inverse(1 + 1 / r2)},
      {Pass::forward, Tie::none, Schedule::stationary, Schedule::row_stream,
       squared_inverse((1 + r2) / 2)}};
  for (const Known& of : known) {
    int found = 0;
    for (const Crossover& crossover : crossovers(of.pass, of.tie)) {
      if (crossover.below != of.below || crossover.above != of.above) continue;
      ++found;
      EXPECT_NEAR(crossover.mu, of.mu, 1e-9 * of.mu)
          << name_of(of.below) << " " << name_of(of.above);
    }
    EXPECT_EQ(found, 1) << name_of(of.below) << " " << name_of(of.above);
  }
}

// Leading terms are what exact costs come to from above, for every schedule that has any. Tiles of
// products have a place in it while they are smaller than d x d.
TEST(Crossovers, LeadingTermsOfExactCosts) {
  const index_t n = index_t(1) << 24, d = 4096;
  const double pairs = double(n) * double(n);
  for (const Pass pass : {Pass::backward, Pass::forward}) {
    for (const Tie tie : {Tie::none, Tie::kv}) {
      int compared = 0;
      for (int i = 0; i < schedule_count; ++i) {
        const Schedule schedule = static_cast<Schedule>(i);
        const bool in_tiles = schedule == Schedule::paper_small || schedule == Schedule::stationary;
        for (const double mu : {0.02, 0.06, 0.15, 0.3, 0.6, 1.3, 2.5, 4.0, 8.0, 20.0}) {
          if (in_tiles && mu > 2) continue;
          const auto leading = leading_cost(pass, schedule, tie, mu);
          const auto exact = word_level::least_cost(pass, schedule, {n, n, d, d, tie},
                                                    index_t(mu * double(d) * double(d)));
          if (!leading || !exact) continue;
          ++compared;
          const double ratio = double(exact->total()) / pairs / *leading;
          EXPECT_TRUE(ratio > 0.998 && ratio < 1.06)
              << ratio << " " << name_of(pass) << " " << name_of(tie) << " " << name_of(schedule)
              << " " << mu;
        }
      }
      EXPECT_GT(compared, 20) << name_of(pass) << " " << name_of(tie);
    }
  }
}

// Exact costs cross where the leading terms do: close where the winner changes, within the 25% that
// are looked at elsewhere, where curves may be almost parallel. Of large M the leading terms of
// schedules in tiles say little.
TEST(Crossovers, MeasuredOnExactCosts) {
  struct Seen {
    int crossovers, measured, of_winners;
  };
  const auto seen_with = [](Pass pass, Tie tie) {
    Seen seen = {};
    for (const Crossover& crossover : crossovers(pass, tie)) {
      if (crossover.mu > 10) continue;
      ++seen.crossovers;
      const auto at = measured_crossover(pass, tie, crossover, 1 << 20, 512);
      if (!at) continue;
      ++seen.measured;
      EXPECT_NEAR(*at / crossover.mu, 1, 0.25);
      const double cost = *leading_cost(pass, crossover.below, tie, crossover.mu);
      bool is_least = true;
      for (int i = 0; i < schedule_count; ++i) {
        const auto other = leading_cost(pass, static_cast<Schedule>(i), tie, crossover.mu);
        is_least = is_least && !(other && *other < 0.999 * cost);
      }
      if (!is_least) continue;
      ++seen.of_winners;
      EXPECT_NEAR(*at / crossover.mu, 1, 0.05)
          << name_of(tie) << " " << name_of(crossover.below) << " " << name_of(crossover.above);
    }
    return seen;
  };
  for (const Pass pass : {Pass::backward, Pass::forward}) {
    for (const Tie tie : {Tie::none, Tie::kv}) {
      const bool backward = pass == Pass::backward;
      const Seen seen = seen_with(pass, tie);
      EXPECT_EQ(seen.measured, seen.crossovers) << name_of(pass) << " " << name_of(tie);
      EXPECT_GE(seen.crossovers, backward ? 18 : 4) << name_of(pass) << " " << name_of(tie);
      // Tied: stationary, row_stream and, backward, weight_resident.
      const int winners = tie == Tie::none ? (backward ? 4 : 2) : (backward ? 2 : 1);
      EXPECT_EQ(seen.of_winners, winners) << name_of(pass) << " " << name_of(tie);
    }
  }
}

}  // namespace
}  // namespace ioattn::theory
