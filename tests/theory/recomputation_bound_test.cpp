#include "theory/recomputation_bound.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "theory/bounds.hpp"
#include "theory/core_bounds.hpp"

namespace ioattn::theory {
namespace {

enum Word { a1, s, g, d_o, u, a2, k, a3, h, t, x, y, of_scores, of_q, word_count };
using Names = std::array<double, word_count>;

// What BOUNDS.md says of one segment, with d = dv = 1 as units: names of every kind, one of two
// bracketings each for E, q (forward: none) and the sums, and where `shared` A1 = A2 = A3.
struct Segment {
  bool k_form, h_form, t_form, tied, shared, computed, forward;

  bool uses(int word) const {
    switch (word) {
      case a1: return !shared && (k_form || t_form || computed);
      case s: return !k_form;
      case k: return k_form;
      case g: return !forward && !h_form;
      case d_o: return !forward && (h_form || computed);
      case a3: return !tied;
      case h: return h_form;
      case u: return !t_form;
      case t: return t_form;
      case x:
      case y: return computed;
      case of_q: return !forward;
      default: return true;
    }
  }

  double multiply_adds(const Names& n, double weight, double share) const {
    const double row = shared ? n[a2] : n[a1], value = tied ? n[a2] : n[a3];
    const double by_x = std::min(n[x], 1.0), by_y = std::min(n[y], 1.0);
    const double scores = k_form ? row * (n[k] + n[a2] * by_x) : (n[s] + row * by_x) * n[a2];
    const double pairs = n[of_scores] + scores;  // named, and those computed from whole operands
    const double values_h = n[h] + value * by_y;
    if (forward) {
      const double sums = n[u] * (h_form ? values_h : value);
      if (tied) return weight * std::sqrt(scores * pairs) + std::sqrt(sums * pairs);
      return (weight * std::sqrt(scores) + std::sqrt(sums)) * std::sqrt(pairs);
    }
    const double q = h_form ? n[d_o] * values_h : (n[g] + n[d_o] * by_y) * value;
    const double sums = t_form ? row * n[t] : n[u] * n[a2];
    const double with_p = n[of_q] + std::min(q, pairs);
    if (!tied) {
      return weight * std::sqrt(scores * pairs) +
             (std::sqrt(q) + std::sqrt(sums)) * std::sqrt(with_p);
    }
    // Of pairs in both q and the sums p is made here, which takes their E.
    const double both = std::min(with_p, pairs);
    const double of_q_alone = both + share * (with_p - both);
    return weight * std::sqrt(scores * pairs) + std::sqrt(q * of_q_alone) +
           std::sqrt(sums * (with_p + both - of_q_alone));
  }
};

// The same of a core whose keys and values are one memory, with s, g, u for Q, dO, dQ, a2 for K,
// and t, h for dK, dV; `sum`: dK + dV is one.
struct TiedCore {
  bool dQ, dK, dV, sum;

