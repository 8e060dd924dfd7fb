// The layer problem in bf16 by products of pairs: near what f32 makes of the same numbers, and the
// same bits for any number of threads.

#include "schedules/absolute_sums.hpp"
#include "schedules/layer_half_case.hpp"
#include "schedules/pairs_case.hpp"
#include "schedules/random_gradients.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

// h, weights and their gradients are rounded to 8 bits, and so are results: half a unit each. The
// largest measured is 1.6 units of a sum of absolute values.
constexpr double tolerance_of_sums = 2.5 / 256;

// Of the largest number, where it is no remainder: sums of few terms may cancel to less, and so do
// gradients of scores of which one is far above all others, as they are unscaled. Measured: 5.7.
constexpr double tolerance = 10.0 / 256;
bool may_cancel(const LayerProblem& problem) {
  const LayerShape& shape = problem.shape;
  return problem.scale == 1 || std::min({shape.n, shape.m, shape.d, shape.dv}) < 8;
}

struct LayerTrial {
  LayerProblem problem;
  const kernels::KernelTable<float>* table;

  std::string text() const { return to_text(problem) + " " + name_of(table->tile.isa); }
};

// Of scores about as large as 1, most of them; every other has a mask, every fourth a batch. Three
// of four are of sums that do not cancel.
LayerTrial random_layer(RandomProblem* random, int number) {
  static const auto tables = tables_of_pairs();
  const bool large = number % 8 == 7;
  LayerTrial trial;
  trial.problem.shape = random->shape(large ? 150 : 40, large ? 70 : 20);
  LayerShape& shape = trial.problem.shape;
  if (random->uniform(0, 3) > 0)
    for (index_t* size : {&shape.n, &shape.m, &shape.d, &shape.dv}) *size += 8;
  if (number % 2 == 1) shape.mask = random->mask(shape.n, shape.m);
  const auto d = double(shape.d);
  if (number % 5 != 0)
    trial.problem.scale = number % 3 == 0 ? 1 / d : number % 3 == 1 ? -0.7 / d : 2 / d;
  if (number % 4 == 2) trial.problem.batch = random->uniform(2, 3);
  trial.table = tables[std::size_t(random->uniform(0, index_t(tables.size()) - 1))];
  return trial;
}

Blocks random_tiles(RandomProblem* random) {
  Blocks blocks;
  for (index_t Blocks::*size : {&Blocks::c, &Blocks::rho, &Blocks::o})
    blocks.*size = random->logarithmic(1, 100);
  for (ProductBlocks Blocks::*product : {&Blocks::s, &Blocks::h, &Blocks::x})
    blocks.*product = any_product(random);
  make_tiles(random, &blocks);
  return blocks;
}

Blocks of_floats() {
  Blocks blocks;
  blocks.form = Form::h;
  blocks.products = Products::stored;
  blocks.r = blocks.rho = blocks.c = blocks.w = blocks.o = 32;
  blocks.s = blocks.h = blocks.x = {32, 32, 32};
  return blocks;
}

TEST(LayerPairs, ForwardIsNearThatOfFloats) {
  RandomProblem random(95);
  int relative = 0;
  for (int number = 0; number < 150 && !HasFailure(); number += step()) {
    const LayerTrial trial = random_layer(&random, number);
    SCOPED_TRACE(trial.text());
    LayerHalfCase<bf16> pairs(trial.problem, 1), one(trial.problem, 1);
    LayerHalfCase<float> full(trial.problem, 1);
    pairs.randomise(unsigned(number));
    one.set_inputs(pairs);
    full.set_inputs(pairs);
    Blocks blocks = random_tiles(&random);
    blocks.share = 0;
    ASSERT_OK(full.forward(of_floats(), {&odd_tile<float>()}));
    ASSERT_OK(one.forward(blocks, {trial.table}, Schedule::tile_fused));
    const AbsoluteSum sums = absolute_sums(full, 1)[0];
    EXPECT_LE(error_of_sums(one.o.values(), full.o.values(), sums), tolerance_of_sums);
    if (!may_cancel(trial.problem)) {
      EXPECT_LE(error_of(one.o.values(), full.o.values()), tolerance);
      ++relative;
    }
    // Scores are those of f32, however large.
    EXPECT_LE(error_of(one.lse.values(), full.lse.values()), 1e-4);
    for (const int threads : some_thread_counts(number)) {
      ASSERT_OK(pairs.forward(blocks, {trial.table, threads}, Schedule::tile_fused));
      EXPECT_TRUE(same_bytes(pairs.o.values(), one.o.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.lse.values(), one.lse.values())) << threads;
    }
  }
  EXPECT_GT(relative, 60 / step());
}

