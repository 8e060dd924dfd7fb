#include "theory/core_bounds.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "theory/gradients_bounds.hpp"
#include "theory/recomputation_bound.hpp"
#include "theory/sdpa_bounds.hpp"

namespace ioattn::theory {
namespace {

SdpaShape square(index_t n, index_t d) {
  SdpaShape shape;
  shape.n = shape.m = n;
  shape.d = shape.dv = d;
  return shape;
}

struct SetCase {
  const char* name;
  SdpaSet set;
  double streamed;  // b2 in n m d^2 / M, for d = dv
  double width;     // multiply-adds in n m d
  double norm2;
};
const SetCase sets[] = {
    {"dQ", {true, false, false}, 6, 3, 1},           {"dK", {false, true, false}, 6, 3, 1},
    {"dV", {false, false, true}, 4, 2, 1},           {"dK dV", {false, true, true}, 8, 4, 1},
    {"dQ dV", {true, false, true}, 9, 4, 1},         {"dQ dK", {true, true, false}, 9, 4, 4.0 / 3},
    {"dQ dK dV", {true, true, true}, 12, 5, 4.0 / 3}};

// Leading constants: those of row_stream's dQ and col_stream's dK, dV and both are met.
TEST(CoreBounds, LeadingConstantsOfSdpa) {
  const index_t n = 1 << 25, d = 64, M = 40 * d * d;
  const double unit = double(n) * double(n) * double(d) * double(d) / double(M);
  for (const SetCase& of : sets) {
    const BoundSet bounds = sdpa_backward_bounds(square(n, d), of.set, M);
    EXPECT_NEAR(bounds.b2 / unit, of.streamed, 1e-4 * of.streamed) << of.name;
    EXPECT_NEAR(bounds.a2 / unit, of.set.dQ || of.set.dK ? 4 : 2, 1e-3) << of.name;
  }
  const BoundSet forward = sdpa_forward_bounds(square(n, d), M);
  EXPECT_NEAR(forward.b2 / unit, 4, 1e-3);
  EXPECT_NEAR(forward.a2 / unit, 2, 1e-3);
}

TEST(CoreBounds, SmallCacheConstantsOfSdpa) {
  const index_t n = 1 << 20, d = 600, M = 2500;
  const double pairs = double(n) * double(n), unit = pairs * double(d) / 50;
  const double scale = 1 - 3.0 * double(M) / (2.0 * double(d) * double(d));
  for (const SetCase& of : sets) {
    const BoundSet bounds = sdpa_backward_bounds(square(n, d), of.set, M);
    const double names = of.set.dQ || of.set.dK ? 2 : 1;
    EXPECT_NEAR(bounds.c, 2 * of.width / std::sqrt(of.norm2) * unit - names * pairs - 2 * 2500,
                1e-9 * bounds.c)
        << of.name;
    // Other lengths of a segment than 4 M say a little more.
    const double of_length = std::sqrt(2 / of.norm2) * of.width * scale * unit - 4 * 2500;
    EXPECT_GE(bounds.g3, of_length) << of.name;
    EXPECT_LE(bounds.g3, 1.005 * of_length) << of.name;
  }
  // dv < d: q takes dv operands from either side.
  SdpaShape narrow = square(n, d);
  narrow.dv = d / 2;
  const double of_narrow = std::sqrt(2.0) * 2.5 * pairs * double(d) * 0.75 / std::sqrt(15000.0);
  const double found = sdpa_backward_bounds(narrow, sets[0].set, 15000).g3;
  EXPECT_GE(found, of_narrow - 4 * 15000);
  EXPECT_LE(found, 1.12 * of_narrow);
  // The words that are the outputs' alone come on top, once for each word of a bias.
  SdpaShape biased = square(n, d);
  biased.bias_batch = biased.bias_heads = 1;
  const SdpaSet all = {true, true, true, false, true};
  const BoundSet without = sdpa_backward_bounds(square(n, d), sets[6].set, M);
  const BoundSet with = sdpa_backward_bounds(biased, all, M);
  EXPECT_DOUBLE_EQ(with.c, without.c + 2 * pairs);
  EXPECT_DOUBLE_EQ(with.b2, without.b2 + pairs);
  EXPECT_DOUBLE_EQ(with.compulsory, without.compulsory + 2 * pairs);
  // What is added to is read, too.
  SdpaSet added = all;
  added.accumulate = true;
  const double outputs = 3 * double(n) * double(d) + pairs;
  EXPECT_DOUBLE_EQ(sdpa_backward_bounds(biased, added, M).compulsory, with.compulsory + outputs);
}

// Products that a segment can make of its names, as a tensor: one entry per kind of multiply-add,
// with its row operand (Q, dO, dQ), its column operand (K, V, dK, dV) and its name of a pair.
struct Product {
  int row, column, name;
};
enum { Q, DO, DQ };
enum { K, V, DK, DV };

std::vector<Product> products_of(const SdpaSet& set) {
  std::vector<Product> products = {{Q, K, 0}};
  if (set.dV) products.push_back({DO, DV, 0});
  if (set.dQ || set.dK) products.push_back({DO, V, 1});
  if (set.dQ) products.push_back({DQ, K, 1});
  if (set.dK) products.push_back({Q, DK, 1});
  return products;
}

// The largest sum of x_row y_column z_name over unit vectors: alternating maximisation, from many
// starts.
double spectral_norm(const std::vector<Product>& products) {
  std::mt19937 generator(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  double best = 0;
  for (int start = 0; start < 200; ++start) {
    std::array<std::array<double, 4>, 3> v{};
    for (auto& vector : v) {
      for (double& entry : vector) entry = uniform(generator);
    }
    double value = 0;
    for (int step = 0; step < 2000; ++step) {
      for (std::size_t which = 0; which < 3; ++which) {
        std::array<double, 4> next{};
        for (const Product& p : products) {
          const std::size_t at[] = {std::size_t(p.row), std::size_t(p.column), std::size_t(p.name)};
          double term = 1;
          for (std::size_t other = 0; other < 3; ++other) {
            if (other != which) term *= v[other][at[other]];
          }
          next[at[which]] += term;
        }
        value = 0;
        for (const double entry : next) value += entry * entry;
        value = std::sqrt(value);
        if (value > 0) {
          for (double& entry : next) entry /= value;
        }
        v[which] = next;
      }
    }
    best = std::max(best, value);
  }
  return best;
}

TEST(CoreBounds, NormsOfTheColouring) {
  for (const SetCase& of : sets) {
    EXPECT_NEAR(spectral_norm(products_of(of.set)), std::sqrt(of.norm2), 1e-6) << of.name;
  }
}

// Independent problems that share M: pairs add up, and M is had once. Heads of a group see the same
// keys, so they are one problem of more queries.
TEST(CoreBounds, WhatAddsUp) {
  const index_t M = 3000;
  SdpaShape one = square(3000, 24), apart = one, group = one, more = one;
  apart.batch = 2, apart.heads = apart.kv_heads = 3;
  group.heads = 6;
  more.n = 6 * one.n;
  for (const SetCase& of : sets) {
    const BoundSet single = sdpa_backward_bounds(one, of.set, M);
    const BoundSet six = sdpa_backward_bounds(apart, of.set, M);
    const BoundSet shared = sdpa_backward_bounds(group, of.set, M);
    const BoundSet longer = sdpa_backward_bounds(more, of.set, M);
    EXPECT_EQ(six.compulsory, 6 * single.compulsory);
    EXPECT_GE(six.b2, 6 * single.b2) << of.name;  // not less: a segment may serve several
    EXPECT_GE(six.a2, 6 * single.a2) << of.name;
    EXPECT_GE(six.c, 6 * single.c) << of.name;
    for (double BoundSet::*bound : {&BoundSet::compulsory, &BoundSet::a2, &BoundSet::g3,
                                    &BoundSet::b2, &BoundSet::c, &BoundSet::b3, &BoundSet::a3}) {
      EXPECT_EQ(shared.*bound, longer.*bound) << of.name;
    }
    EXPECT_LT(shared.compulsory, six.compulsory) << of.name;
  }
}

// A mask that hides nothing, and one that leaves a block.
TEST(CoreBounds, MasksCountTheirPairs) {
  const LayerShape full = {400, 500, 16, 16, Tie::none};
  LayerShape open = full, block = full;
  open.mask = {-400, 500};
  block.mask = {-Mask::unbounded, -300};  // queries 300 ... see keys 0 ... i - 300
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const BoundSet all = layer_bounds(pass, full, 900), same = layer_bounds(pass, open, 900);
    for (double BoundSet::*bound : {&BoundSet::compulsory, &BoundSet::a2, &BoundSet::g3,
                                    &BoundSet::b2, &BoundSet::c, &BoundSet::b3, &BoundSet::a3}) {
      EXPECT_EQ(all.*bound, same.*bound);
    }
    const LayerShape dense = {100, 100, 16, 16, Tie::none};
    EXPECT_EQ(layer_bounds(pass, block, 900).compulsory, layer_bounds(pass, dense, 900).compulsory);
    EXPECT_EQ(pairs_of(block), 100 * 101 / 2.0);
    EXPECT_LT(layer_bounds(pass, block, 100).a2, layer_bounds(pass, dense, 100).a2);
    EXPECT_GT(layer_bounds(pass, block, 100).a2, 0);
  }
  // Any mask, by its counts: a causal one, and blocks on the diagonal, which are dense problems.
  const PairCounts seen = {100 * 101 / 2.0, 100, 100};
  EXPECT_EQ(masked_bounds(Pass::backward, seen, 16, 16, Tie::none, 90).b2,
            bound_b2(Pass::backward, block, 90));
  for (const Tie tie : {Tie::none, Tie::kv, Tie::all}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const index_t M : {7, 90, 700, 20000}) {
        const LayerShape all = {100, tie == Tie::all ? 100 : 300, 16, 24, tie};
        const BoundSet dense = layer_bounds(pass, all, M);
        const PairCounts every = {100.0 * double(all.m), 100, double(all.m)};
        const BoundSet masked = masked_bounds(pass, every, 16, 24, tie, M);
        for (double BoundSet::*bound :
             {&BoundSet::compulsory, &BoundSet::a2, &BoundSet::g3, &BoundSet::b2, &BoundSet::c,
              &BoundSet::b3, &BoundSet::a3}) {
          EXPECT_EQ(masked.*bound, dense.*bound) << name_of(tie) << M;
        }
      }
    }
  }
  const PairCounts one = {100.0 * 100, 100, 100}, blocks = {5 * 100.0 * 100, 500, 500};
  const auto at = [](const PairCounts& counts) {
    return masked_bounds(Pass::backward, counts, 16, 16, Tie::none, 90);
  };
  EXPECT_EQ(at(one).a2, bound_a2(Pass::backward, {100, 100, 16, 16, Tie::none}, 90));
  EXPECT_GT(at(blocks).a2, 5 * at(one).a2);
  EXPECT_GT(at(blocks).b2, 5 * at(one).b2);
  LayerShape nothing = full;
  nothing.mask = {1000, 1001};
  EXPECT_EQ(lower_bound(Pass::backward, AlgorithmClass::F, nothing, 10).words, 0);
}

