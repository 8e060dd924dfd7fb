// Plans that are kept are those that would be made.

#include "api/sdpa_plan_cache.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "api/sdpa.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

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
  const std::vector<Call> all = calls();
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      plan::SdpaEstimate estimate;  // with one the plan is made
      EXPECT_EQ(all[i].plan(nullptr), all[i].plan(&estimate)) << i;
    }
  }
  plan::SdpaRequest request;
  plan::SdpaPlan plan;
  request.M = 12345;
  EXPECT_FALSE(api::find_sdpa_plan(request, std::nullopt, 1, &plan));
  plan.blocks.rows.r = 77;
  api::keep_sdpa_plan(request, std::nullopt, 1, plan);
  plan::SdpaPlan found;
  EXPECT_TRUE(api::find_sdpa_plan(request, std::nullopt, 1, &found));
  EXPECT_EQ(found, plan);
  EXPECT_FALSE(api::find_sdpa_plan(request, SdpaSet{}, 1, &found));
  EXPECT_FALSE(api::find_sdpa_plan(request, std::nullopt, 2, &found)) << "wisdom has changed";
  // The oldest make room.
  for (request.M = 1; request.M <= 16; ++request.M)
    api::keep_sdpa_plan(request, std::nullopt, 1, plan);
  request.M = 12345;
  EXPECT_FALSE(api::find_sdpa_plan(request, std::nullopt, 1, &found));
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

}  // namespace
}  // namespace ioattn_test
