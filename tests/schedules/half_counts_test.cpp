// SDPA in 16 bits moves the words of its formula and keeps to its M, f32 weighing 2.

#include "kernels/registry.hpp"
#include "plan/sdpa/sdpa_planner.hpp"
#include "schedules/half_case.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_sdpa.hpp"
#include "schedules/sdpa_formula.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

template <class G>
void check_backward(HalfCase<bf16, G>* problem, const SdpaSet& set, const SdpaBlocks& blocks,
                    const kernels::KernelTable<float>& table, const theory::ScheduleCost& cost,
                    index_t M) {
  instruments::IoCounter counter;
  ASSERT_OK(problem->backward(set, blocks, {&table, 1, &counter}));
  hold_to_formula(counter, cost, problem->shape);
  ASSERT_LE(counter.total().footprint, M);
}

TEST(HalfCounts, AreTheSumsOverThePhases) {
  RandomProblem random(82);
  int rounded_on_the_way = 0, tiles = 0, of_bias = 0, tiles_of_pairs = 0;
  for (int trial = 0; trial < 1200 && !HasFailure(); ++trial) {
    const bool pairs = trial % 2 == 1;
    const auto& table = trial % 8 == 3 ? *kernels::find_kernels(Isa::emulated_amx)->of_bf16
                        : pairs        ? odd_tile_of_pairs()
                                       : odd_tile<float>();
    SdpaShape shape = random_shape(&random, 30, 12);
    SdpaSet set = random_set(&random);
    add_random_bias(&random, &shape, &set);
    set.in_f32 = random.uniform(0, 2) == 0;
    HalfCase<bf16> problem(shape);
    HalfCase<bf16, float> in_f32(shape);
    problem.randomise(unsigned(trial));
    in_f32.set_inputs(problem);
    PlannedSdpa planned(shape, set, DType::bf16, table.tile);
    const bool o = random.uniform(0, 3) > 0, lse = !o || random.uniform(0, 3) > 0;
    SdpaShape computed = shape;
    if (!o) computed.dv = 0;
    const auto forward = [&](const Blocks& blocks, index_t M) {
      instruments::IoCounter counter;
      ASSERT_OK(problem.forward(blocks, {&table, 1, &counter}, o, lse));
      hold_to_formula(counter, theory::sdpa_forward_cost(computed, blocks, lse, DType::bf16, pairs),
                      shape);
      ASSERT_LE(counter.total().footprint, M);
    };
    const auto backward = [&](const SdpaBlocks& blocks, index_t M) {
      const theory::ScheduleCost cost =
          theory::sdpa_backward_cost(shape, set, blocks, DType::bf16, pairs);
      if (set.in_f32) {
        check_backward(&in_f32, set, blocks, table, cost, M);
      } else {
        check_backward(&problem, set, blocks, table, cost, M);
      }
      rounded_on_the_way +=
          std::string(cost.phases[std::size_t(cost.phase_count - 1)].name) == "round";
      const bool by_tiles = set.key_pass(blocks) && blocks.by_keys == Schedule::tile_fused;
      tiles += by_tiles;
      tiles_of_pairs += by_tiles && pairs;
      of_bias += set.dBias;
    };
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + (set.dQ ? " dQ" : "") + (set.dK ? " dK" : "") +
                 (set.dV ? " dV" : "") + (set.dBias ? " dBias" : "") +
                 (set.accumulate ? " accumulate" : "") + (set.in_f32 ? " in f32" : ""));

    const index_t least_forward = planned.least_M(&PlannedSdpa::forward);
    planned.request.M = random.logarithmic(least_forward, 60 * least_forward);
    ASSERT_OK(planned.forward());
    ASSERT_EQ(planned.estimate.cost.total(),
              theory::sdpa_forward_cost(shape.with_grouped_rows(), planned.plan.blocks.rows, true,
                                        DType::bf16, pairs)
                  .total());
    forward(planned.plan.blocks.rows, planned.estimate.M);
    planned.request.M = least_forward - 1;
    ASSERT_EQ(planned.forward().code(), StatusCode::fast_memory_too_small);

    const index_t least_backward = planned.least_M(&PlannedSdpa::backward);
    planned.request.M = random.logarithmic(least_backward, 60 * least_backward);
    ASSERT_OK(planned.backward());
    backward(planned.plan.blocks, planned.estimate.M);

    SdpaBlocks any = any_blocks(&random);
    any.keys.one_pass = any.keys.one_pass && !set.dBias;
    forward(any.rows, index_t(1) << 40);
    any.rows.r *= random.uniform(0, 1);  // 0: by tiles
    forward(any.rows, index_t(1) << 40);
    any.rows.r = std::max(any.rows.r, any.rows.rho);
    backward(any, index_t(1) << 40);
  }
  EXPECT_GT(rounded_on_the_way, 200);
  EXPECT_GT(tiles, 300);
  EXPECT_GT(tiles_of_pairs, 100);
  EXPECT_GT(of_bias, 300);
}

// Sums of dQ take memory: without room for them dQ is made by a pass of its own.
TEST(HalfCounts, ScratchKeepsToTheLimit) {
  plan::SdpaRequest request;
  request.shape = {1, 2, 2, 512, 512, 64, 64};
  request.dtype = DType::f16;
  request.M = 1 << 17;
  request.tile = odd_tile<float>().tile;
  const SdpaSet all = {true, true, true};
  plan::SdpaPlan plan;
  plan::Estimate estimate;
  ASSERT_OK(plan::make_plan_of(request, all, &plan, &estimate));
  EXPECT_TRUE(plan.blocks.keys.one_pass);
  EXPECT_EQ(estimate.scratch_bytes, 4 * 2 * 512 * (1 + 64));
  request.memory_limit_bytes = estimate.scratch_bytes - 1;
  ASSERT_OK(plan::make_plan_of(request, all, &plan, &estimate));
  EXPECT_FALSE(plan.blocks.keys.one_pass);
  EXPECT_EQ(estimate.scratch_bytes, 4 * 2 * 512);
  request.memory_limit_bytes = estimate.scratch_bytes - 1;
  EXPECT_EQ(plan::make_plan_of(request, all, &plan, &estimate).code(), StatusCode::memory_limit);
}

}  // namespace
}  // namespace ioattn_test
