// Plans for sets of gradients: the phases and multiply-adds of the textbook products, the form with
// the least estimated time, memory limits.

#include "plan/layer/gradient_planner.hpp"

#include <gtest/gtest.h>

#include "schedules/random_problem.hpp"
#include "status_ok.hpp"

namespace ioattn::plan {
namespace {

constexpr TileShape tile = {Isa::avx2, 6, 16};

LayerRequest request_for(const LayerShape& shape, index_t M) {
  LayerRequest request;
  request.problem.shape = shape;
  request.M = M;
  request.tile = tile;
  return request;
}

GradientSet keys_and_values() {
  GradientSet set;
  set.dA2 = set.dA3 = true;
  return set;
}

TEST(GradientPlanner, PhasesAreThoseThatASetNeeds) {
  const LayerShape shape = {50, 40, 12, 12, Tie::kv};
  const auto phases = [&](const GradientSet& set) {
    LayerPlan plan;
    Estimate estimate;
    EXPECT_OK(make_gradient_plan(request_for(shape, 5000), set, &plan, &estimate));
    std::string names;
    for (int i = 0; i < estimate.cost.phase_count; ++i) {
      names += (i == 0 ? "" : " ") + std::string(estimate.cost.phases[std::size_t(i)].name);
    }
    return names;
  };
  GradientSet set;
  set.dY = true;  // W needs neither delta nor h
  EXPECT_EQ(phases(set), "S col_stream dY");
  set.dA3 = true;
  EXPECT_EQ(phases(set), "S col_stream dA3 dY");
  set = {};
  set.dA = true;  // g-form: one accumulator, no product
  EXPECT_EQ(phases(set), "delta S G col_stream");
  set.dA2 = true;
  EXPECT_EQ(phases(set), "delta S G col_stream dA");
  set = {};
  set.dA1 = true;
  set.dY = true;
  EXPECT_EQ(phases(set), "delta S h col_stream dY dA1");
  EXPECT_EQ(phases({}), "");
}

// In 16 bits words are weighed where they are counted, and are numbers where kernels are timed.
TEST(GradientPlanner, PlansForWordsOfHalfUnderAWindow) {
  LayerShape shape = {2048, 2048, 32, 32, Tie::all};
  shape.mask = window(0, 16, 0);
  LayerRequest request = request_for(shape, 8192);
  request.problem.dtype = DType::bf16;
  request.price = price_of(Objective::words);
  GradientSet set;
  set.dX = set.dA1 = set.dA2 = set.dA3 = true;
  LayerPlan plan;
  const Status status = make_gradient_plan(request, set, &plan);
  EXPECT_OK(status);
}

// Below d^2 q_stored moves less than row_stream, if n x m words may pass through memory.
TEST(GradientPlanner, TakesStoredScoresWhereThereIsRoom) {
  const LayerShape shape = {2000, 2000, 256, 256, Tie::none};
  GradientSet set;
  set.dX = set.dA1 = true;
  LayerRequest request = request_for(shape, 256 * 256 / 2);
  LayerPlan plan;
  Estimate without, with;
  ASSERT_OK(make_gradient_plan(request, set, &plan, &without));
  EXPECT_EQ(plan.blocks.schedule, Schedule::row_stream);
  request.memory_limit_bytes = 4 * (2000 * 2000 + 4 * 2000 * 256 + 2000);
  ASSERT_OK(make_gradient_plan(request, set, &plan, &with));
  EXPECT_EQ(plan.blocks.schedule, Schedule::q_stored);
  EXPECT_LT(with.cost.total().words(), without.cost.total().words());
  EXPECT_GE(with.scratch_bytes, index_t(4) * 2000 * 2000);

  request.problem.shape.mask = causal_top_left();
  ASSERT_OK(make_gradient_plan(request, set, &plan));
  EXPECT_EQ(plan.blocks.schedule, Schedule::row_stream);
  request.schedule = Schedule::q_stored;
  EXPECT_EQ(make_gradient_plan(request, set, &plan).code(), StatusCode::unsupported);
}

// Every product that a set executes, written out.
TEST(GradientPlanner, MultiplyAddsAreThoseOfTheProducts) {
  const LayerShape shape = {50, 40, 12, 7, Tie::none};
  const auto [n, m, d, e, tie, mask] = shape;
  GradientSet set = {true, true, true, true, true, false, true, true, 3};
  LayerBlocks blocks;
  blocks.rows.form = Form::h;
  const index_t scores = n * m * (d + e);  // S A2^T and dO h^T
  EXPECT_EQ(theory::gradients_fma(shape, set, blocks),
            n * d * d + m * d * e + scores + n * m * d  // S, h, U
                + n * d * d + scores + n * m * (d + e)  // dX, dA2, W
                + m * e * d + d * m * e + n * d * d     // dA3, dY, dA1
                + 2 * d * d * set.dk);                  // dW_Q, dW_K
  blocks.rows.form = Form::g;
  EXPECT_EQ(theory::gradients_fma(shape, keys_and_values(), blocks),
            n * d * d + n * e * d + 4 * n * m * d);
}

TEST(GradientPlanner, TakesTheFormWithTheLeastTime) {
  ioattn_test::RandomProblem random(70);
  int g = 0, h = 0;
  for (int round = 0; round < 300; ++round) {
    const LayerShape shape = random.shape(800, 120);
    const LayerRequest request = request_for(shape, random.logarithmic(2000, 1 << 18));
    LayerPlan plan;
    Estimate estimate;
    ASSERT_OK(make_gradient_plan(request, keys_and_values(), &plan, &estimate));
    ASSERT_LE(estimate.cost.total().footprint, request.M);
    ++(plan.blocks.rows.form == Form::g ? g : h);
    if (shape.dv * 2 < shape.d && shape.n > 64 && shape.m > 64) {
      EXPECT_EQ(plan.blocks.rows.form, Form::h);
    }
  }
  EXPECT_GT(g, 30);
  EXPECT_GT(h, 30);
}

TEST(GradientPlanner, ScratchIsWhatPassesThroughMemory) {
  const LayerShape shape = {50, 40, 12, 7, Tie::none};
  const auto [n, m, d, e, tie, mask] = shape;
  GradientSet set;
  set.dA1 = set.dY = set.dW_Q = true;
  set.dk = 4;
  LayerRequest request = request_for(shape, 1 << 14);
  LayerPlan plan;
  Estimate estimate;
  ASSERT_OK(make_gradient_plan(request, set, &plan, &estimate));
  const index_t words = n + n * d + m * e + n * d + m * e + d * d;  // delta, S, h, U, W, dX
  EXPECT_EQ(estimate.scratch_bytes, 4 * words);
  request.memory_limit_bytes = 4 * words;
  EXPECT_OK(make_gradient_plan(request, set, &plan));
  request.memory_limit_bytes -= 1;
  const LayerPlan before = plan;
  EXPECT_EQ(make_gradient_plan(request, set, &plan).code(), StatusCode::memory_limit);
  EXPECT_EQ(plan, before);
}

TEST(GradientPlanner, TextListsThePhases) {
  GradientSet set;
  set.dX = set.dY = true;
  LayerPlan plan;
  ASSERT_OK(make_gradient_plan(request_for({50, 40, 12, 7, Tie::none}, 5000), set, &plan));
  const std::string text = to_text(plan, set, Tie::none);
  // Passes are plans, which parse.
  const std::size_t first = text.find(" ; "), second = text.find(" ; ", first + 1);
  Plan rows, keys;
  std::string error;
  ASSERT_TRUE(parse_plan(text.substr(0, first), &rows, &error)) << error;
  ASSERT_TRUE(parse_plan(text.substr(first + 3, second - first - 3), &keys, &error)) << error;
  EXPECT_EQ(rows.blocks, plan.blocks.rows);
  EXPECT_EQ(keys.blocks, plan.blocks.keys);
  EXPECT_EQ(keys.schedule, Schedule::col_stream);
  EXPECT_EQ(text.substr(second).rfind(" ; dY=", 0), 0u) << text;
}

// Where few rows of d words fit in M, tiles move fewer words and are predicted to take less time.
TEST(GradientPlanner, LongRowsAreTakenByTiles) {
  GradientSet all;
  all.dX = all.dY = all.dA1 = all.dA2 = all.dA3 = true;
  const index_t M = 196608;
  for (const index_t d : {64, 128, 1024, 2048}) {
    const LayerShape shape = {1024, 1024, d, d, Tie::none};
    LayerRequest request = request_for(shape, M);
    request.tile = {Isa::avx512, 8, 32};
    LayerPlan plan, columns;
    Estimate estimate, of_columns;
    ASSERT_OK(make_gradient_plan(request, all, &plan, &estimate));
    EXPECT_EQ(plan.blocks.by_keys == Schedule::tile_fused, d >= 1024) << d;
    EXPECT_LE(estimate.cost.total().footprint, M);
    if (d < 1024) continue;
    EXPECT_TRUE(plan.blocks.keys.one_pass);
    for (const LayerCandidate& other : gradient_candidates(request, all, false)) {
      if (other.plan.blocks.by_keys == Schedule::tile_fused) continue;
      EXPECT_LT(estimate.cost.total().words(), other.estimate.cost.total().words()) << d;
      EXPECT_LT(estimate.time / 0.95, other.estimate.time) << d;
    }
    // L3 with room for longer rows does as well.
    if (d > 1024) continue;
    request.outer_M = 1 << 20;
    ASSERT_OK(make_gradient_plan(request, all, &columns, &of_columns));
    EXPECT_EQ(columns.blocks.by_keys, Schedule::col_stream);
    EXPECT_EQ(columns.level, "L3");
  }
}

// Rows that fill no lanes hold more memory than is counted: fewer keys pass by them at a time, so
// that their panels, U, the keys, the copies of these and values fit in a cache of 4/3 M.
TEST(GradientPlanner, FewKeysPassByPaddedRows) {
  const index_t n = 256, d = 2048, M = 98304;
  LayerRequest request = request_for({n, n, d, d, Tie::none}, M);
  request.schedule = Schedule::row_stream;
  GradientSet set = keys_and_values();
  set.dX = true;
  LayerPlan plan;
  ASSERT_OK(make_gradient_plan(request, set, &plan, nullptr));
  const Blocks& rows = plan.blocks.rows;
  ASSERT_LT(rows.r, tile.cols);
  ASSERT_EQ(rows.rho, rows.r);
  EXPECT_LE(2 * tile.cols * d + rows.r * d + 3 * rows.c * d, 4 * M / 3);
}

TEST(GradientPlanner, TilesByName) {
  const LayerShape shape = {50, 40, 12, 7, Tie::none};
  LayerRequest request = request_for(shape, 900);
  request.schedule = Schedule::tile_fused;
  struct Case {
    GradientSet set;
    std::string phases;
  };
  std::vector<Case> cases(4);
  cases[0].set.dX = true;
  cases[0].phases = "delta S h tile_fused dX";
  cases[1].set.dX = cases[1].set.dA1 = true;  // U is all that the tiles make
  cases[1].phases = "delta S h tile_fused dX dA1";
  cases[2].set.dA2 = cases[2].set.dA3 = true;
  cases[2].phases = "delta S h tile_fused dA3";
  cases[3].set.dX = cases[3].set.dY = cases[3].set.dA2 = true;
  cases[3].phases = "delta S h tile_fused dX dY";
  for (const Case& one : cases) {
    LayerPlan plan, parsed;
    Estimate estimate;
    ASSERT_OK(make_gradient_plan(request, one.set, &plan, &estimate));
    std::string names;
    for (int i = 0; i < estimate.cost.phase_count; ++i) {
      names += (i == 0 ? "" : " ") + std::string(estimate.cost.phases[std::size_t(i)].name);
    }
    EXPECT_EQ(names, one.phases);
    EXPECT_EQ(estimate.fma, theory::gradients_fma(shape, one.set, plan.blocks));
    const std::string text = to_text(plan, one.set, Tie::none);
    EXPECT_NE(text.find(":tile_fused(form=h,c="), std::string::npos) << text;
    std::string error;
    ASSERT_TRUE(parse_layer_plan(text, one.set, Tie::none, &parsed, &error)) << error;
    EXPECT_EQ(to_text(parsed, one.set, Tie::none), text);
    EXPECT_EQ(parsed.blocks.schedule, plan.blocks.schedule);
    EXPECT_EQ(parsed.blocks.rows, plan.blocks.rows);
    EXPECT_EQ(parsed.blocks.by_keys, plan.blocks.by_keys);
    if (!one.set.is_dx_alone()) {
      EXPECT_EQ(parsed.blocks.keys, plan.blocks.keys);
    }
  }
  // U is made once, whatever else the tiles make.
  const GradientSet& keys = cases[2].set;
  GradientSet both = keys;
  both.dX = true;
  LayerPlan plan;
  ASSERT_OK(make_gradient_plan(request, both, &plan));
  LayerBlocks apart = plan.blocks;
  apart.keys.one_pass = false;
  const index_t more =
      theory::gradients_fma(shape, both, plan.blocks) - theory::gradients_fma(shape, keys, apart);
  EXPECT_EQ(more, 50 * 40 * 12 + 50 * 12 * 12);  // p A2, A1^T U

  request.problem.dtype = DType::bf16;
  for (const Case& one : cases)
    EXPECT_EQ(make_gradient_plan(request, one.set, &plan).code(), StatusCode::unsupported);
}

}  // namespace
}  // namespace ioattn::plan
