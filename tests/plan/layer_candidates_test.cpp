#include "plan/layer/layer_candidates.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/blocks/fast_memory.hpp"
#include "status_ok.hpp"

// What a search for plans of the layer problem compares.
namespace ioattn::plan {
namespace {

using Set = std::optional<GradientSet>;

GradientSet set_of(bool all, bool weights) {
  GradientSet set;
  set.dX = true;
  set.dY = set.dA1 = set.dA2 = set.dA3 = all;
  set.dW_Q = set.dW_K = weights;
  if (weights) set.dk = 12;
  return set;
}
const Set forward, dx = set_of(false, false), weights = set_of(false, true),
                   all = set_of(true, true);

LayerRequest request_for(const LayerShape& shape, DType dtype = DType::f32) {
  LayerRequest request;
  request.problem.shape = shape;
  request.problem.dtype = dtype;
  request.M = 20000;
  request.outer_M = 100000;
  request.tile = {Isa::avx2, 6, 16};
  return request;
}

struct Case {
  LayerRequest request;
  const Set* set;
};
std::vector<Case> cases() {
  std::vector<Case> list;
  const Mask causal = window(0, -1, 0);
  for (const Set* set : {&forward, &dx, &weights, &all}) {
    for (const Tie tie : {Tie::none, Tie::kv})
      list.push_back({request_for({300, 260, 70, 40, tie, {}}), set});
    list.push_back({request_for({300, 260, 70, 90, Tie::none, causal}), set});
    list.push_back({request_for({300, 300, 48, 48, Tie::all, {}}, DType::bf16), set});
    list.push_back({request_for({300, 260, 24, 8, Tie::none, {}}), set});
    list.back().request.memory_limit_bytes = 4 << 20;
  }
  return list;
}

// What any plan of a list has to be.
void expect_good(const Case& one, const LayerCandidate& candidate) {
  const LayerRequest& request = one.request;
  const LayerShape& shape = request.problem.shape;
  const std::string text = to_text(candidate.plan, *one.set, shape.tie);
  SCOPED_TRACE(candidate.made_from + ": " + text);
  LayerPlan parsed;
  std::string error;
  ASSERT_TRUE(parse_plan_of(text, *one.set, shape.tie, &parsed, &error)) << error;
  EXPECT_EQ(to_text(parsed, *one.set, shape.tie), text);
  const Schedule schedule = candidate.plan.blocks.schedule;
  EXPECT_TRUE(!shape.mask.hides() || takes_masks(schedule));
  EXPECT_TRUE(takes_dtype(schedule, request.problem.dtype, request.tile.isa));
  EXPECT_TRUE(request.memory_limit_bytes >= 0 || !stores_scores(schedule));
  LayerBlocks whole = parsed.blocks;
  take_whole_strips(schedule, shape.n, &whole.rows);
  EXPECT_EQ(whole.rows.r, parsed.blocks.rows.r);
  Estimate estimate;
  estimate_costs(request, *one.set, parsed, &estimate);
  EXPECT_LE(estimate.cost.total().footprint, estimate.M);
  EXPECT_EQ(estimate.M, candidate.plan.level == outer_level ? request.outer_M : request.M);
  EXPECT_EQ(estimate.cost.total(), candidate.estimate.cost.total());
  EXPECT_EQ(estimate.fma, candidate.estimate.fma);
  EXPECT_EQ(estimate.scratch_bytes, candidate.estimate.scratch_bytes);
  if (request.memory_limit_bytes >= 0) {
    EXPECT_LE(estimate.scratch_bytes, request.memory_limit_bytes);
  }
}

TEST(LayerCandidates, BeginWithTheEstimateAndDiffer) {
  for (const Case& one : cases()) {
    std::vector<LayerCandidate> list;
    ASSERT_OK(list_candidates(one.request, *one.set, &list));
    SCOPED_TRACE(to_text(list[0].plan, *one.set, one.request.problem.shape.tie));
    LayerPlan estimate;
    ASSERT_OK(make_plan_of(one.request, *one.set, &estimate, nullptr));
    EXPECT_EQ(list[0].made_from, "estimate");
    EXPECT_EQ(list[0].plan, estimate);
    EXPECT_GT(list.size(), 3u);
    EXPECT_LE(list.size(), most_candidates);
    for (std::size_t i = 0; i < list.size(); ++i) {
      expect_good(one, list[i]);
      EXPECT_GT(list[i].estimate.time, 0);
      EXPECT_LE(list[i].estimate.time, hopeless * list[0].estimate.time);
      EXPECT_TRUE(i < 2 || list[i].estimate.time >= list[i - 1].estimate.time);
      for (std::size_t j = 0; j < i; ++j)
        EXPECT_FALSE(list[i].plan.blocks == list[j].plan.blocks) << i << " " << j;
    }
  }
}

TEST(LayerCandidates, AreOfSeveralSchedulesAndOfBothLevels) {
  LayerRequest request = request_for({300, 260, 24, 24, Tie::none, {}});
  request.memory_limit_bytes = 64 << 20;
  for (const Set* set : {&forward, &dx, &all}) {
    std::vector<LayerCandidate> list;
    ASSERT_OK(list_candidates(request, *set, &list));
    std::vector<Schedule> schedules;
    bool is_outer = false;
    for (const LayerCandidate& one : list) {
      const Schedule schedule = one.plan.blocks.schedule;
      if (std::find(schedules.begin(), schedules.end(), schedule) == schedules.end())
        schedules.push_back(schedule);
      is_outer = is_outer || one.plan.level == outer_level;
    }
    EXPECT_GE(schedules.size(), 2u);
    EXPECT_TRUE(is_outer);
  }
}

TEST(LayerCandidates, HaveNeighboursThatFit) {
  for (const Case& one : cases()) {
    LayerPlan plan;
    ASSERT_OK(make_plan_of(one.request, *one.set, &plan, nullptr));
    const std::vector<LayerCandidate> list = neighbours(one.request, *one.set, plan);
    EXPECT_GE(list.size(), 3u);
    for (const LayerCandidate& near : list) {
      EXPECT_FALSE(near.plan.blocks == plan.blocks) << near.made_from;
      EXPECT_TRUE(near.made_from.rfind("twice ", 0) == 0 ||
                  near.made_from.rfind("half of ", 0) == 0);
      expect_good(one, near);
    }
  }
}

TEST(LayerCandidates, FailAsThePlannerDoes) {
  LayerRequest request = request_for({300, 260, 70, 40, Tie::none, {}});
  request.M = 2;
  request.outer_M = 0;
  std::vector<LayerCandidate> list;
  for (const Set* set : {&forward, &dx, &all})
    EXPECT_EQ(list_candidates(request, *set, &list).code(), StatusCode::fast_memory_too_small);
  EXPECT_TRUE(list.empty());
}

// dX by a pass of its own is rounded from floats, which the pass knows nothing of.
TEST(LayerCandidates, FloatsToRoundAreWithinTheLimit) {
  for (const Set* set : {&dx, &weights}) {
    LayerRequest request = request_for({3, 2, 70, 40, Tie::none, {}}, DType::bf16);
    request.memory_limit_bytes = 1 << 20;
    LayerPlan plan;
    Estimate estimate;
    ASSERT_OK(make_plan_of(request, *set, &plan, &estimate));
    const index_t floats = 70 * (set == &dx ? 70 : 70 + 12 + 12);
    EXPECT_GT(estimate.scratch_bytes, 4 * floats);
    request.memory_limit_bytes = estimate.scratch_bytes;
    EXPECT_OK(make_plan_of(request, *set, &plan, nullptr));
    for (const index_t limit : {4 * floats - 1, index_t{1}}) {
      request.memory_limit_bytes = limit;
      const Status status = make_plan_of(request, *set, &plan, nullptr);
      EXPECT_EQ(status.code(), StatusCode::memory_limit) << limit;
      const std::string message = status.message();
      EXPECT_NE(message.find(" " + std::to_string(limit) + " bytes"), std::string::npos) << message;
      EXPECT_TRUE(gradient_candidates(request, **set, false).empty());
    }
  }
}

}  // namespace
}  // namespace ioattn::plan
