// b3: that no segment makes more than it grants, what it comes to, and how far the best schedules
// are from the bounds of class F.
#include "theory/pair_names.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "theory/bounds.hpp"
#include "theory/core_bounds.hpp"
#include "theory/crossovers.hpp"

namespace ioattn::theory {
namespace {

// A segment in units of d = dv = 1. Families of multiply-adds have row operands of up to three
// kinds and column operands of up to four. There is a block of whole pairs, of which all operands
// are there; further operands; names that are found, read or written, and names that are left.
enum Part {
  rows,
  columns,
  first_row,
  first_column = first_row + 3,
  found = first_column + 4,
  left
};
using Parts = std::array<double, left + 1>;

struct Kind {
  const char* name;
  std::vector<std::pair<std::size_t, std::size_t>> families;  // row kind, column kind

  bool has_row(std::size_t kind) const {
    return std::any_of(families.begin(), families.end(),
                       [&](const auto& family) { return family.first == kind; });
  }
  bool has_column(std::size_t kind) const {
    return std::any_of(families.begin(), families.end(),
                       [&](const auto& family) { return family.second == kind; });
  }
  double row_kinds() const { return has_row(0) + has_row(1) + has_row(2); }
  double column_kinds() const {
    return has_column(0) + has_column(1) + has_column(2) + has_column(3);
  }
  double whole() const { return 4 * row_kinds() * column_kinds(); }
};

struct Segment {
  const Kind& kind;
  double M, events, price;

