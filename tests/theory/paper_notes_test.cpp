// The facts about formulas that docs/paper-notes.md states, by its numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"
#include "theory/word_level.hpp"

namespace ioattn::theory {
namespace {

LayerShape square(index_t n, index_t d) { return {n, n, d, d, Tie::none}; }
IoCost phase(const ScheduleCost& cost, const std::string& name) {
  for (int i = 0; i < cost.phase_count; ++i) {
    const PhaseCost& phase = cost.phases[std::size_t(i)];
    if (phase.name == name) return phase.cost;
  }
  ADD_FAILURE() << "there is no phase " << name;
  return {};
}
double large_branch(double n, double d, double M) { return (n * n * d * d + n * d * d * d) / M; }

TEST(PaperNotes, E1TheLargeCacheAlgorithmNeverMovesLessThanTwoWordsAPair) {
  const struct {
    index_t n, M;
    double words, claim;  // per n^2
  } cases[] = {{4096, index_t{1} << 18, 2.157, 0.0159}, {65536, index_t{1} << 22, 2.0, 0.00098}};
  for (const auto& of : cases) {
    const double pairs = double(of.n) * double(of.n);
    const LayerShape shape = square(of.n, 64);
    ASSERT_LE(of.M, of.n * 64);  // the theorem's own condition
    const double nominal = double(word_level::paper_large_backward_nominal(shape, of.M).total());
    EXPECT_NEAR(nominal / pairs, of.words, 0.02);
    EXPECT_NEAR(large_branch(double(of.n), 64, double(of.M)) / pairs, of.claim, 0.01 * of.claim);
    EXPECT_GE(double(word_level::paper_large_backward(shape, of.M)->total()), 2 * pairs);
    // The caps swapped, B_r = B and B_c = min{B, d}, the cost is of the claimed order.
    const auto swapped = word_level::paper_large_backward(shape, of.M, word_level::Caps::swapped);
    EXPECT_LT(double(swapped->total()), 25 * large_branch(double(of.n), 64, double(of.M)));
    // Phase 1 reads X and Y once per block of at most d rows: 2nd words beside A1 and A3.
    Blocks blocks;
    blocks.r = std::min(ceil_div(of.M, 4 * 64), index_t(64));
    blocks.c = ceil_div(of.M, 4 * 64);
    const ScheduleCost cost = io_cost(Pass::backward, Schedule::paper_large, shape, blocks);
    EXPECT_EQ(phase(cost, "P1").reads, 2 * of.n * 64 + 2 * of.n * 64);
  }
}

TEST(PaperNotes, E2ThePrintedBlocksDoNotFit) {
  const index_t d = 64, n = 1 << 20;
  const double expected[][2] = {{1, 2.5625}, {2, 2.125}, {4, 2.25}, {16, 1.5}, {256, 1.27}};
  for (const auto& [ratio, overflow] : expected) {
    const index_t M = index_t(ratio * double(d * d));
    Blocks blocks;
    blocks.r = std::min(ceil_div(M, 4 * d), d);
    blocks.c = ceil_div(M, 4 * d);
    blocks.literal = true;
    const IoCost cost =
        io_cost(Pass::backward, Schedule::paper_large, square(n, d), blocks).total();
    EXPECT_NEAR(double(cost.footprint) / double(M), overflow, 0.02) << ratio;
  }
  // With h_J deleted and blocks of one row it fits from d^2 + 5d + 3 on.
  EXPECT_TRUE(word_level::paper_large_backward(square(n, d), d * d + 5 * d + 3).has_value());
  EXPECT_FALSE(word_level::paper_large_backward(square(n, d), d * d + 5 * d + 2).has_value());
}

TEST(PaperNotes, E3PhaseThreeMovesFiveWordsAPair) {
  Blocks blocks;
  blocks.r = blocks.c = 8;
  const ScheduleCost cost =
      io_cost(Pass::backward, Schedule::paper_small, square(1024, 16), blocks);
  const double pairs = 1024.0 * 1024;
  EXPECT_EQ(double(phase(cost, "3").words()), 5 * pairs);
  EXPECT_LT(pairs / std::sqrt(4 * 64.0), 0.07 * pairs);  // n^2 / sqrt(M), M = 4 B^2
}

TEST(PaperNotes, E4NotForAnyM) {
  const LayerShape shape = square(4096, 64);
  const double all = compulsory_bound(Pass::backward, shape);
  EXPECT_LT(paper_formula(shape, index_t(16) * 4096 * 64), all);  // M > nd
  EXPECT_GT(paper_formula(shape, 4096), all);
  for (const index_t n : {2, 31}) {  // n < sqrt(M)
    EXPECT_LT(paper_formula(square(n, 64), 1024), double(n) * 64 + 64 * 64);
  }
  EXPECT_GT(paper_formula(square(33, 64), 1024), 33.0 * 64 + 64 * 64);
}

// With Irony, Toledo and Tiskin's constant the reduction leaves something only below d^2 / 8, with
// 2 below 4 d^2, and the bound from A1 X alone never exceeds its inputs.
TEST(PaperNotes, E7TheReductionIsVacuousForMostSmallCaches) {
  const double n = 1 << 20, d = 512;
  const auto reduction = [&](double M) { return n * n * d / (2 * std::sqrt(2 * M)) - M - n * n; };
  EXPECT_GT(reduction(d * d / 8.5), 0);
  EXPECT_LT(reduction(d * d / 8), 0);
  const auto with_2 = [&](double M) { return 2 * n * n * d / std::sqrt(M) - 2 * M - n * n; };
  EXPECT_GT(with_2(3.9 * d * d), 0);
  EXPECT_LT(with_2(4 * d * d), 0);
  for (const double M : {d * d, 4 * d * d, n * d}) EXPECT_LE(n * d * d * d / M, n * d);
  // What takes its place, recomputation allowed.
  EXPECT_GT(bound_g3(Pass::backward, square(1 << 20, 512), 512 * 512 / 6), 5 * n * n);
}

TEST(PaperNotes, E10SlipsOfThePen) {
  // Alg. 1. What is left beside p, f and q of n x m is delta, n words: l is gone. dX is d x d.
  const index_t n = 40, d = 4;
  const IoCost naive = io_cost(Pass::backward, Schedule::naive, square(n, d), {}).total();
  EXPECT_EQ(naive.footprint, 2 * n * d + 3 * n * n + n);
  EXPECT_EQ(naive.writes, d * d);
  // Phase 2 reads A3, Y, dO and h in blocks, and nothing of n x m, as f is.
  Blocks blocks;
  blocks.r = blocks.c = 2;
  const ScheduleCost small = io_cost(Pass::backward, Schedule::paper_small, square(n, d), blocks);
  EXPECT_EQ(phase(small, "2a").reads, n * d * d);
  EXPECT_EQ(phase(small, "2b").reads, 2 * d * n * (n / 2));
  // Alg. 9 has two phases, Alg. 7 and 8.
  const ScheduleCost large = io_cost(Pass::backward, Schedule::paper_large, square(n, d), blocks);
  EXPECT_EQ(large.phase_count, 2);
  // The proof of Phase 2 takes T_c B_c = O(n). At M = nd, with B_r for B_c, it is n^2 / 4d.
  for (const index_t rows : {4096, 65536}) {
    const index_t M = rows * 64, b_c = ceil_div(M, 4 * 64), b_r = std::min(b_c, index_t(64));
    EXPECT_EQ(ceil_div(rows, b_c) * b_c, rows);
    EXPECT_EQ(ceil_div(rows, b_r) * b_c, rows * rows / (4 * 64));
  }
}

TEST(PaperNotes, E12StoredScoresTakeMoreThanTheInputs) {
  const index_t n = 16384;
  const double gigabytes = 3 * double(n) * double(n) * 4 / 1e9;  // f, q, p in float32
  EXPECT_NEAR(gigabytes, 3.2, 0.05);
}

// (n^2 d^2 + n d^3)/M = (n^2 d + n d^2)/sqrt(M) at sqrt(M) = d, whatever n is.
TEST(PaperNotes, E13TheDividingPointIsExact) {
  for (const double n : {1.0, 3.0, 64.0, 1e6}) {
    for (const double d : {2.0, 64.0, 1000.0}) {
      const double root = (n * n * d * d + n * d * d * d) / (n * n * d + n * d * d);
      EXPECT_NEAR(root, d, 1e-12 * d);
    }
  }
  // The constants move it: at M = 0.75 d^2, float32 in 48 KiB for d = 128, the fused order moves
  // fewer words than the paper's small-cache algorithm.
  const LayerShape shape = square(4096, 128);
  EXPECT_EQ(regime(shape, 12288), Regime::small_cache);
  EXPECT_LT(word_level::row_stream_backward(shape, 12288)->total(),
            word_level::paper_small_backward(shape, 12288)->total() / 2);
}

}  // namespace
}  // namespace ioattn::theory