  bool uses(int word) const {
    switch (word) {
      case u: return dQ;
      case t: return dK;
      case h: return dV && !sum;
      default: return word == s || word == g || word == a2 || word == of_scores || word == of_q;
    }
  }
  double multiply_adds(const Names& n, double weight, double share) const {
    const double scores = n[s] * n[a2], pairs = n[of_scores] + scores;
    const double q = n[g] * n[a2], with_p = n[of_q] + std::min(q, pairs);
    const double both = std::min(with_p, pairs);
    const double of_q_alone = both + share * (with_p - both);
    double sums_with_p = 0;
    if (dQ) sums_with_p += std::sqrt(n[u] * n[a2]);
    if (dK) sums_with_p += std::sqrt(n[s] * n[t]);
    const double sums_with_f = dV ? n[g] * n[sum ? t : h] : 0;
    return weight * std::sqrt(scores * pairs) + std::sqrt(q * of_q_alone) +
           sums_with_p * std::sqrt(with_p + both - of_q_alone) + std::sqrt(sums_with_f * pairs);
  }
};

class Climb {
 public:
  // The most that is found with B names, from a few random starts.
  template <class Segment>
  double most(const Segment& segment, double weight, double B) {
    double best = 0;
    for (int start = 0; start < 3; ++start) {
      Names names{};
      double total = 0;
      for (int i = 0; i < word_count; ++i) {
        if (segment.uses(i))
          total += names[std::size_t(i)] = uniform() * (start == 0 ? 1 : uniform());
      }
      for (double& words : names) words *= B / total;
      double share = uniform(), value = segment.multiply_adds(names, weight, share);
      double step = B / 4;
      for (int tries = 0; tries < 2500; ++tries) {
        Names next = names;
        const std::size_t from = below_count(), to = below_count();
        if (!segment.uses(int(to))) continue;
        const double moved = std::min(next[from], step * uniform());
        next[from] -= moved;
        next[to] += moved;
        const double next_share = tries % 3 == 0 ? uniform() : share;
        const double next_value = segment.multiply_adds(next, weight, next_share);
        if (next_value > value) names = next, value = next_value, share = next_share;
        if (tries % 250 == 249) step *= 0.6;
      }
      best = std::max(best, value);
    }
    return best;
  }

 private:
  double uniform() { return double(generator_() >> 11) * 0x1p-53; }
  std::size_t below_count() { return std::size_t(generator_() % word_count); }

