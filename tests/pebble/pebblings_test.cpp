// Every schedule of the layer problem pebbles its own graph: its events give a legal pebbling whose
// cost is the closed formula, with at most three red pebbles more than resident words.

#include <gtest/gtest.h>

#include <algorithm>

#include "pebble/expect_pebbling.hpp"
#include "pebble/pebbler.hpp"
#include "plan/blocks/blocking.hpp"
#include "schedules/layer_data.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_problem.hpp"
#include "schedules/variant_case.hpp"
#include "status_ok.hpp"
#include "theory/block_costs.hpp"
#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using pebble::Pebbler;
using pebble::Value;

class Pebblings : public testing::TestWithParam<VariantCase> {
 protected:
  void check(const LayerShape& shape, const Blocks& blocks) {
    const Variant& v = GetParam().variant;
    SCOPED_TRACE(to_text(LayerProblem{shape, DType::f32}) + " r=" + std::to_string(blocks.r) +
                 " c=" + std::to_string(blocks.c) + " rho=" + std::to_string(blocks.rho));
    pebble::AttentionCdag cdag;
    const pebble::Recipe recipe = pebble::recipe_of(v.pass, v.schedule, shape, blocks);
    const Status made = pebble::AttentionCdag::make(recipe, &cdag);
    ASSERT_OK(made);
    LayerData<float> data(shape, 0, random_.engine());
    Pebbler pebbler(cdag);
    ASSERT_OK(run_pass(v.pass, v.schedule, shape, blocks, odd_tile<float>(), 1, &pebbler, &data));
    const IoCost cost = theory::io_cost(v.pass, v.schedule, shape, blocks).total();
    expect_pebbling(cdag, pebbler, cost);
    if (HasFatalFailure()) return;
    const index_t M = cost.footprint + Pebbler::most_extra_red;
    const theory::Bound bound = theory::lower_bound(v.pass, theory::AlgorithmClass::P, shape, M);
    ASSERT_LE(bound.words, static_cast<double>(cost.words())) << bound.name;
    // What a schedule of class F adds up is added up once; K' is not, in weight_resident.
    for (const Value sum : {Value::S, Value::G, Value::h, Value::scores, Value::q, Value::U,
                            Value::T, Value::Z, Value::Z_sum, Value::O, Value::O_sum, Value::dX}) {
      ASSERT_EQ(recomputed(cdag.graph(), pebbler.moves(), sum), 0) << pebble::name_of(sum);
    }
    if (v.schedule == Schedule::weight_resident && blocks.r < shape.n) {
      ASSERT_GT(recomputed(cdag.graph(), pebbler.moves(), Value::K), 0);
    }
    ++cases_;
  }

  RandomProblem random_{20261122};
  int cases_ = 0;
};

TEST_P(Pebblings, PlannedBlocks) {
  const Variant& v = GetParam().variant;
  while (cases_ < 40 && !HasFatalFailure()) {
    const LayerShape shape = random_.shape(5, 4);
    const auto [n, m, d, e, tie, mask] = shape;
    const index_t most = 2 * (n * d + 2 * m * d + 2 * d * d + n * e + 2 * n * m);
    const index_t least = plan::least_fast_memory(v, shape);
    const index_t M = random_.logarithmic(least, std::max(least, most));
    Blocks blocks;
    ASSERT_TRUE(
        plan::choose_blocks(v, GetParam().literal, shape, M, odd_tile<float>().tile, &blocks));
    check(shape, blocks);
  }
}

TEST_P(Pebblings, AnyBlocks) {
  const Variant& v = GetParam().variant;
  while (cases_ < 40 && !HasFatalFailure()) {
    const LayerShape shape = random_.shape(5, 4);
    Blocks blocks;
    blocks.form = v.form;
    blocks.products = v.products;
    blocks.literal = GetParam().literal;
    for (const SizeField& field : size_fields()) {
      if (uses(v, field.name)) blocks.*field.size = random_.uniform(1, 5);
    }
    for (const ProductField& field : product_fields()) {
      if (!uses(v, field.name)) continue;
      blocks.*field.product = {random_.uniform(1, 5), random_.uniform(1, 5), random_.uniform(1, 5),
                               random_.uniform(0, 1) == 1};
    }
    if (v.schedule == Schedule::naive) {
      blocks.r = random_.uniform(0, 1);
      blocks.c = random_.uniform(1, 5);
    }
    if (uses(v, "r") && uses(v, "rho")) {
      blocks.rho = std::min(blocks.rho, blocks.r);
      blocks.r = round_up(blocks.r, blocks.rho);
    }
    check(shape, blocks);
  }
}

// The tile with the fewest reads of which rows * cols + rows * (1 + vectors) + 1 words fit in M:
// one word of the second factor at a time.
ProductBlocks best_tile(index_t n1, index_t k, index_t n2, index_t M, index_t vectors) {
  ProductBlocks best = {1, 1, 1};
  for (index_t rows = 1; rows <= n1; ++rows) {
    for (index_t cols = 1; cols <= n2; ++cols) {
      const bool fits = rows * cols + rows * (1 + vectors) + 1 <= M;
      if (fits && theory::product_reads(n1, k, n2, rows, cols) <
                      theory::product_reads(n1, k, n2, best.rows, best.cols))
        best = {rows, cols, 1};
    }
  }
  return best;
}

// Words of stationary with delta given, from an independent program that pebbles word by word.
TEST(KnownPebblings, Stationary) {
  struct Known {
    index_t n, m, d, M, words;
  };
  std::mt19937 engine(7);
  for (const Known& known : {Known{2, 2, 2, 9, 80}, Known{3, 3, 3, 9, 249}, Known{4, 4, 4, 16, 408},
                             Known{4, 3, 2, 12, 184}, Known{4, 4, 4, 7, 536}}) {
    const index_t n = known.n, m = known.m, d = known.d, M = known.M;
    const LayerShape shape = {n, m, d, d};
    Blocks blocks;
    blocks.w = blocks.o = 1;
    blocks.s = blocks.g = best_tile(n, d, d, M, 0);
    blocks.f = blocks.q = best_tile(n, d, m, M, 1);
    blocks.u = best_tile(n, m, d, M, 0);
    blocks.x = best_tile(d, n, d, M, 0);
    pebble::AttentionCdag cdag;
    const Schedule schedule = Schedule::stationary;
    const pebble::Recipe recipe = pebble::recipe_of(Pass::backward, schedule, shape, blocks);
    ASSERT_OK(pebble::AttentionCdag::make(recipe, &cdag));
    LayerData<float> data(shape, 0, engine);
    Pebbler pebbler(cdag);
    ASSERT_OK(
        run_pass(Pass::backward, schedule, shape, blocks, odd_tile<float>(), 1, &pebbler, &data));
    const pebble::Play play = pebble::play(cdag.graph(), pebbler.moves(), M + m + 3);
    EXPECT_EQ(play.violation, "");
    EXPECT_EQ(play.words() - 2 * n * d - n, known.words);  // O and dO are read, delta is written
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Pebblings, testing::ValuesIn(cases_of_queries()),
                         name_of_variant);

}  // namespace
}  // namespace ioattn_test
