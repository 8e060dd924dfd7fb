#include "theory/bounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace ioattn::theory {
namespace {

constexpr Pass passes[] = {Pass::backward, Pass::forward};
constexpr Tie ties[] = {Tie::none, Tie::kv, Tie::all};

// An independent account of the words that an r x c block of pairs needs: row words for each of the
// r rows, column words for each of the c columns, and shared words for each index that is a row or
// a column, of which there are at least max(r, c).
struct Zones {
  double row, column, shared;

  // The least k with r c <= words^2 / k: the worst ratio t = r / c.
  double block_constant() const {
    const auto at = [this](double t) {
      const double words = row * t + column + shared * std::max(t, 1.0);
      return words * words / t;
    };
    double least = at(1);
    if (row + shared > 0) least = std::min(least, at(std::max(1.0, column / (row + shared))));
    if (row > 0) least = std::min(least, at(std::min(1.0, (column + shared) / row)));
    return least;
  }
};

// Pebble game. Words that every untouched pair needs dominated: the score path (S or K' bracketing)
// has d disjoint paths through its row and d through its column; the value path dO Y^T A3^T has dv
// (dO enters directly) or min(d, dv) (through Y) in its row, likewise in its column.
double pebble_constant(Pass pass, const LayerShape& shape) {
  const double d = double(shape.d), e = double(shape.dv), through_y = std::min(d, e);
  double least = std::numeric_limits<double>::infinity();
  for (const bool h_form : {false, true}) {
    double value_row = h_form ? e : through_y;
    // Forward: value words per pair that gets all of its products.
    double value_column = h_form ? through_y : d;
    if (pass == Pass::forward) value_row = 0;
    Zones zones = {d + value_row, d + value_column, 0};
    if (shape.tie != Tie::none) zones.column = d;  // A2 = A3 dominates both
    if (shape.tie == Tie::all) zones = {value_row, 0, d};
    least = std::min(least, zones.block_constant());
  }
  return least;
}

// Class F, backward: three choices of bracketing. Sums that are born (U or T; with A1 = A2 also S
// or K') are paid for, so they count as words of their own.
double class_f_backward_constant(const LayerShape& shape) {
  const double d = double(shape.d), e = double(shape.dv), through_y = std::min(d, e);
  double least = std::numeric_limits<double>::infinity();
  for (const bool k_form : {false, true}) {      // A1 (A2 X^T)^T instead of (A1 X) A2^T
    for (const bool h_form : {false, true}) {    // dO (A3 Y)^T instead of (dO Y^T) A3^T
      for (const bool t_form : {false, true}) {  // (A1^T p) A2 instead of A1^T (p A2)
        const double value_row = h_form ? e : through_y;
        const double value_column = h_form ? through_y : d;
        const double u = t_form ? 0 : d, t = t_form ? d : 0;
        Zones zones = {d + value_row + u, d + value_column + t, 0};
        if (shape.tie == Tie::kv) zones.column = d + t;
        if (shape.tie == Tie::all) {
          const bool a_in_rows = k_form || t_form;
          const bool a_in_columns = !k_form || !t_form || !h_form;
          zones = {value_row + u + (k_form ? 0 : d), t + (k_form ? d : 0), 0};
          (a_in_rows && a_in_columns ? zones.shared : a_in_rows ? zones.row : zones.column) += d;
        }
        least = std::min(least, zones.block_constant());
      }
    }
  }
  return least;
}

// max over X of X (pairs / Phi - 1), every X tried, Phi with its three vertices.
double every_segment_length(double pairs, double c, double M) {
  double best = -std::numeric_limits<double>::infinity();
  for (double x = 1; x == 1 || x <= 2 * (pairs - M); ++x) {
    const double most = std::max({(M + x) * (M + x) / c, M + x * x / c, M + x / 2});
    best = std::max(best, x * (pairs / most - 1));
  }
  return best;
}

void expect_near(double value, double expected, const char* what) {
  EXPECT_NEAR(value, std::max(0.0, expected), 1e-9 * (1 + std::abs(expected))) << what;
}

TEST(Bounds, SegmentBoundsAreTheBestOverEverySegmentLength) {
  int positive = 0;
  for (const Tie tie : ties) {
    for (const index_t n : {1, 7, 60}) {
      for (const index_t m : {1, 12, 60}) {
        if (tie == Tie::all && n != m) continue;
        for (const index_t d : {1, 2, 3, 5}) {
          for (const index_t e : {1, 2, 3, 4, 9}) {
            for (const index_t M : {1, 4, 10, 31, 100, 700}) {
              const LayerShape shape = {n, m, d, e, tie};
              SCOPED_TRACE(testing::Message() << name_of(tie) << " n=" << n << " m=" << m
                                              << " d=" << d << " e=" << e << " M=" << M);
              const double pairs = double(n * m), words = double(M);
              const double births = (tie == Tie::all ? 3 : 1) * double(std::max(n, m)) * double(d);
              const double c = class_f_backward_constant(shape);
              const double b2 = every_segment_length(pairs, c, words) - births;
              expect_near(bound_b2(Pass::backward, shape, M), b2, "b2");
              if (b2 > 0) ++positive;
              for (const Pass pass : passes) {
                const double a2 = every_segment_length(pairs, pebble_constant(pass, shape), words);
                expect_near(bound_a2(pass, shape, M), a2, name_of(pass));
              }
              // S, Z against A2, A3, or S, O against A2, h; with A1 = A2 births of S are paid for.
              const double dd = double(d), ee = double(e);
              const double paired = tie == Tie::none ? 2 : 1;
              const double h_columns = tie == Tie::none ? dd + std::min(dd, ee) : dd;
              const double z = every_segment_length(pairs, 4 * 2 * dd * paired * dd, words) -
                               double(n) * std::max(0.0, dd - ee);
              const double h = every_segment_length(pairs, 4 * (dd + ee) * h_columns, words);
              const double of_s = tie == Tie::all ? double(n) * dd : 0;
              expect_near(bound_b2(Pass::forward, shape, M), std::min(z, h) - of_s, "forward b2");
            }
          }
        }
      }
    }
  }
  EXPECT_GT(positive, 400);
}

TEST(Bounds, ConstantsAtDvEqualToD) {
  const auto square = [](Tie tie) { return LayerShape{9, 9, 10, 10, tie}; };
  EXPECT_EQ(pebble_constant(Pass::backward, square(Tie::none)), 1600);
  EXPECT_EQ(pebble_constant(Pass::backward, square(Tie::kv)), 800);
  EXPECT_EQ(pebble_constant(Pass::backward, square(Tie::all)), 400);
  EXPECT_EQ(pebble_constant(Pass::forward, square(Tie::none)), 800);
  EXPECT_EQ(pebble_constant(Pass::forward, square(Tie::kv)), 400);
  EXPECT_EQ(class_f_backward_constant(square(Tie::none)), 2400);
  EXPECT_EQ(class_f_backward_constant(square(Tie::kv)), 1200);
  EXPECT_EQ(class_f_backward_constant(square(Tie::all)), 1200);
}

TEST(Bounds, KnownValuesOfTheClassFBound) {
  const index_t n = 1 << 25, d = 64;
  const double nm = double(n) * double(n);
  const auto in_nm = [&](Pass pass, Tie tie, double mu) {
    const LayerShape shape = {n, n, d, d, tie};
    return bound_b2(pass, shape, index_t(mu * double(d * d))) / nm;
  };
  const double values[][2] = {{3, 1.31}, {4, 1.17}, {5, 1.04}, {6, 0.93}, {8, 0.745}};
  for (const auto& [mu, value] : values) {
    EXPECT_NEAR(in_nm(Pass::backward, Tie::none, mu), value, 0.006) << mu;
  }
  // Leading constants from the M on from which they hold.
  for (const double factor : {1.0, 2.0, 10.0}) {
    const double close = 1e-4 / factor;
    EXPECT_NEAR(in_nm(Pass::backward, Tie::none, 9 * factor), 6 / (9 * factor), close);
    EXPECT_NEAR(in_nm(Pass::backward, Tie::kv, 4.5 * factor), 3 / (4.5 * factor), close);
    EXPECT_NEAR(in_nm(Pass::backward, Tie::all, 4.5 * factor), 3 / (4.5 * factor), close);
    EXPECT_NEAR(in_nm(Pass::forward, Tie::none, 6 * factor), 4 / (6 * factor), close);
    EXPECT_NEAR(in_nm(Pass::forward, Tie::kv, 3 * factor), 2 / (3 * factor), close);
  }
  const auto below = [&](double mu) { return in_nm(Pass::backward, Tie::none, mu) * mu; };
  EXPECT_LT(below(8.9), 6 - 1e-5);  // and not from a smaller M
}

TEST(Bounds, KnownValuesOfThePebbleBound) {
  const index_t n = 1 << 25, d = 64;
  const double nm = double(n) * double(n);
  const LayerShape shape = {n, n, d, d, Tie::none};
  EXPECT_NEAR(bound_a2(Pass::backward, shape, 6 * d * d) / nm, 4.0 / 6, 1e-4);
  EXPECT_NEAR(bound_a2(Pass::backward, shape, 64 * d * d) / nm, 4.0 / 64, 1e-5);
  EXPECT_NEAR(bound_a2(Pass::backward, shape, 1) / nm, 2, 0.1);
  EXPECT_EQ(bound_a2(Pass::backward, {1000, 1000, 8, 8, Tie::none}, 1000000), 0);
}

TEST(Bounds, SmallCachePebbleBound) {
  const index_t n = 1 << 20, m = 1 << 19, d = 240, M = 9600;  // d^2 / 6
  const auto at = [&](Pass pass, Tie tie, index_t words) {
    return bound_g3(pass, {n, m, d, d, tie}, words);
  };
  // Segments of 4 M events make at most (2 M)^1.5 / (1 - 3 M / 2 width^2) multiply-adds: other
  // lengths and other weights say a little more, for M far below the square of the width nothing.
  const double pairs = double(n) * double(m);
  const auto expect_above = [&](double bound, double width, double constant, double words,
                                double births) {
    const double scale = 1 - 3 * words / (2 * width * width);
    const double closed = constant * scale * pairs / std::sqrt(words) - 4 * words - births;
    EXPECT_GE(bound, closed);
    EXPECT_LE(bound, 1.12 * closed);
  };
  const double w = double(d), r18 = std::sqrt(18.0), r12 = std::sqrt(12.0), r8 = std::sqrt(8.0);
  for (const index_t words : {M, M / 10}) {
    const double births = double(n * d), m_words = double(words);
    expect_above(at(Pass::backward, Tie::none, words), w, r18 * w, m_words, births);
    expect_above(at(Pass::backward, Tie::kv, words), w, r12 * w, m_words, births);
    expect_above(at(Pass::forward, Tie::none, words), w, r8 * w, m_words, births);
    expect_above(at(Pass::forward, Tie::kv, words), w, 2 * w, m_words, births);
  }
  // A1 = A2 = A3: only products of pairs were counted, so nothing is lost.
  EXPECT_DOUBLE_EQ(bound_g3(Pass::backward, {n, n, d, d, Tie::all}, M),
                   bound_g3(Pass::backward, {n, n, d, d, Tie::kv}, M));
  // Beyond the square of the width sums over blocks of rows are possible, and with A1 = A2 = A3
  // words of X may stand for many from half of that.
  EXPECT_GT(at(Pass::backward, Tie::kv, d * d), 0);
  EXPECT_EQ(at(Pass::backward, Tie::kv, d * d + 1), 0);
  EXPECT_GT(bound_g3(Pass::backward, {n, n, d, d, Tie::all}, d * d / 2 - 4), 0);
  EXPECT_EQ(bound_g3(Pass::backward, {n, n, d, d, Tie::all}, d * d / 2), 0);
  // dv < d: q takes dv operands from either side, so M is held against dv^2.
  EXPECT_EQ(bound_g3(Pass::backward, {n, m, d, d / 2, Tie::none}, d * d / 4 + 1), 0);
  EXPECT_GT(bound_g3(Pass::backward, {n, m, d, d / 2, Tie::none}, d * d / 4), 0);
  const index_t quarter = M / 4;
  expect_above(bound_g3(Pass::backward, {n, m, d, d / 2, Tie::none}, quarter), w / 2,
               std::sqrt(2.0) * 2.5 * w, double(quarter), double(n * d));
  expect_above(bound_g3(Pass::forward, {n, m, d, d / 2, Tie::none}, quarter), w,
               std::sqrt(2.0) * 1.5 * w, double(quarter), double(n * d));
  // dv > d: q takes d, but forward dv sums of O may be born.
  EXPECT_DOUBLE_EQ(bound_g3(Pass::backward, {n, m, d, 2 * d, Tie::none}, M),
                   at(Pass::backward, Tie::none, M));
  EXPECT_DOUBLE_EQ(bound_g3(Pass::forward, {n, m, d, 2 * d, Tie::none}, M),
                   at(Pass::forward, Tie::none, M) - double(n * d));
}

TEST(Bounds, LoomisWhitneyBound) {
  const index_t n = 3000, m = 2000, d = 400, M = 1024;
  const double nm = 6e6, reads = 2 / 32.0;
  const auto at = [&](Pass pass, index_t e, Tie tie) {
    return bound_c(pass, {n, tie == Tie::all ? n : m, d, e, tie}, M);
  };
  const double thin = 3 * 2000.0 * 400 * 400;
  EXPECT_DOUBLE_EQ(at(Pass::backward, d, Tie::none),
                   reads * (3 * nm * 400 + thin) - 2048 - 2 * nm - 3 * 3000.0 * 400);
  EXPECT_DOUBLE_EQ(at(Pass::backward, d, Tie::kv),
                   reads * (3 * nm * 400 + thin) - 2048 - 3 * nm - 3 * 3000.0 * 400);
  EXPECT_DOUBLE_EQ(at(Pass::backward, d, Tie::all),
                   reads * 3 * 9e6 * 400 - 2048 - 3 * 9e6 - 3 * 3000.0 * 400);
  EXPECT_DOUBLE_EQ(at(Pass::forward, d, Tie::none),
                   reads * (2 * nm * 400 + thin * 2 / 3) - 2048 - nm - 2 * 3000.0 * 400);
  EXPECT_DOUBLE_EQ(at(Pass::forward, d, Tie::kv),
                   reads * (2 * nm * 400 + thin * 2 / 3) - 2048 - 2 * nm - 2 * 3000.0 * 400);
  EXPECT_DOUBLE_EQ(at(Pass::forward, d, Tie::all),
                   reads * 2 * 9e6 * 400 - 2048 - 2 * 9e6 - 2 * 3000.0 * 400);
  // A batch of three: M is had once, and two of three accumulators of dX are not written.
  EXPECT_DOUBLE_EQ(
      bound_c(Pass::backward, {n, m, d, d, Tie::none}, M, 3),
      3 * (reads * (3 * nm * 400 + thin) - 2 * nm - 3 * 3000.0 * 400) - 2048 - 2 * 400.0 * 400);
  // dv = 100: q takes nm dv, G or h min(n, m) d dv; S and U keep their width, so does G.
  EXPECT_DOUBLE_EQ(
      at(Pass::backward, 100, Tie::none),
      reads * (nm * 900 + 2000.0 * (2 * 160000 + 40000)) - 2048 - 2 * nm - 3 * 3000.0 * 400);
  // dv = 900: q takes nm d in the g-form; h has m dv entries.
  EXPECT_DOUBLE_EQ(at(Pass::backward, 900, Tie::none),
                   reads * (nm * 1200 + 2000.0 * (2 * 160000 + 360000)) - 2048 - 2 * nm -
                       2 * 3000.0 * 400 - 2000.0 * 900);
  EXPECT_DOUBLE_EQ(at(Pass::forward, 900, Tie::kv),
                   reads * (nm * 800 + 2000.0 * (160000 + 360000)) - 2048 - 2 * nm - 3000.0 * 400 -
                       2000.0 * 900);
}

TEST(Bounds, Compulsory) {
  const index_t n = 5, m = 7, d = 3, e = 2;
  const auto at = [&](Pass pass, Tie tie) {
    return compulsory_bound(pass, {n, tie == Tie::all ? n : m, d, e, tie});
  };
  const double x_y_o = 9 + 6 + 10;
  EXPECT_EQ(at(Pass::backward, Tie::none), 15 + 21 + 21 + x_y_o + 9);
  EXPECT_EQ(at(Pass::backward, Tie::kv), 15 + 21 + x_y_o + 9);
  EXPECT_EQ(at(Pass::backward, Tie::all), 15 + x_y_o + 9);
  EXPECT_EQ(at(Pass::forward, Tie::none), 15 + 21 + 21 + x_y_o);
  EXPECT_EQ(at(Pass::forward, Tie::kv), 15 + 21 + x_y_o);
  EXPECT_EQ(at(Pass::forward, Tie::all), 15 + x_y_o);
}

// A schedule that computes K' = A2 X^T again for every row block and sums T block by block moves
// 2,463,960 words here (counted word by word). It is outside class F and falls below its bound.
TEST(Bounds, RecomputationFallsBelowClassFButNotBelowThePebbleGame) {
  const LayerShape shape = {2960, 2960, 10, 10, Tie::none};
  const double counted = 2463960;
  const Bound f = lower_bound(Pass::backward, AlgorithmClass::F, shape, 2000);
  const Bound p = lower_bound(Pass::backward, AlgorithmClass::P, shape, 2000);
  EXPECT_GT(f.words, counted);
  EXPECT_EQ(std::string(f.name).front(), 'b');  // b2 or b3
  EXPECT_LE(p.words, counted);
  EXPECT_GE(p.words, 1750320);
  EXPECT_STREQ(p.name, "a2");
}

TEST(Bounds, LowerBoundIsTheLargestOfItsClassAndSaysWhich) {
  std::vector<std::string> seen;
  for (const Pass pass : passes) {
    for (const Tie tie : ties) {
      for (const index_t e : {16, 64, 96}) {
        for (index_t M = 8; M < 10000000; M = M * 3 / 2) {
          const LayerShape shape = {2000, tie == Tie::all ? 2000 : 3000, 64, e, tie};
          const double p = std::max({compulsory_bound(pass, shape), bound_a2(pass, shape, M),
                                     bound_a3(pass, shape, M), bound_g3(pass, shape, M)});
          const double f = std::max(
              {p, bound_b2(pass, shape, M), bound_c(pass, shape, M), bound_b3(pass, shape, M)});
          const Bound in_p = lower_bound(pass, AlgorithmClass::P, shape, M);
          const Bound in_f = lower_bound(pass, AlgorithmClass::F, shape, M);
          EXPECT_EQ(in_p.words, p);
          EXPECT_EQ(in_f.words, f);
          for (const Bound& bound : {in_p, in_f}) {
            const std::string name = bound.name;
            const double words = name == "compulsory" ? compulsory_bound(pass, shape)
                                 : name == "a2"       ? bound_a2(pass, shape, M)
                                 : name == "G3"       ? bound_g3(pass, shape, M)
                                 : name == "b2"       ? bound_b2(pass, shape, M)
                                 : name == "c"        ? bound_c(pass, shape, M)
                                 : name == "a3"       ? bound_a3(pass, shape, M)
                                                      : bound_b3(pass, shape, M);
            EXPECT_EQ(bound.words, words) << name;
            EXPECT_NE(std::string(bound.assumption), "");
            seen.push_back(name);
          }
          const std::string of_p = in_p.name;
          EXPECT_TRUE(of_p == "compulsory" || of_p == "a2" || of_p == "a3" || of_p == "G3") << of_p;
        }
      }
    }
  }
  for (const char* name : {"compulsory", "a2", "G3", "b2", "c", "b3", "a3"}) {
    EXPECT_NE(std::find(seen.begin(), seen.end(), name), seen.end()) << name;
  }
}

TEST(Bounds, SchedulesThatSumInBlocksAreOutsideClassF) {
  for (const Pass pass : passes) {
    for (int i = 0; i < schedule_count; ++i) {
      const Schedule schedule = static_cast<Schedule>(i);
      const bool in_blocks =
          schedule == Schedule::paper_large || schedule == Schedule::weight_resident;
      const bool outside = pass == Pass::backward && in_blocks;
      EXPECT_EQ(class_of(pass, schedule), outside ? AlgorithmClass::P : AlgorithmClass::F);
    }
  }
}

TEST(Bounds, PaperFormulaAndRegime) {
  const LayerShape shape = {4096, 4096, 64, 64, Tie::none};
  EXPECT_EQ(regime(shape, 4095), Regime::small_cache);
  EXPECT_EQ(regime(shape, 4096), Regime::large_cache);
  const double n2 = 4096.0 * 4096;
  EXPECT_DOUBLE_EQ(paper_formula(shape, 1 << 18), n2 * (1 + 1.0 / 64) / 64);
  EXPECT_DOUBLE_EQ(paper_formula(shape, 4096), n2 * (1 + 1.0 / 64));  // the branches meet
  EXPECT_DOUBLE_EQ(paper_formula(shape, 256), n2 * (4 + 1.0 / 16));
  EXPECT_DOUBLE_EQ(paper_formula({100, 400, 8, 3, Tie::none}, 64), (40000.0 * 64 + 400 * 512) / 64);
}

// Sizes far beyond 2^63 products and every M end, in finite numbers.
TEST(Bounds, ExtremeSizes) {
  const index_t large = index_t(1) << 40;
  for (const index_t M : {index_t(1), large, std::numeric_limits<index_t>::max()}) {
    for (const Pass pass : passes) {
      const Bound bound = lower_bound(pass, AlgorithmClass::F, {large, large, large, 1}, M);
      EXPECT_TRUE(std::isfinite(bound.words));
      EXPECT_GE(bound.words, compulsory_bound(pass, {large, large, large, 1}));
    }
  }
}

}  // namespace
}  // namespace ioattn::theory