TEST(CoreBounds, SetsOfGradientsByWhatTheyNeed) {
  const LayerShape shape = {3000, 2000, 40, 40, Tie::none};
  const index_t M = 200;
  const auto at = [&](const GradientSet& set) { return gradients_bounds(shape, set, M); };
  const BoundSet dx = at({.dX = true}), layer = layer_bounds(Pass::backward, shape, M);
  for (double BoundSet::*bound : {&BoundSet::compulsory, &BoundSet::a2, &BoundSet::g3,
                                  &BoundSet::b2, &BoundSet::c, &BoundSet::b3, &BoundSet::a3}) {
    EXPECT_EQ(dx.*bound, layer.*bound);
  }
  const double n = 3000, m = 2000, d = 40;
  // p is needed by all but dA3 and dY; without dX nothing is claimed for class F.
  for (const GradientSet& set : {GradientSet{.dA1 = true}, GradientSet{.dA2 = true}}) {
    EXPECT_EQ(at(set).a2, layer.a2);
    EXPECT_EQ(at(set).g3, layer.g3);
    EXPECT_EQ(at(set).b2, 0);
  }
  EXPECT_EQ(at({.dW_Q = true, .dk = 8}).a2, layer.a2);
  EXPECT_LT(at({.dW_Q = true, .dk = 8}).g3, layer.g3);
  EXPECT_EQ(at({.dY = true}).a2, bound_a2(Pass::forward, shape, M));
  // Without p: columns of dA3 are A2 and G or dO whatever is tied, those of dY are A2 and A3.
  LayerShape kv = shape, all = shape;
  kv.tie = Tie::kv;
  all.tie = Tie::all, all.m = all.n;
  const auto a2_of = [&](const LayerShape& of, const GradientSet& set) {
    return gradients_bounds(of, set, M).a2;
  };
  EXPECT_EQ(a2_of(kv, {.dA3 = true}), bound_a2(Pass::forward, shape, M));
  EXPECT_EQ(a2_of(kv, {.dY = true}), bound_a2(Pass::forward, kv, M));
  EXPECT_EQ(a2_of(all, {.dA3 = true}), bound_a2(Pass::backward, all, M));
  EXPECT_EQ(a2_of(all, {.dY = true}), bound_a2(Pass::forward, all, M));
  EXPECT_EQ(at({.dY = true}).compulsory, (n + 2 * m) * d + n * d + 2 * d * d);
  EXPECT_EQ(at({.dA3 = true}).compulsory, (n + m) * d + n * d + 2 * d * d + m * d);
  EXPECT_EQ(at({.dX = true, .dA1 = true, .dA2 = true}).compulsory, dx.compulsory + n * d + m * d);
  EXPECT_EQ(at({.dX = true, .dW_Q = true, .dk = 8}).compulsory, dx.compulsory + 2 * d * 8);
}