  std::mt19937_64 generator_{11};
};

struct Kind {
  const char* name;
  bool tied, shared, computed, forward;
  Weighing (*weigh)(double);
};

// However its names are divided, no segment makes more multiply-adds than the bound grants, and
// some make almost as many.
TEST(RecomputationBound, NoSegmentMakesMore) {
  const Kind kinds[] = {{"given", false, false, false, false, weigh_backward},
                        {"none", false, false, true, false, weigh_backward},
                        {"kv", true, false, true, false, weigh_backward_tied},
                        {"all", true, true, true, false, weigh_backward_tied},
                        {"forward given", false, false, false, true, weigh_forward},
                        {"forward none", false, false, true, true, weigh_forward},
                        {"forward kv", true, false, true, true, weigh_forward_tied},
                        {"forward all", true, true, true, true, weigh_forward_tied}};
  Climb climb;
  for (const Kind& kind : kinds) {
    const Operands operands = kind.shared     ? Operands::computed_and_shared
                              : kind.computed ? Operands::computed
                                              : Operands::given;
    double of_kind = 0;
    for (const double weight : {0.0, 0.2, 0.5, 0.7, 1.0}) {
      for (const double B : {0.1, 0.6, 1.0, 1.7, 2.4, 3.2, 4.0}) {
        if (kind.shared && B > 1) continue;
        const double most = most_of_segment(B, kind.weigh(weight), operands);
        double closest = 0;
        for (int form = 0; form < 8; ++form) {
          const bool t_form = (form & 4) != 0;
          if (kind.forward && t_form) continue;
          const Segment segment = {(form & 1) != 0, (form & 2) != 0, t_form,      kind.tied,
                                   kind.shared,     kind.computed,   kind.forward};
          const double found = climb.most(segment, weight, B);
          EXPECT_LE(found, most * (1 + 1e-9))
              << kind.name << " weight " << weight << " B " << B << " form " << form;
          closest = std::max(closest, found / most);
        }
        EXPECT_GT(closest, B < 2 ? 0.7 : 0.5) << kind.name << " weight " << weight << " B " << B;
        of_kind = std::max(of_kind, closest);
      }
    }
    EXPECT_GT(of_kind, 0.99) << kind.name;
  }
}

TEST(RecomputationBound, NoSegmentOfATiedCoreMakesMore) {
  Climb climb;
  const auto check = [&](const TiedCore& core, double weight, const Weighing& weighing) {
    double of_core = 0;
    for (const double B : {0.1, 0.6, 1.7, 4.0, 9.0}) {
      const double most = most_of_segment(B, weighing, Operands::given);
      const double found = climb.most(core, weight, B);
      EXPECT_LE(found, most * (1 + 1e-9)) << B;
      of_core = std::max(of_core, found / most);
    }
    return of_core;
  };
  for (const double weight : {0.0, 0.4, 1.0}) {
    EXPECT_GT(check({true, false, false, false}, weight, weigh_backward_tied(weight)), 0.9);
    EXPECT_GT(check({false, true, false, false}, weight, weigh_backward_tied(weight)), 0.8);
    EXPECT_GT(check({false, false, false, false}, weight, weigh_backward_tied(weight)), 0.5);
  }
  const double norm2 = 4 / 3.0;
  EXPECT_GT(check({true, true, false, false}, 1, {1, 1.5 * norm2, 1}), 0.85);
  for (const bool sum : {false, true}) {
    EXPECT_GT(check({false, true, true, sum}, 1, {1, 2, 1}), 0.85) << sum;
    EXPECT_GT(check({true, true, true, sum}, 1, {1, 2 * norm2, 1}), 0.8) << sum;
  }
  EXPECT_GT(check({true, false, true, false}, 1, {1, 2, 1}), 0.85);
}

// Keys and values in one memory: names that families with the same keys share count for each.
TEST(RecomputationBound, OfTiedCores) {
  const index_t n = 100000, d = 80, M = 600;
  const double pairs = double(n) * double(n), scores = pairs * double(d);
  const auto at = [&](bool tied, bool dQ, bool dK, bool dV) {
    CoreProblem core;
    core.pairs = pairs;
    core.d = core.e = double(d);
    core.tied = tied, core.dQ = dQ, core.dK = dK, core.dV = dV;
    return core_bounds(core, M);
  };
  const auto expected = [&](double families, auto weigh) {
    return recomputation_bound({scores, (families - 1) * scores, double(d)}, weigh, M);
  };
  EXPECT_EQ(at(true, true, false, false).g3, expected(3, weigh_backward_tied));
  EXPECT_EQ(at(true, false, true, false).g3, expected(3, weigh_backward_tied));
  EXPECT_DOUBLE_EQ(at(true, false, true, true).g3, expected(4, Weighing{1, 2, 1}));
  EXPECT_DOUBLE_EQ(at(true, true, true, false).g3, expected(4, Weighing{1, 1.5 * 4 / 3.0, 1}));
  EXPECT_DOUBLE_EQ(at(true, true, true, true).g3, expected(5, Weighing{1, 2 * 4 / 3.0, 1}));
  for (int set = 1; set < 8; ++set) {
    const bool dQ = (set & 1) != 0, dK = (set & 2) != 0, dV = (set & 4) != 0;
    const BoundSet tied = at(true, dQ, dK, dV), apart = at(false, dQ, dK, dV);
    EXPECT_GT(tied.g3, 0);
    EXPECT_LE(tied.g3, apart.g3);
    EXPECT_LE(tied.g3, tied.c);
    if (!dQ && !dK) {  // V has no part in dV
      EXPECT_EQ(tied.g3, apart.g3);
      EXPECT_EQ(tied.c, apart.c);
    }
  }
}

// What one segment may do need not cost a word.
TEST(RecomputationBound, NothingForWorkOfOneSegment) {
  EXPECT_EQ(recomputation_bound(Recomputed{.scores = 200, .others = 200, .width = 1000},
                                weigh_backward, 100),
            0);
  EXPECT_GT(recomputation_bound(Recomputed{.scores = 2e6, .others = 2e6, .width = 1000},
                                weigh_backward, 100),
            0);
}

// In words per pair as n grows, d = dv = 512: found by another program, which tries every length of
// a segment and every way to divide its names.
TEST(RecomputationBound, KnownValues) {
  struct Known {
    double mu, backward, backward_tied, forward, forward_tied;
  };
  const Known known[] = {
      {0.02, 29.393, 24.0, 19.596, 13.856}, {0.0625, 15.874, 12.961, 10.583, 7.483},
      {0.12, 10.677, 8.718, 7.118, 5.033},  {0.16, 8.835, 7.141, 5.831, 4.123},
      {0.25, 6.66, 4.918, 4.199, 3.0},      {0.4, 4.932, 3.211, 3.02, 2.162},
      {0.6, 3.5, 2.146, 2.23, 1.525},       {0.9, 2.044, 1.293, 1.501, 0.914}};
  const index_t n = index_t(1) << 26, d = 512;
  const double pairs = double(n) * double(n);
  for (const Known& of : known) {
    const auto words = [&](Pass pass, Tie tie) {
      return bound_g3(pass, {n, n, d, d, tie}, index_t(of.mu * double(d * d))) / pairs;
    };
    const auto expect = [&](Pass pass, Tie tie, double value) {
      EXPECT_GT(words(pass, tie), 0.99 * value) << of.mu << name_of(pass) << name_of(tie);
      EXPECT_LT(words(pass, tie), 1.0005 * value) << of.mu << name_of(pass) << name_of(tie);
    };
    expect(Pass::backward, Tie::none, of.backward);
    expect(Pass::backward, Tie::kv, of.backward_tied);
    expect(Pass::forward, Tie::none, of.forward);
    expect(Pass::forward, Tie::kv, of.forward_tied);
    if (of.mu < 0.2) expect(Pass::backward, Tie::all, of.backward_tied);
  }
}

// Where x words of A1, y of A2 and xi of X, which has one unit of them, make row operands of one
// family and column operands of another, all of them; A1 = A2: x of both.
TEST(RecomputationBound, WordsOfXServeBothSides) {
  constexpr int steps = 400;
  const auto apart = [](double words) {
    double most = 0;
    for (int i = 0; i <= steps; ++i) {
      const double xi = std::min(1.0, words * i / steps), half = (words - xi) / 2;
      most = std::max(most, half * half * xi * (1 + xi));
    }
    return most;
  };
  const auto shared = [](double words) {
    double most = 0;
    for (int i = 0; i <= steps; ++i) {
      const double x = words * i / steps;
      most = std::max(most, 2 * x * x * (words - x));
    }
    return most;
  };
  // Step 5: the root of what is counted is z, of W words.
  const auto counted = [](double words) {
    const double z = words <= 2 ? words / 2 : (words - 0.4) / 1.6;
    return z * z;
  };
  Recomputed work;
  work.of_x_twice = true;
  work.operands = Operands::computed;
  const double most_apart = most_names(work);
  work.operands = Operands::computed_and_shared;
  const double most_shared = most_names(work);
  for (int step = 1; step <= 80; ++step) {
    const double words = most_apart * step / 80, of_all = most_shared * step / 80;
    EXPECT_LE(apart(words), counted(words)) << words;
    EXPECT_LE(shared(of_all), counted(of_all) * (1 + 1e-9)) << of_all;
  }
  work.of_x_twice = false;
  EXPECT_GT(shared(most_names(work)), counted(most_names(work)));
}

// With any summation trees: no family of sums, no births.
TEST(RecomputationBound, ScoresAndQAloneProveLess) {
  const double n = 1 << 20, d = 512, pairs = n * n;
  const Recomputed alone = {pairs * d, pairs * d, d, 0, Operands::computed};
  LayerShape shape;
  shape.n = shape.m = index_t(n);
  shape.d = shape.dv = index_t(d);
  const double expected[][3] = {{0.25, 4.2, 6.7}, {0.4, 3.0, 4.9}, {0.9, 1.2, 2.0}};
  for (const auto& [ratio, words, with_sums] : expected) {
    EXPECT_NEAR(recomputation_bound(alone, weigh_backward, ratio * d * d) / pairs, words, 0.05);
    EXPECT_NEAR(bound_g3(Pass::backward, shape, index_t(ratio * d * d)) / pairs, with_sums, 0.05);
  }
}

}  // namespace
}  // namespace ioattn::theory