TEST(LayerPairs, GradientsAreNearThoseOfFloats) {
  RandomProblem random(96);
  int alone = 0, keys = 0, relative = 0;
  for (int number = 0; number < 240 && !HasFailure(); number += step()) {
    const LayerTrial trial = random_layer(&random, number);
    const LayerShape& shape = trial.problem.shape;
    const index_t dk = random.logarithmic(1, 20);
    const GradientSet set = random_set(&random, shape.tie, dk);
    SCOPED_TRACE(trial.text() + " " + describe(set));
    LayerHalfCase<bf16> pairs(trial.problem, dk), one(trial.problem, dk);
    LayerHalfCase<bf16, float> wide(trial.problem, dk);
    LayerHalfCase<float> full(trial.problem, dk);
    pairs.randomise(unsigned(number));
    one.set_inputs(pairs);
    full.set_inputs(pairs);
    wide.set_inputs(pairs);
    // Of the exact O: a rounded one is no part of what is held here.
    ASSERT_OK(full.forward(of_floats(), {&odd_tile<float>()}));
    for (auto* each : {&pairs, &one}) each->set_forward(full);
    wide.set_forward(full);
    LayerBlocks blocks;
    blocks.rows = random_tiles(&random);
    blocks.keys = random_tiles(&random);
    for (ProductBlocks* product : {&blocks.da1, &blocks.da3, &blocks.dy, &blocks.dw})
      *product = any_product(&random);
    blocks.sum = random.logarithmic(1, 20);
    LayerBlocks plain = blocks;
    plain.rows = plain.keys = of_floats();
    make_tiles_of_pairs(&random, shape.tie, set, &blocks);
    ASSERT_OK(full.backward(set, plain, {&odd_tile<float>()}));
    ASSERT_OK(one.backward(set, blocks, {trial.table}));
    ASSERT_OK(wide.backward(set, blocks, {trial.table}));
    const AbsoluteSums sums = absolute_sums(full, dk);
    for (std::size_t k = 0; k < full.gradients().size(); ++k) {
      const std::vector<bf16>& out = one.gradients()[k]->values();
      const std::vector<float>& expected = full.gradients()[k]->values();
      EXPECT_LE(error_of_sums(out, expected, sums[k + 1]), tolerance_of_sums) << "gradient " << k;
      if (!may_cancel(trial.problem)) {
        EXPECT_LE(error_of(out, expected), tolerance) << "gradient " << k;
      }
      EXPECT_TRUE(same_bytes(one.gradients()[k]->values(), rounded<bf16>(*wide.gradients()[k])))
          << "gradient " << k;
    }
    for (const int threads : some_thread_counts(number)) {
      ASSERT_OK(pairs.backward(set, blocks, {trial.table, threads}));
      for (std::size_t k = 0; k < full.gradients().size(); ++k) {
        EXPECT_TRUE(same_bytes(pairs.gradients()[k]->values(), one.gradients()[k]->values()))
            << "gradient " << k << " with " << threads << " threads";
      }
    }
    const GradientSteps steps = steps_of(set, shape.tie, Form::h);
    relative += !may_cancel(trial.problem);
    alone += steps.alone;
    keys += steps.keys && steps.key_gradients != KeyGradients::values;
  }
  EXPECT_GT(relative, 120 / step());
  EXPECT_GT(alone, 20 / step());
  EXPECT_GT(keys, 80 / step());
}

// A query that is no number: the O of others, and gradients of keys that it does not see, are the
// same bits; so are all results, whatever a key is that no query sees.
TEST(LayerPairs, WhatAMaskHidesHasNoPart) {
  RandomProblem random(97);
  GradientSet set;
  set.dA2 = set.dA3 = true;
  const auto rows_of = [](const GapTensor<bf16>& tensor, index_t cols, index_t row) {
    const auto first = tensor.values().begin() + row * (cols + 3);
    return std::vector<bf16>(first, first + cols);
  };
  const auto make_nan = [](GapTensor<bf16>* tensor, index_t cols, index_t row) {
    const auto first = tensor->values().begin() + row * (cols + 3);
    std::fill(first, first + cols, from_float<bf16>(std::nanf("")));
  };
  int unseen_keys = 0, hidden = 0;
  for (int number = 1; number < 160 && !HasFailure(); number += 2 * step()) {
    LayerTrial trial = random_layer(&random, number);
    LayerShape& shape = trial.problem.shape;
    shape.tie = Tie::none;
    trial.problem.batch = 1;
    const auto [n, m, d, e, tie, mask] = shape;
    SCOPED_TRACE(trial.text());
    LayerHalfCase<bf16> clean(trial.problem, 1), spoiled(trial.problem, 1);
    clean.randomise(unsigned(number));
    spoiled.set_inputs(clean);
    const index_t query = random.uniform(0, n - 1);
    make_nan(&spoiled.a1, d, query);
    const Interval seen = seen_keys(shape);
    for (index_t key = 0; key < m; ++key) {
      if (key >= seen.begin && key < seen.end) continue;
      make_nan(&spoiled.a2, d, key);
      make_nan(&spoiled.a3, d, key);
      ++unseen_keys;
    }
    Blocks forward = random_tiles(&random);
    forward.share = 0;
    LayerBlocks blocks;
    blocks.rows = blocks.keys = random_tiles(&random);
    blocks.da3 = any_product(&random);
    make_tiles_of_pairs(&random, shape.tie, set, &blocks);
    for (auto* each : {&clean, &spoiled}) {
      ASSERT_OK(each->forward(forward, {trial.table}, Schedule::tile_fused));
      ASSERT_OK(each->backward(set, blocks, {trial.table}));
    }
    for (index_t i = 0; i < n; ++i) {
      if (i == query) continue;
      EXPECT_TRUE(same_bytes(rows_of(spoiled.o, e, i), rows_of(clean.o, e, i))) << i;
    }
    const Interval of_query = mask.of_row(query, m);
    for (index_t key = 0; key < m; ++key) {
      if (key >= of_query.begin && key < of_query.end) continue;
      ++hidden;
      for (const auto of : {&LayerHalfCase<bf16>::da2, &LayerHalfCase<bf16>::da3})
        EXPECT_TRUE(same_bytes(rows_of(spoiled.*of, d, key), rows_of(clean.*of, d, key))) << key;
    }
  }
  EXPECT_GT(unseen_keys, 20 / step());
  EXPECT_GT(hidden, 200 / step());
}

}  // namespace
}  // namespace ioattn_test
