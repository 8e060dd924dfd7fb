// Plans that are kept are those that would be made.

#include "api/plan_cache.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "api/layer_search.hpp"
#include "api/sdpa.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

// Each call has the plan that is made for it, in any order.
template <class Estimate, class Call>
void expect_kept_apart(const std::vector<Call>& all) {
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Estimate estimate;  // with one the plan is made
      EXPECT_EQ(all[i].plan(nullptr), all[i].plan(&estimate)) << i;
      EXPECT_EQ(all[i].plan(nullptr), all[i].plan(&estimate)) << i;
    }
  }
}

struct Call {
  SdpaProblem problem;
  api::RunOptions options;
  std::optional<SdpaSet> set;

  plan::SdpaPlan plan(plan::SdpaEstimate* estimate) const {
    plan::SdpaPlan made;
    const Status status = set ? api::plan_sdpa(problem, *set, options, &made, estimate)
                              : api::plan_sdpa(problem, options, &made, estimate);
    EXPECT_TRUE(status.is_ok()) << status.message();
    return made;
  }
};

// Calls that differ from each other in one thing.
std::vector<Call> calls() {
  Call first;
  first.problem.shape = {2, 4, 2, 500, 700, 64, 48, {}};
  std::vector<Call> list(11, first);
  list[1].problem.shape.m = 701;
  list[2].problem.shape.d = 65;
  list[3].problem.dtype = DType::f64;
  list[4].options.M = 5000;
  list[5].options.M = 6000;
  list[6].options.cache_level = 1;
  list[7].set = SdpaSet{true, true, true, false};
  list[8].set = SdpaSet{true, false, false, false};
  list[9].set = SdpaSet{false, true, true, false};
  list[10].set = SdpaSet{true, true, true, false};
  list[10].options.M = 30000;
  return list;
}

TEST(SdpaPlanCache, KeepsPlansApart) {
  expect_kept_apart<plan::SdpaEstimate>(calls());
  plan::SdpaRequest request;
  plan::SdpaPlan plan;
  request.M = 12345;
  EXPECT_FALSE(api::sdpa_plans().find(request, std::nullopt, 1, &plan));
  plan.blocks.rows.r = 77;
  api::sdpa_plans().keep(request, std::nullopt, 1, plan);
  plan::SdpaPlan found;
  EXPECT_TRUE(api::sdpa_plans().find(request, std::nullopt, 1, &found));
  EXPECT_EQ(found, plan);
  EXPECT_FALSE(api::sdpa_plans().find(request, SdpaSet{}, 1, &found));
  EXPECT_FALSE(api::sdpa_plans().find(request, std::nullopt, 2, &found)) << "wisdom has changed";
  // The oldest make room.
  for (request.M = 1; request.M <= 16; ++request.M)
    api::sdpa_plans().keep(request, std::nullopt, 1, plan);
  request.M = 12345;
  EXPECT_FALSE(api::sdpa_plans().find(request, std::nullopt, 1, &found));
}

TEST(SdpaPlanCache, IsSharedByThreads) {
  const std::vector<Call> all = calls();
  std::vector<plan::SdpaPlan> expected;
  for (const Call& call : all) {
    plan::SdpaEstimate estimate;
    expected.push_back(call.plan(&estimate));
  }
  const auto body = [&](std::size_t start) {
    for (std::size_t i = 0; i < 300; ++i) {
      const std::size_t k = (start + i * 7) % all.size();
      EXPECT_EQ(all[k].plan(nullptr), expected[k]);
    }
  };
  std::thread other(body, 3);
  body(0);
  other.join();
}

struct LayerCall {
  LayerProblem problem;
  api::RunOptions options;
  std::optional<GradientSet> set;

  plan::GradientPlan plan(plan::GradientEstimate* estimate) const {
    plan::GradientPlan made;
    const Status status = api::plan_layer(problem, set, options, &made, estimate);
    EXPECT_TRUE(status.is_ok()) << status.message();
    return made;
  }
};

// Calls that differ from the first in one thing, and have other plans.
std::vector<LayerCall> layer_calls() {
  LayerCall first;
  first.problem.shape = {500, 700, 64, 48, Tie::none, {}};
  first.set.emplace().dX = true;
  std::vector<LayerCall> list(15, first);
  list[1].problem.shape.n = 190;
  list[2].problem.shape.m = 90;
  list[3].problem.shape.d = 90;
  list[4].problem.shape.dv = 200;
  list[5].problem.shape.tie = Tie::kv;
  list[6].problem.shape.mask = window(0, 20, 0);
  list[7].problem.dtype = DType::f64;
  list[8].options.M = 5000;
  list[9].options.cache_level = 1;
  list[10].options.schedule = Schedule::stationary;
  list[11].options.objective = api::Objective::words_l2;
  list[12].set->dY = true;
  list[13].set->dA1 = true;
  list[14].set.reset();
  return list;
}

TEST(LayerPlanCache, KeepsPlansApart) { expect_kept_apart<plan::GradientEstimate>(layer_calls()); }

// A plan that is kept is given out, and to no other request.
TEST(LayerPlanCache, HasWhatItKeeps) {
  plan::PlanRequest request;
  request.M = 12345;
  plan::GradientPlan plan, found;
  EXPECT_FALSE(api::layer_plans().find(request, std::nullopt, 1, &plan));
  plan.blocks.rows.r = 77;
  api::layer_plans().keep(request, std::nullopt, 1, plan);
  EXPECT_TRUE(api::layer_plans().find(request, std::nullopt, 1, &found));
  EXPECT_EQ(found, plan);
  EXPECT_FALSE(api::layer_plans().find(request, GradientSet{}, 1, &found));
  EXPECT_FALSE(api::layer_plans().find(request, std::nullopt, 2, &found));
  const auto expect_other = [&](const auto& change) {
    plan::PlanRequest other = request;
    change(&other);
    EXPECT_FALSE(api::layer_plans().find(other, std::nullopt, 1, &found));
  };
  expect_other([](plan::PlanRequest* other) { other->problem.batch = 2; });
  expect_other([](plan::PlanRequest* other) { other->problem.scale = 0.5; });
  expect_other([](plan::PlanRequest* other) { other->level = "L1"; });
  expect_other([](plan::PlanRequest* other) { other->outer_M = 1; });
  expect_other([](plan::PlanRequest* other) { other->literal = true; });
  expect_other([](plan::PlanRequest* other) { other->memory_limit_bytes = 9; });
  expect_other([](plan::PlanRequest* other) { other->tile.rows += 1; });
  expect_other([](plan::PlanRequest* other) { other->price.per_word += 1; });
}

}  // namespace
}  // namespace ioattn_test
