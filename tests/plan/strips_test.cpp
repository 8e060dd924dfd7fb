// Row blocks that threads make shorter are of whole strips, in every plan of SDPA and in what a
// search makes of one; tests/plan/layer_candidates_test.cpp holds the layer problem to the same.

#include <gtest/gtest.h>

#include "plan/sdpa/sdpa_candidates.hpp"
#include "reference/sanitizer.hpp"
#include "schedules/random_problem.hpp"
#include "status_ok.hpp"

namespace ioattn::plan {
namespace {

bool has_whole_strips(const SdpaPlan& plan, index_t n) {
  Blocks whole = plan.blocks.rows;
  take_whole_strips(Schedule::row_stream, n, &whole);
  return whole == plan.blocks.rows;
}

TEST(Strips, AreWholeInEveryPlan) {
  ioattn_test::RandomProblem random(43);
  const TileShape tiles[] = {
      {Isa::avx2, 6, 16}, {Isa::avx512, 8, 32}, {Isa::avx512_bf16, 8, 32}, {Isa::neon, 8, 8}};
  const std::optional<SdpaSet> sets[] = {std::nullopt, SdpaSet{true, false, false},
                                         SdpaSet{true, true, true},
                                         SdpaSet{true, true, true, true}};
  int several = 0, near = 0;
  for (int round = 0; round < ioattn_test::cases(3000); ++round) {
    const TileShape& tile = tiles[random.uniform(0, std::size(tiles) - 1)];
    const std::optional<SdpaSet>& set = sets[random.uniform(0, std::size(sets) - 1)];
    SdpaRequest request;
    request.tile = tile;
    request.dtype = multiplies_pairs(tile.isa) ? DType::bf16
                    : round % 3 == 0           ? DType::f16
                                               : DType::f32;
    const index_t n = random.logarithmic(1, 5000), m = random.logarithmic(1, 5000);
    request.shape = {1, 1, 1, n, m, random.logarithmic(1, 600), random.logarithmic(1, 600), {}};
    if (set && set->dBias) request.shape.bias_batch = request.shape.bias_heads = 1;
    request.M = random.logarithmic(20000, 300000);
    request.outer_M = random.uniform(0, 1) * 5 * request.M;
    SdpaPlan plan;
    const Status status = make_plan_of(request, set, &plan, nullptr);
    ASSERT_OK(status);
    ASSERT_TRUE(has_whole_strips(plan, n)) << n << ": " << to_text(plan);
    several += plan.blocks.rows.r > plan.blocks.rows.rho && plan.blocks.rows.r < n;
    for (const SdpaCandidate& other : neighbours(request, set, plan)) {
      ASSERT_TRUE(has_whole_strips(other.plan, n)) << other.made_from << to_text(other.plan);
      ++near;
    }
  }
  EXPECT_GT(several, ioattn_test::cases(200));
  EXPECT_GT(near, ioattn_test::cases(3000));
}

// Values come from L2 once per strip, by panels of one line.
TEST(Strips, OfAvx2AreLong) {
  for (const index_t n : {1024, 2048, 4096})
    for (const index_t d : {64, 128, 256})
      for (const index_t M : {60000, 98304, 200000}) {
        SdpaRequest request;
        request.shape = {1, 1, 1, n, n, d, d, {}};
        request.M = M;
        request.outer_M = 8 * M;
        request.tile = {Isa::avx2, 6, 16};
        SdpaPlan plan;
        ASSERT_OK(make_plan_of(request, std::nullopt, &plan, nullptr));
        EXPECT_GE(plan.blocks.rows.rho, 48) << n << ", M = " << M << ": " << to_text(plan);
      }
}

TEST(Strips, OfTwiceTheRowsAndOfHalfTheBlock) {
  SdpaRequest request;
  request.shape = {1, 1, 1, 1000, 1000, 64, 64, {}};
  request.M = 200000;
  request.tile = {Isa::avx512, 8, 32};
  SdpaPlan plan;
  ASSERT_OK(make_plan_of(request, std::nullopt, &plan, nullptr));
  plan.blocks.rows.r = 192;
  plan.blocks.rows.rho = 64;
  int found = 0;
  for (const SdpaCandidate& other : neighbours(request, std::nullopt, plan)) {
    const Blocks& rows = other.plan.blocks.rows;
    if (other.made_from == "twice rho") found += rows.r == 128 && rows.rho == 128;
    if (other.made_from == "half of r") found += rows.r == 64 && rows.rho == 64;
    if (other.made_from == "half of rho") found += rows.r == 192 && rows.rho == 32;
  }
  EXPECT_EQ(found, 3);
}

}  // namespace
}  // namespace ioattn::plan
