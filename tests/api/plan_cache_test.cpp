// Plans that are kept are those that would be made.

#include "api/planning/plan_cache.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "api/planning/layer_planning.hpp"
#include "api/run/sdpa.hpp"
#include "api/search/layer_search.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

Status make_plan(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                 const api::RunOptions& options, plan::SdpaPlan* made, plan::Estimate* estimate) {
  return api::plan_sdpa(problem, set, options, made, estimate);
}
Status make_plan(const LayerProblem& problem, const std::optional<GradientSet>& set,
                 const api::RunOptions& options, plan::LayerPlan* made, plan::Estimate* estimate) {
  return api::plan_layer(problem, set, options, made, estimate);
}

template <class Problem, class Set, class Plan>
struct CallOf {
  Problem problem;
  api::RunOptions options;
  std::optional<Set> set;

  Plan plan(plan::Estimate* estimate) const {
    Plan made;
    const Status status = make_plan(problem, set, options, &made, estimate);
    EXPECT_OK(status);
    return made;
  }
  Plan kept_or_made() const { return plan(nullptr); }
  Plan made() const {
    plan::Estimate estimate;  // with one the plan is made
    return plan(&estimate);
  }
};
using Call = CallOf<SdpaProblem, SdpaSet, plan::SdpaPlan>;
using LayerCall = CallOf<LayerProblem, GradientSet, plan::LayerPlan>;

// Each call has the plan that is made for it, in any order.
template <class AnyCall>
void expect_kept_apart(const std::vector<AnyCall>& all) {
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].kept_or_made(), all[i].made()) << i;
      EXPECT_EQ(all[i].kept_or_made(), all[i].made()) << i;
    }
  }
}

template <class Request, class Set, class Plan, class Change>
void expect_other(api::PlanCache<Request, Set, Plan>* cache, Request request,
                  const Change& change) {
  Plan found;
  EXPECT_TRUE(cache->find(request, std::nullopt, 1, &found));
  change(&request);
  EXPECT_FALSE(cache->find(request, std::nullopt, 1, &found));
}

// A plan that is kept is given out, to no other request, until others have taken its room.
template <class Request, class Set, class Plan>
void expect_keeps(api::PlanCache<Request, Set, Plan>* cache, Request request) {
  request.M = 12345;
  Plan plan, found;
  EXPECT_FALSE(cache->find(request, std::nullopt, 1, &plan));
  plan.blocks.rows.r = 77;
  cache->keep(request, std::nullopt, 1, plan);
  EXPECT_TRUE(cache->find(request, std::nullopt, 1, &found));
  EXPECT_EQ(found, plan);
  EXPECT_FALSE(cache->find(request, Set{}, 1, &found));
  EXPECT_FALSE(cache->find(request, std::nullopt, 2, &found)) << "wisdom has changed";
  expect_other(cache, request, [](Request* other) { other->level = "L1"; });
  expect_other(cache, request, [](Request* other) { other->outer_M = 1; });
  expect_other(cache, request, [](Request* other) { other->memory_limit_bytes = 9; });
  expect_other(cache, request, [](Request* other) { other->tile.rows += 1; });
  expect_other(cache, request, [](Request* other) { other->price.per_word += 1; });
  for (request.M = 1; request.M <= 16; ++request.M) cache->keep(request, std::nullopt, 1, plan);
  request.M = 12345;
  EXPECT_FALSE(cache->find(request, std::nullopt, 1, &found));
}

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

TEST(SdpaPlanCache, KeepsPlansApart) { expect_kept_apart(calls()); }

TEST(SdpaPlanCache, HasWhatItKeeps) { expect_keeps(&api::sdpa_plans(), plan::SdpaRequest()); }

TEST(SdpaPlanCache, IsSharedByThreads) {
  const std::vector<Call> all = calls();
  std::vector<plan::SdpaPlan> expected;
  for (const Call& call : all) expected.push_back(call.made());
  const auto body = [&](std::size_t start) {
    for (std::size_t i = 0; i < 300; ++i) {
      const std::size_t k = (start + i * 7) % all.size();
      EXPECT_EQ(all[k].kept_or_made(), expected[k]);
    }
  };
  std::thread other(body, 3);
  body(0);
  other.join();
}

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

TEST(LayerPlanCache, KeepsPlansApart) { expect_kept_apart(layer_calls()); }

TEST(LayerPlanCache, HasWhatItKeeps) { expect_keeps(&api::layer_plans(), plan::LayerRequest()); }

// And a request differs by what only this problem has.
TEST(LayerPlanCache, KeepsProblemsApart) {
  plan::LayerRequest request;
  request.M = 54321;
  api::LayerPlanCache* const cache = &api::layer_plans();
  cache->keep(request, std::nullopt, 1, {});
  expect_other(cache, request, [](plan::LayerRequest* other) { other->problem.batch = 2; });
  expect_other(cache, request, [](plan::LayerRequest* other) { other->problem.scale = 0.5; });
  expect_other(cache, request, [](plan::LayerRequest* other) { other->literal = true; });
}

}  // namespace
}  // namespace ioattn_test
