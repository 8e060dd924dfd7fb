// The layer problem in 16 bits moves the words of its formula and keeps to its M, f32 weighing 2.

#include "kernels/registry.hpp"
#include "schedules/layer_half_case.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_gradients.hpp"
#include "status_ok.hpp"
#include "theory/gradients_bounds.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

LayerProblem random_layer(RandomProblem* random, int number) {
  LayerProblem problem;
  problem.shape = random->shape(30, 12);
  problem.dtype = DType::bf16;
  if (number % 2 == 1) problem.shape.mask = random->mask(problem.shape.n, problem.shape.m);
  if (number % 3 == 1) problem.scale = 0.7;
  if (number % 4 == 2) problem.batch = random->uniform(2, 3);
  return problem;
}

plan::LayerRequest request_of(const LayerProblem& problem, Pass pass, const TileShape& tile) {
  plan::LayerRequest request = request_for(problem.shape, 1, tile);
  request.problem = problem;
  request.pass = pass;
  return request;
}

// Products of f32 and, every other time, of pairs.
const kernels::KernelTable<float>& table_of(int number) {
  return number % 8 == 5   ? *kernels::find_kernels(Isa::emulated_amx)->of_bf16
         : number % 2 == 1 ? odd_tile_of_pairs()
                           : odd_tile<float>();
}

TEST(LayerHalfCounts, ForwardIsTheSumOverThePhases) {
  RandomProblem random(92);
  std::array<int, 2> forms = {}, products = {};
  int tiles = 0;
  for (int number = 0; number < 1000 && !HasFailure(); ++number) {
    const LayerProblem problem = random_layer(&random, number / 2);
    const auto& table = table_of(number);
    const bool pairs = table.pairs_of_bf16 != nullptr;
    const auto check = [&](Schedule schedule, const Blocks& blocks, index_t M) {
      SCOPED_TRACE(to_text(problem) + " " + name_of(schedule) + " " + name_of(blocks.form) + " " +
                   name_of(blocks.products) + " M=" + std::to_string(M));
      LayerHalfCase<bf16> half(problem, 1);
      half.randomise(unsigned(number));
      instruments::IoCounter counter;
      ASSERT_OK(half.forward(blocks, {&table, 1, &counter}, schedule));
      hold_to_formula(counter,
                      theory::forward_cost(schedule, problem.shape, blocks,
                                           theory::batch_of(problem), DType::bf16),
                      problem.shape.mask.hides());
      ASSERT_LE(counter.total().footprint, M);
      const theory::Bound bound =
          theory::layer_bounds(Pass::forward, problem.shape, M, problem.batch)
              .best(theory::AlgorithmClass::F);
      ASSERT_LE(bound.words, double(counter.total().words())) << bound.name;
      tiles += schedule == Schedule::tile_fused;
      ++forms[std::size_t(blocks.form)];
      ++products[std::size_t(blocks.products)];
    };
    plan::LayerRequest request = request_of(problem, Pass::forward, table.tile);
    plan::Plan plan;
    plan::Candidate chosen;
    request.M = 1;
    const std::string refusal = plan::make_plan(request, &plan).message();
    const std::string key = "the least is ";
    ASSERT_NE(refusal.find(key), std::string::npos) << refusal;
    const index_t least = std::stoll(refusal.substr(refusal.find(key) + key.size()));
    request.M = random.uniform(0, 3) == 0 ? least : random.logarithmic(least, 60 * least);
    ASSERT_OK(plan::make_plan(request, &plan, &chosen));
    check(plan.schedule, plan.blocks, request.M);
    request.M = least - 1;
    ASSERT_EQ(plan::make_plan(request, &plan).code(), StatusCode::fast_memory_too_small);
    GradientSet any;
    any.dX = true;
    Blocks blocks = any_blocks(&random, problem.shape, any).rows;
    blocks.products = number % 4 < 2 ? Products::fused : Products::stored;
    check(Schedule::row_stream, blocks, index_t(1) << 40);
    if (!pairs) continue;
    make_tiles(&random, &blocks);
    blocks.share = 0;
    check(Schedule::tile_fused, blocks, index_t(1) << 40);
  }
  EXPECT_GT(tiles, 600);
  EXPECT_GT(products[0], 100);
  EXPECT_GT(products[1], 100);
  EXPECT_GT(forms[0], 100);
  EXPECT_GT(forms[1], 100);
}