  bool fits(const Parts& x) const {
    if (*std::min_element(x.begin(), x.end()) < 0 || x[left] > M) return false;
    double words = kind.row_kinds() * x[rows] + kind.column_kinds() * x[columns] + x[found];
    for (std::size_t i = 0; i < 7; ++i) words += x[first_row + i];
    return words <= M + events;
  }
  double value(const Parts& x) const {
    double sum = 0;
    for (const auto& [row, column] : kind.families) {
      sum += std::sqrt((x[rows] + x[first_row + row]) * (x[columns] + x[first_column + column]));
    }
    return sum * std::sqrt(x[rows] * x[columns] + x[found] + x[left]) +
           price * (std::min(M, x[found]) - x[left]);
  }
};

double most_found(const Segment& segment, std::mt19937_64* generator) {
  std::uniform_real_distribution<double> uniform(0, 1);
  double best = 0;
  for (int start = 0; start < 6; ++start) {
    Parts x = {};
    double step = (segment.M + segment.events) / 3, value = segment.value(x);
    for (int turn = 0; turn < 6000; ++turn) {
      Parts next = x;
      const auto any = [&] { return std::size_t(uniform(*generator) * double(x.size())); };
      const double moved = step * uniform(*generator);
      next[any()] += moved;
      if (turn % 3 > 0) next[any()] -= moved;
      if (!segment.fits(next)) continue;
      const double of_next = segment.value(next);
      if (of_next >= value) x = next, value = of_next;
      if (turn % 500 == 499) step *= 0.5;
    }
    best = std::max(best, value);
  }
  return best;
}

struct Known {
  Kind kind;
  double rate, rate_of_named, closest;
};
// Q (S), dO (G), dQ (U) or O (Z) by K, V (A2, A3), dK, dV; tied, V is K.
std::vector<Known> known_kinds() {
  const double r2 = std::sqrt(2.0), r3 = std::sqrt(3.0), golden = (1 + std::sqrt(5.0)) / 2;
  const double apart = 1 / r2 - (r2 - 1) / std::sqrt(24.0);
  return {{{"forward", {{0, 0}, {2, 1}}}, 0.5, 0, 0.98},
          {{"forward tied", {{0, 0}, {2, 0}}}, 1 / r2, 0, 0.98},
          {{"dX, dQ", {{0, 0}, {1, 1}, {2, 0}}}, apart, 1 / r2, 0.98},
          {{"dX, dQ tied", {{0, 0}, {1, 0}, {2, 0}}}, r3 / 2, 0, 0.98},
          {{"dK", {{0, 0}, {1, 1}, {0, 2}}}, apart, 1 / r2, 0.98},
          {{"dV", {{0, 0}, {1, 3}}}, 0.5, 0, 0.98},
          {{"dK dV", {{0, 0}, {1, 1}, {0, 2}, {1, 3}}}, 1 / r2, 0, 0.98},
          {{"dQ dV", {{0, 0}, {1, 1}, {2, 0}, {1, 3}}}, 1 / r2, 0, 0.98},
          {{"dQ dK", {{0, 0}, {1, 1}, {2, 0}, {0, 2}}}, golden / 2, 0, 0.95},
          {{"all", {{0, 0}, {1, 1}, {2, 0}, {0, 2}, {1, 3}}}, golden / 2, 0, 0.95},
          {{"dK tied", {{0, 0}, {1, 0}, {0, 2}}}, golden / 2, 0, 0.95},
          {{"dK + dV tied", {{0, 0}, {1, 0}, {0, 2}, {1, 2}}}, 1, 0, 0.98}};
}

TEST(PairNames, NoSegmentMakesMore) {
  std::mt19937_64 generator(3);
  for (const Known& of : known_kinds()) {
    const double whole = of.kind.whole(), root = std::sqrt(whole);
    const PairWork work = {0, whole, 0, of.rate, of.rate_of_named};
    double closest = 0;
    for (const double M : {0.3, 1.0, 3.0}) {
      for (const double events : {0.7 * M, 2 * M}) {
        for (const double price : {0.0, 0.5, 1.3}) {
          const double most =
              most_of_priced_segment(work, M / whole, events / whole, price / root) * whole * root;
          const double made = most_found({of.kind, M, events, price}, &generator);
          EXPECT_LE(made, most) << of.kind.name << " " << M << " " << events << " " << price;
          closest = std::max(closest, made / most);
        }
      }
    }
    EXPECT_GT(closest, of.closest) << of.kind.name;
  }
}

// Sets of gradients have the rates of their families.
TEST(PairNames, OfCores) {
  const double pairs = 1e12, d = 50;
  const index_t M = 6000;
  int compared = 0;
  for (const Known& of : known_kinds()) {
    const std::string name = of.kind.name;
    const auto has = [&](const char* text) { return name.find(text) != std::string::npos; };
    const PairWork work = {pairs * d * double(of.kind.families.size()), of.kind.whole() * d * d, 0,
                           of.rate, of.rate_of_named};
    const double expected = pair_names_bound(work, double(M));
    EXPECT_GT(expected, 0) << name;
    double found = 0;
    if (name == "forward") {
      found = core_bounds(CoreForward{pairs, d, d}, M).b3;
    } else if (!has("forward")) {
      CoreProblem core;
      core.pairs = pairs;
      core.d = core.e = d;
      core.dQ = has("dQ") || name == "all";
      core.dK = has("dK") || name == "all";
      core.dV = has("dV") || name == "all";
      core.tied = has("tied");
      core.one_sum = has("+");
      found = core_bounds(core, M).b3;
    } else {
      continue;
    }
    EXPECT_NEAR(found, expected, 1e-6 * expected) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 11);
}

// Words per pair as n grows, found by another program on a grid of segments.
TEST(PairNames, KnownValues) {
  struct Words {
    double mu, backward, backward_kv, forward, forward_kv;
  };
  const index_t n = index_t(1) << 32, d = 512;
  const double pairs = double(n) * double(n);
  for (const Words& of :
       {Words{1, 3.003, 2.206, 2.632, 1.685}, Words{2, 2.122, 1.377, 1.679, 0.995},
        Words{3, 1.656, 0.996, 1.261, 0.667}, Words{5, 1.144, 0, 0.8, 0}}) {
    const auto expect = [&](Pass pass, Tie tie, double value) {
      if (value == 0) return;
      const double found =
          bound_b3(pass, {n, n, d, d, tie}, index_t(of.mu * double(d * d))) / pairs;
      EXPECT_NEAR(found, value, 0.015 * value) << of.mu << " " << name_of(pass) << name_of(tie);
    };
    expect(Pass::backward, Tie::none, of.backward);
    expect(Pass::backward, Tie::kv, of.backward_kv);
    expect(Pass::backward, Tie::all, of.backward_kv);
    expect(Pass::forward, Tie::none, of.forward);
    expect(Pass::forward, Tie::kv, of.forward_kv);
  }
  EXPECT_EQ(bound_b3(Pass::backward, {n, n, d, d, Tie::none}, 10 * d * d), 0);  // b2 is met
}

// The leading terms of the best schedule of class F over the best bound.
TEST(PairNames, GapsOfClassF) {
  const index_t n = index_t(1) << 34, d = 1024;
  const double pairs = double(n) * double(n);
  const auto gap = [&](Pass pass, Tie tie, double mu) {
    double best = 1e9;
    for (int i = 0; i < schedule_count; ++i) {
      const Schedule schedule = static_cast<Schedule>(i);
      if (class_of(pass, schedule) != AlgorithmClass::F) continue;
      best = std::min(best, leading_cost(pass, schedule, tie, mu).value_or(1e9));
    }
    const LayerShape shape = {n, n, d, d, tie};
    const index_t M = index_t(mu * double(d * d));
    return best * pairs / lower_bound(pass, AlgorithmClass::F, shape, M).words;
  };
  // The largest from this M / d^2 on.
  struct Gap {
    Pass pass;
    Tie tie;
    double from, at_most;
  };
  const Gap known[] = {
      {Pass::backward, Tie::none, 0.01, 1.40}, {Pass::backward, Tie::none, 1, 1.38},
      {Pass::backward, Tie::none, 2, 1.34},    {Pass::backward, Tie::none, 3, 1.21},
      {Pass::backward, Tie::none, 6, 1.035},   {Pass::backward, Tie::none, 9, 1.001},
      {Pass::backward, Tie::kv, 0.01, 1.41},   {Pass::backward, Tie::kv, 1, 1.14},
      {Pass::backward, Tie::kv, 3, 1.02},      {Pass::forward, Tie::none, 0.01, 1.35},
      {Pass::forward, Tie::none, 0.9, 1.335},  {Pass::forward, Tie::none, 2, 1.10},
      {Pass::forward, Tie::kv, 0.01, 1.44},    {Pass::forward, Tie::kv, 1, 1.06}};
  for (const Gap& of : known) {
    double largest = 0;
    for (int step = 0; step < 420; ++step) {
      const double mu = 40 * std::pow(1.02, -step);
      if (mu < of.from) break;
      const double at = gap(of.pass, of.tie, mu);
      EXPECT_GE(at, 0.9999);
      largest = std::max(largest, at);
    }
    EXPECT_LE(largest, of.at_most) << name_of(of.pass) << name_of(of.tie) << of.from;
    EXPECT_GE(largest, of.at_most - 0.015) << name_of(of.pass) << name_of(of.tie) << of.from;
  }
}

}  // namespace
}  // namespace ioattn::theory
