// The layer problem in 16 bits is that in f32 of the same numbers, whose results are rounded once:
// bit for bit, for every set of gradients, tie, mask, scale and batch, and every number of threads.

#include "schedules/layer_half_case.hpp"
#include "schedules/random_gradients.hpp"
#include "schedules/tables.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

template <class S>
class LayerHalf : public testing::Test {};
using Types = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(LayerHalf, Types);

// Every third has a scale, every other a mask, every fourth a batch.
LayerProblem random_layer(RandomProblem* random, int number) {
  const bool large = number % 8 == 7;
  LayerProblem problem;
  problem.shape = random->shape(large ? 130 : 40, large ? 60 : 20);
  if (number % 2 == 1) problem.shape.mask = random->mask(problem.shape.n, problem.shape.m);
  if (number % 3 == 1) problem.scale = number % 2 == 0 ? 0.125 : -0.7;
  if (number % 4 == 2) problem.batch = random->uniform(2, 3);
  return problem;
}

const kernels::KernelTable<float>* random_table(RandomProblem* random) {
  static const auto tables = tables_under_test<float>();
  return tables[std::size_t(random->uniform(0, index_t(tables.size()) - 1))];
}

TYPED_TEST(LayerHalf, ForwardIsThatOfFloatsRoundedOnce) {
  using S = TypeParam;
  RandomProblem random(90);
  for (int number = 0; number < 80 && !this->HasFailure(); ++number) {
    const LayerProblem problem = random_layer(&random, number);
    const auto* table = random_table(&random);
    GradientSet any;
    any.dX = true;
    Blocks blocks = any_blocks(&random, problem.shape, any).rows;
    if (number % 5 < 3) blocks.products = Products::fused;
    SCOPED_TRACE(to_text(problem) + " " + name_of(blocks.form) + " " + name_of(blocks.products));
    LayerHalfCase<S> half(problem, 1);
    LayerHalfCase<float> full(problem, 1);
    half.randomise(unsigned(number));
    full.set_inputs(half);
    ASSERT_OK(full.forward(blocks, {table}));
    for (const int threads : thread_counts) {
      ASSERT_OK(half.forward(blocks, {table, threads}));
      EXPECT_TRUE(same_bytes(half.o.values(), rounded<S>(full.o))) << threads;
      EXPECT_TRUE(same_bytes(half.lse.values(), full.lse.values())) << threads;
    }
  }
}

TYPED_TEST(LayerHalf, GradientsAreThoseOfFloatsRoundedOnce) {
  using S = TypeParam;
  RandomProblem random(91);
  std::map<Schedule, int> schedules;
  int one_pass = 0, alone = 0, fused = 0;
  for (int number = 0; number < 200 && !this->HasFailure(); ++number) {
    const LayerProblem problem = random_layer(&random, number);
    const auto* table = random_table(&random);
    const index_t dk = random.logarithmic(1, 20);
    const GradientSet set = random_set(&random, problem.shape.tie, dk);
    const LayerBlocks blocks = any_blocks(&random, problem.shape, set);
    SCOPED_TRACE(to_text(problem) + " " + describe(set) + " " + name_of(blocks.schedule) + " " +
                 name_of(blocks.rows.form) + " " + name_of(blocks.rows.products));
    LayerHalfCase<S> half(problem, dk);
    LayerHalfCase<S, float> wide(problem, dk);
    LayerHalfCase<float> full(problem, dk);
    half.randomise(unsigned(number));
    ASSERT_OK(half.forward(blocks.rows, {table}));
    full.set_inputs(half);
    wide.set_inputs(half);
    full.set_forward(half);
    wide.set_forward(half);
    ASSERT_OK(full.backward(set, blocks, {table}));
    for (const int threads : thread_counts) {
      ASSERT_OK(half.backward(set, blocks, {table, threads}));
      ASSERT_OK(wide.backward(set, blocks, {table, threads}));
      for (std::size_t k = 0; k < full.gradients().size(); ++k) {
        const GapTensor<float>& expected = *full.gradients()[k];
        EXPECT_TRUE(same_bytes(half.gradients()[k]->values(), rounded<S>(expected)))
            << "gradient " << k << " with " << threads << " threads";
        EXPECT_TRUE(same_bytes(wide.gradients()[k]->values(), expected.values()))
            << "gradient " << k << " in f32 with " << threads << " threads";
      }
    }
    ++schedules[blocks.schedule];
    one_pass += blocks.keys.one_pass;
    fused += blocks.rows.products == Products::fused;
    alone += steps_of(set, problem.shape.tie, blocks.rows.form).alone;
  }
  EXPECT_GT(one_pass, 20);
  EXPECT_GT(alone, 20);
  EXPECT_GT(fused, 10);
  EXPECT_GT(schedules[Schedule::row_stream], 80);
  EXPECT_GT(schedules[Schedule::q_stored], 20);
  EXPECT_GT(schedules[Schedule::half_dim], 20);
}

}  // namespace
}  // namespace ioattn_test