TEST(LayerHalfCounts, GradientsAreTheSumsOverThePhases) {
  RandomProblem random(93);
  std::map<Schedule, int> schedules;
  int alone = 0, one_pass = 0, fused = 0, tiles = 0, packed = 0, tiles_alone = 0;
  for (int number = 0; number < 1500 && !HasFailure(); ++number) {
    const LayerProblem problem = random_layer(&random, number / 2);
    const auto& table = table_of(number);
    const bool pairs = table.pairs_of_bf16 != nullptr;
    const index_t dk = random.logarithmic(1, 9);
    GradientSet set = random_set(&random, problem.shape.tie, dk);
    set.in_f32 = random.uniform(0, 2) == 0;
    LayerHalfCase<bf16> half(problem, dk);
    LayerHalfCase<bf16, float> wide(problem, dk);
    half.randomise(unsigned(number));
    wide.set_inputs(half);
    const auto check = [&](const LayerBlocks& blocks, index_t M) {
      SCOPED_TRACE(to_text(problem) + " " + describe(set) + (set.in_f32 ? " in f32 " : " ") +
                   name_of(blocks.schedule) + " " + name_of(blocks.rows.form) + " " +
                   name_of(blocks.rows.products) + " M=" + std::to_string(M));
      instruments::IoCounter counter;
      ASSERT_OK((set.in_f32 ? wide.backward(set, blocks, {&table, 1, &counter})
                            : half.backward(set, blocks, {&table, 1, &counter})));
      hold_to_formula(counter,
                      theory::gradients_cost(problem.shape, set, blocks, theory::batch_of(problem),
                                             DType::bf16),
                      problem.shape.mask.hides());
      ASSERT_LE(counter.total().footprint, M);
      const theory::Bound bound = theory::gradients_bounds(problem.shape, set, M, problem.batch)
                                      .best(theory::class_of(set, blocks, problem.shape.tie));
      ASSERT_LE(bound.words, double(counter.total().words())) << bound.name;
      const GradientSteps steps = steps_of(set, problem.shape.tie, blocks.rows.form);
      alone += steps.alone;
      one_pass += blocks.keys.one_pass;
      fused += blocks.rows.products == Products::fused;
      tiles += !steps.alone && blocks.by_keys == Schedule::tile_fused;
      packed += blocks.keys.packed || blocks.rows.packed;
      tiles_alone += steps.alone && set.dX && blocks.schedule == Schedule::tile_fused;
      schedules[blocks.schedule] += has_row_pass(steps, blocks);
    };
    plan::LayerRequest request = request_of(problem, Pass::backward, table.tile);
    if (random.uniform(0, 1) == 1) request.memory_limit_bytes = index_t(1) << 40;
    const index_t least = least_M(request, set);
    request.M = random.uniform(0, 3) == 0 ? least : random.logarithmic(least, 60 * least);
    request.outer_M = random.uniform(0, 1) * random.logarithmic(1, 20) * request.M;
    plan::LayerPlan plan;
    plan::Estimate estimate;
    ASSERT_OK(plan::make_gradient_plan(request, set, &plan, &estimate));
    check(plan.blocks, estimate.M);
    request.M = least - 1;
    request.outer_M = 0;
    ASSERT_EQ(plan::make_gradient_plan(request, set, &plan).code(),
              StatusCode::fast_memory_too_small);
    LayerBlocks blocks = any_blocks(&random, problem.shape, set);
    check(blocks, index_t(1) << 40);
    if (!pairs) continue;
    make_tiles_of_pairs(&random, problem.shape.tie, set, &blocks);
    check(blocks, index_t(1) << 40);
  }
  EXPECT_GT(tiles, 300);
  EXPECT_GT(packed, 200);
  EXPECT_GT(tiles_alone, 30);
  EXPECT_GT(alone, 100);
  EXPECT_GT(one_pass, 100);
  EXPECT_GT(fused, 100);
  EXPECT_GT(schedules[Schedule::row_stream], 200);
  EXPECT_GT(schedules[Schedule::q_stored], 100);
  EXPECT_GT(schedules[Schedule::half_dim], 100);
}

// As many phases as there can be.
TEST(LayerHalfCounts, EveryPhaseHasItsPlace) {
  GradientSet set = {true, true, true, true, true, true, true, true, 2};
  LayerBlocks blocks;
  RandomProblem random(94);
  const LayerShape shape = {7, 5, 4, 3, Tie::kv};
  do blocks = any_blocks(&random, shape, set);
  while (blocks.schedule != Schedule::half_dim);
  const auto phases = [&](DType dtype) {
    return theory::gradients_cost(shape, set, blocks, {2, true}, dtype).phase_count;
  };
  EXPECT_EQ(phases(DType::f32), 17);
  EXPECT_EQ(phases(DType::bf16), 18);
  EXPECT_LE(phases(DType::bf16), theory::ScheduleCost::max_phases);
}

}  // namespace
}  // namespace ioattn_test
