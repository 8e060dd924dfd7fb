// Bounds of SDPA, of passes over the keys, of sets of gradients, of masks and of batches against
// the exact costs of the schedules that make them, with random blocks: a run of blocks that keep M
// words is one with a fast memory of M.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "theory/block_costs.hpp"
#include "theory/gradients_bounds.hpp"
#include "theory/gradients_cost.hpp"
#include "theory/random_shapes.hpp"
#include "theory/sdpa_bounds.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn::theory {
namespace {

using ioattn_test::Random;

// Holds costs against bounds and remembers how close they came.
class Comparison {
 public:
  void check(const std::string& what, const BoundSet& bounds, AlgorithmClass algorithms,
             const IoCost& cost) {
    const double words = double(cost.words());
    const auto compare = [&](const char* name, double bound) {
      EXPECT_GE(bound, 0) << what;
      EXPECT_LE(bound, words) << name << ": " << what << " M=" << cost.footprint;
      double& closest = closest_[name];
      if (bound > 0) closest = std::max(closest, bound / words);
      ++compared_;
    };
    compare("compulsory", bounds.compulsory);
    compare("a2", bounds.a2);
    compare("G3", bounds.g3);
    compare("a3", bounds.a3);
    if (algorithms == AlgorithmClass::P) return;
    compare("b2", bounds.b2);
    compare("c", bounds.c);
    compare("b3", bounds.b3);
  }
  // How much of the words each bound explained at least once.
  void expect_close(const std::map<std::string, double>& shares) const {
    for (const auto& [name, share] : shares) EXPECT_GT(closest_.at(name), share) << name;
  }
  int compared() const { return compared_; }

