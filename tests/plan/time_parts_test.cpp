#include "plan/times/time_parts.hpp"

#include <gtest/gtest.h>

#include "plan/blocks/fast_memory.hpp"
#include "status_ok.hpp"

// What a predicted time is made of: the parts add up to what plans are compared by.
namespace ioattn::plan {
namespace {

SdpaRequest sdpa_request(index_t n, index_t d, const TileShape& tile, DType dtype = DType::f32) {
  SdpaRequest request;
  request.shape = {2, 4, 2, n, n + 30, d, d, {}};
  request.dtype = dtype;
  request.M = 100000;
  request.outer_M = 400000;
  request.tile = tile;
  return request;
}
constexpr TileShape tiles[] = {{Isa::avx2, 6, 16}, {Isa::avx512, 8, 32}};
constexpr TileShape pairs[] = {{Isa::avx512_bf16, 8, 32}, {Isa::avx512_amx, 8, 32}};

void expect_parts(const SdpaRequest& request, const std::optional<SdpaSet>& set) {
  std::vector<SdpaCandidate> list;
  ASSERT_OK(list_candidates(request, set, &list));
  bool inner = false, outer = false;
  for (const SdpaCandidate& one : list) {
    SCOPED_TRACE(one.made_from + ": " + to_text(one.plan));
    // Candidates in a part of a level are compared by what they take there.
    if (one.made_from != "estimate" && one.made_from.find("8/8") == std::string::npos) continue;
    const TimeParts parts = time_parts(request, set, one.plan, 3000);
    EXPECT_NEAR(parts.total(), one.estimate.time, 1e-9 * one.estimate.time);
    EXPECT_GT(parts.products, 0);
    EXPECT_GT(parts.outer_words, 0);
    EXPECT_GT(parts.outer_time, 0);
    const bool is_outer = one.plan.level == outer_level;
    (is_outer ? outer : inner) = true;
    EXPECT_EQ(parts.inner_words > 0, is_outer);
    EXPECT_EQ(parts.inner_time > 0, is_outer);
    // More passes between L2 and L1 than past L2, and none is told where L1 is not smaller.
    if (multiplies_pairs(request.tile.isa)) {
      EXPECT_TRUE(parts.kernel_words < 0 || set);
    } else {
      EXPECT_GT(parts.kernel_words, static_cast<double>(parts.outer_words));
    }
    EXPECT_LT(time_parts(request, set, one.plan, 0).kernel_words, 0);
    EXPECT_LT(time_parts(request, set, one.plan, request.M).kernel_words, 0);
  }
  EXPECT_TRUE(inner && outer);
}

TEST(TimeParts, OfSdpaAddUp) {
  const std::optional<SdpaSet> forward, all = SdpaSet{true, true, true}, keys = {{false, true}};
  for (const auto& set : {forward, all, keys}) {
    for (const TileShape& tile : tiles)
      for (const index_t d : {48, 300}) expect_parts(sdpa_request(500, d, tile), set);
    for (const TileShape& tile : pairs)
      for (const index_t d : {48, 600}) expect_parts(sdpa_request(500, d, tile, DType::bf16), set);
  }
}

TEST(TimeParts, FollowThePrice) {
  SdpaRequest request = sdpa_request(500, 300, tiles[0]);
  SdpaPlan plan;
  ASSERT_OK(make_plan_of(request, {}, &plan, nullptr));
  const TimeParts before = time_parts(request, {}, plan, 3000);
  request.price = {Objective::time, 32, 12};
  const TimeParts after = time_parts(request, {}, plan, 3000);
  EXPECT_DOUBLE_EQ(after.products, before.products);
  EXPECT_NEAR(after.outer_time, 2 * before.outer_time, 1e-9 * before.outer_time);
  EXPECT_NEAR(after.inner_time, 3 * before.inner_time, 1e-9 * before.inner_time);
  EXPECT_EQ(after.outer_words, before.outer_words);
  EXPECT_NEAR(after.kernel_words, before.kernel_words, 1e-9 * before.kernel_words);
  request.price = price_of(Objective::words);
  EXPECT_NEAR(time_parts(request, {}, plan, 3000).total(), before.total(), 1e-9 * before.total());
}

TEST(TimeParts, OfTheLayerProblemAddUp) {
  GradientSet dx, all;
  dx.dX = true;
  all.dX = all.dY = all.dA1 = all.dA2 = all.dA3 = true;
  for (const std::optional<GradientSet>& set : {std::optional<GradientSet>(), {dx}, {all}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      LayerRequest request;
      request.problem.shape = {300, 260, 70, 40, Tie::kv, {}};
      request.problem.dtype = dtype;
      request.M = 20000;
      request.outer_M = 100000;
      request.tile = tiles[0];
      std::vector<LayerCandidate> list;
      ASSERT_OK(list_candidates(request, set, &list));
      for (const LayerCandidate& one : list) {
        SCOPED_TRACE(one.made_from + ": " + to_text(one.plan, set, Tie::kv));
        if (one.made_from != "estimate" && one.made_from.find("8/8") == std::string::npos) continue;
        const TimeParts parts = time_parts(request, set, one.plan, 1000);
        EXPECT_NEAR(parts.total(), one.estimate.time, 1e-9 * one.estimate.time);
        EXPECT_GT(parts.products, 0);
        EXPECT_EQ(parts.outer_words, one.estimate.cost.total().words());
        EXPECT_EQ(parts.inner_words > 0, one.plan.level == outer_level);
        const Blocks& rows = one.plan.blocks.rows;
        EXPECT_EQ(parts.kernel_words > 0, (!set || set == dx) &&
                                              one.plan.blocks.schedule == Schedule::row_stream &&
                                              rows.products == Products::stored);
      }
    }
  }
}

}  // namespace
}  // namespace ioattn::plan