// G3 of sets that count fewer products than dX: of E and q alone, and of E and products with f.
TEST(CoreBounds, SmallCachesOfSetsOfGradients) {
  const index_t n = 100000, d = 80, M = 6000;
  const double pairs = double(n) * double(n), scores = pairs * double(d);
  LayerShape shape = {n, n, d, d, Tie::none};
  const auto at = [&](const GradientSet& set) { return gradients_bounds(shape, set, M).g3; };
  const auto expected = [&](double births, Weighing (*weigh)(double)) {
    return recomputation_bound({scores, scores, double(d), births, Operands::computed}, weigh, M);
  };
  EXPECT_EQ(at({.dW_Q = true, .dk = 8}), expected(0, weigh_backward));
  EXPECT_EQ(at({.dA3 = true}), expected(double(n * d), weigh_forward));
  EXPECT_GT(at({.dA3 = true}), 0);
  shape.tie = Tie::kv;
  EXPECT_EQ(at({.dW_Q = true, .dk = 8}), expected(0, weigh_scores_and_q_tied));
  EXPECT_EQ(at({.dA3 = true}), expected(double(n * d), weigh_forward_tied));
}

// r rows of S and of G and 2 r of A2, which serve both, make 2 r^2 scores and as many q.
TEST(CoreBounds, SegmentsOfSharedKeys) {
  const double weight = 0.6, r = 0.5;
  const double made = (1 + weight) * 2 * r * r;
  EXPECT_DOUBLE_EQ(most_of_segment(4 * r, weigh_scores_and_q_tied(weight), Operands::given), made);
  EXPECT_LT(most_of_segment(4 * r, weigh_backward(weight), Operands::given), made);
}