 private:
  std::map<std::string, double> closest_;
  int compared_ = 0;
};

std::string text_of(const LayerShape& s) {
  return " n=" + std::to_string(s.n) + " m=" + std::to_string(s.m) + " d=" + std::to_string(s.d) +
         " dv=" + std::to_string(s.dv) + " tie=" + name_of(s.tie) + " " + mask_text(s);
}

TEST(CoreBoundsSweep, Sdpa) {
  Random random(7);
  Comparison forward, backward;
  for (int round = 0; round < 24000; ++round) {
    LayerShape head = random.shape();
    if (round % 3 == 0) head.mask = random.mask(head);
    SdpaShape shape;
    shape.n = head.n, shape.m = head.m, shape.d = head.d, shape.dv = head.dv;
    shape.mask = head.mask;
    shape.batch = 1 + random.below(3);
    shape.kv_heads = 1 + random.below(2);
    shape.heads = shape.kv_heads * (1 + random.below(4));
    if (round % 4 == 0) {
      shape.bias_batch = random.coin() ? 1 : shape.batch;
      shape.bias_heads = random.coin() ? 1 : shape.heads;
    }
    const std::string what = "batch=" + std::to_string(shape.batch) +
                             " heads=" + std::to_string(shape.heads) +
                             " kv=" + std::to_string(shape.kv_heads) +
                             " biases=" + std::to_string(shape.all_biases()) + text_of(head);

    SdpaBlocks blocks;
    blocks.rows = random.blocks(head, Form::h, Products::stored);
    blocks.keys = random.blocks(head, Form::h, Products::stored);
    if (round % 2 == 1) blocks.by_keys = Schedule::tile_fused;
    Blocks of_forward = blocks.rows;
    if (random.coin()) of_forward.r = 0;  // tile_fused
    const IoCost cost = sdpa_forward_cost(shape, of_forward).total();
    forward.check("forward " + what, sdpa_forward_bounds(shape, cost.footprint), AlgorithmClass::F,
                  cost);

    SdpaSet set;
    while (set.is_empty()) {
      set.dQ = random.coin(), set.dK = random.coin(), set.dV = random.coin();
      set.dBias = shape.has_bias() && random.coin();
    }
    set.accumulate = random.below(5) == 0;
    blocks.keys.one_pass = set.may_be_one_pass(blocks.by_keys) && random.coin();
    const IoCost of_set = sdpa_backward_cost(shape, set, blocks).total();
    const std::string outputs = std::string(set.dQ ? "dQ " : "") + (set.dK ? "dK " : "") +
                                (set.dV ? "dV " : "") + (set.dBias ? "dBias " : "") +
                                (blocks.keys.one_pass ? "one pass " : "");
    backward.check(outputs + what, sdpa_backward_bounds(shape, set, of_set.footprint),
                   class_of(set, blocks), of_set);
  }
  EXPECT_GE(forward.compared(), 100000);
  forward.expect_close({{"compulsory", 0.999}, {"a2", 0.3}, {"b2", 0.85}, {"c", 0.3}, {"b3", 0.8}});
  backward.expect_close({{"compulsory", 0.99}, {"a2", 0.3}, {"b2", 0.8}, {"c", 0.3}, {"b3", 0.7}});
}

TEST(CoreBoundsSweep, PassesOverTheKeys) {
  Random random(8);
  Comparison comparison;
  for (int round = 0; round < 20000; ++round) {
    LayerShape shape = random.shape();
    if (round % 2 == 1) shape.tie = Tie::kv;
    if (round % 3 == 0) shape.mask = random.mask(shape);
    const Form form = random.coin() ? Form::g : Form::h;
    KeyGradients wanted = static_cast<KeyGradients>(random.below(4));
    if (wanted == KeyGradients::sum && (form == Form::h || shape.tie == Tie::none)) {
      wanted = KeyGradients::both;
    }
    const KeyPassKind kind = {wanted, random.coin()};
    const Blocks blocks = random.blocks(shape, form, Products::stored);
    const IoCost cost = col_stream(shape, blocks, kind);
    for (const AlgorithmClass algorithms : {AlgorithmClass::P, AlgorithmClass::F}) {
      const Bound bound = key_gradients_bound(algorithms, shape, form, kind, cost.footprint);
      EXPECT_LE(bound.words, double(cost.words()))
          << bound.name << " form " << name_of(form) << " " << name_of(wanted) << " "
          << kind.queries << text_of(shape) << " M=" << cost.footprint;
      EXPECT_GT(bound.words, 0);
    }
    comparison.check(
        "", {key_gradients_bound(AlgorithmClass::F, shape, form, kind, cost.footprint).words},
        AlgorithmClass::F, cost);
  }
  comparison.expect_close({{"compulsory", 0.999}});
}

TEST(CoreBoundsSweep, MasksAndBatchesOfTheLayerProblem) {
  Random random(9);
  Comparison comparison;
  for (int round = 0; round < 20000; ++round) {
    LayerShape shape = random.shape();
    shape.tie = static_cast<Tie>(random.below(3));
    if (shape.tie == Tie::all) shape.n = shape.m = std::max(shape.n, shape.m);
    const bool masked = round % 4 > 0;
    if (masked) shape.mask = random.mask(shape);
    const Batch batch = {1 + random.below(4), random.coin()};
    const Products products = random.coin() ? Products::fused : Products::stored;
    const Blocks blocks = random.blocks(shape, random.coin() ? Form::g : Form::h, products);
    const std::string what = "entries=" + std::to_string(batch.entries) + text_of(shape);

    const IoCost forward = forward_cost(Schedule::row_stream, shape, blocks, batch).total();
    comparison.check("forward " + what,
                     layer_bounds(Pass::forward, shape, forward.footprint, batch.entries),
                     AlgorithmClass::F, forward);
    LayerBlocks alone;
    alone.rows = blocks;
    const IoCost backward = gradients_cost(shape, {.dX = true}, alone, batch).total();
    comparison.check("backward " + what,
                     layer_bounds(Pass::backward, shape, backward.footprint, batch.entries),
                     AlgorithmClass::F, backward);
  }
  comparison.expect_close({{"compulsory", 0.9}, {"a2", 0.3}, {"b2", 0.8}, {"c", 0.3}, {"b3", 0.7}});
}

TEST(CoreBoundsSweep, SetsOfGradients) {
  Random random(10);
  Comparison comparison;
  int in_f = 0;
  for (int round = 0; round < 20000; ++round) {
    LayerShape shape = random.shape();
    shape.tie = static_cast<Tie>(random.below(3));
    if (shape.tie == Tie::all) shape.n = shape.m = std::max(shape.n, shape.m);
    if (round % 3 == 0) shape.mask = random.mask(shape);
    const Form form = random.coin() ? Form::g : Form::h;
    GradientSet set;
    for (bool GradientSet::*wanted : {&GradientSet::dX, &GradientSet::dA1, &GradientSet::dA2,
                                      &GradientSet::dA3, &GradientSet::dW_Q, &GradientSet::dW_K}) {
      set.*wanted = random.below(3) == 0;
    }
    set.dY = form == Form::h && random.coin();
    set.dA = shape.tie != Tie::none && random.coin();
    if (set == GradientSet()) set.dA2 = true;
    set.dk = random.log_uniform(1, 2 * shape.d);

    const auto [n, m, d, e, tie, mask] = shape;
    LayerBlocks blocks;
    blocks.rows = random.blocks(shape, form, Products::stored);
    blocks.keys = random.blocks(shape, form, Products::stored);
    blocks.da1 = random.product(n, d);
    blocks.da3 = random.product(m, d);
    blocks.dy = random.product(d, e);
    blocks.dw = random.product(d, set.dk);
    blocks.sum = 1;
    const GradientSteps steps = steps_of(set, tie, form);
    blocks.keys.one_pass = steps.rows && steps.keys && random.coin();
    const Batch batch = {1 + random.below(3), random.coin()};
    const IoCost cost = gradients_cost(shape, set, blocks, batch).total();
    const AlgorithmClass algorithms = class_of(set, blocks, tie);
    in_f += algorithms == AlgorithmClass::F;
    std::string what = "entries=" + std::to_string(batch.entries) + text_of(shape) + " form " +
                       name_of(form) + " dk=" + std::to_string(set.dk);
    if (set.dX) what += " dX";
    if (set.dY) what += " dY";
    if (set.dA1) what += " dA1";
    if (set.dA2) what += " dA2";
    if (set.dA3) what += " dA3";
    if (set.dA) what += " dA";
    if (set.dW_Q) what += " dW_Q";
    if (set.dW_K) what += " dW_K";
    comparison.check(what, gradients_bounds(shape, set, cost.footprint, batch.entries), algorithms,
                     cost);
  }
  EXPECT_GT(in_f, 2000);
  comparison.expect_close({{"compulsory", 0.7}, {"a2", 0.2}});
}

// More fast memory never makes a bound larger: of SDPA, of passes over the keys, of gradients.
TEST(CoreBoundsSweep, NoneRisesWithM) {
  Random random(11);
  for (int round = 0; round < 60; ++round) {
    LayerShape head = random.shape();
    if (round % 3 == 0) head.mask = random.mask(head);
    SdpaShape shape;
    shape.n = head.n, shape.m = head.m, shape.d = head.d, shape.dv = head.dv;
    shape.mask = head.mask;
    shape.heads = 1 + random.below(3);
    const index_t which = 1 + random.below(7);
    const SdpaSet set = {(which & 1) != 0, (which & 2) != 0, (which & 4) != 0};
    LayerShape tied = head;
    tied.tie = Tie::kv;
    const GradientSet gradients[] = {{.dY = true}, {.dA3 = true}, {.dA1 = true, .dA2 = true}};
    const KeyPassKind kind = {static_cast<KeyGradients>(random.below(4)), random.coin()};
    const auto at = [&](index_t M) {
      const auto of_keys = [&](AlgorithmClass algorithms) {
        return key_gradients_bound(algorithms, tied, Form::g, kind, M).words;
      };
      return std::array{sdpa_forward_bounds(shape, M), sdpa_backward_bounds(shape, set, M),
                        gradients_bounds(tied, gradients[round % 3], M),
                        BoundSet{of_keys(AlgorithmClass::P), of_keys(AlgorithmClass::F)}};
    };
    auto before = at(1);
    for (index_t M = 2; M < 4 * head.m * head.d; M += M / 3 + 1) {
      const auto now = at(M);
      for (std::size_t i = 0; i < now.size(); ++i) {
        for (double BoundSet::*bound :
             {&BoundSet::compulsory, &BoundSet::a2, &BoundSet::g3, &BoundSet::b2, &BoundSet::c,
              &BoundSet::b3, &BoundSet::a3}) {
          EXPECT_LE(now[i].*bound, before[i].*bound * (1 + 1e-12))
              << i << " set " << which << text_of(head) << " M=" << M;
        }
      }
      before = now;
    }
  }
}

}  // namespace
}  // namespace ioattn::theory