TEST(CoreBounds, ClassesOfSets) {
  SdpaBlocks two_passes, one_pass;
  one_pass.keys.one_pass = true;
  EXPECT_EQ(class_of(SdpaSet{true, true, true}, one_pass), AlgorithmClass::F);
  EXPECT_EQ(class_of(SdpaSet{true, true, true}, two_passes), AlgorithmClass::P);
  EXPECT_EQ(class_of(SdpaSet{false, true, true}, two_passes), AlgorithmClass::F);
  EXPECT_EQ(class_of(SdpaSet{true}, two_passes), AlgorithmClass::F);
  LayerBlocks blocks;
  EXPECT_EQ(class_of(GradientSet{.dX = true}, blocks, Tie::none), AlgorithmClass::F);
  blocks.schedule = Schedule::weight_resident;
  EXPECT_EQ(class_of(GradientSet{.dX = true}, blocks, Tie::none), AlgorithmClass::P);
  blocks.schedule = Schedule::row_stream;
  EXPECT_EQ(class_of(GradientSet{.dX = true, .dA2 = true}, blocks, Tie::none), AlgorithmClass::P);
  EXPECT_EQ(class_of(GradientSet{.dA2 = true}, blocks, Tie::none), AlgorithmClass::F);
  blocks.keys.one_pass = true;
  EXPECT_EQ(class_of(GradientSet{.dX = true, .dA2 = true}, blocks, Tie::none), AlgorithmClass::F);
}

}  // namespace
}  // namespace ioattn::theory
