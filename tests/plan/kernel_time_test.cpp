#include "plan/times/kernel_time.hpp"

#include <gtest/gtest.h>

#include "plan/handicaps.hpp"
#include "plan/sdpa/sdpa_candidates.hpp"
#include "status_ok.hpp"

// Which instruction set is faster where both compute as many lanes at a time: the one that computes
// fewer of them for nothing. Ratios that were measured on Zen 4 are in docs/tuning.md.
namespace ioattn::plan {
namespace {

constexpr TileShape avx2 = {Isa::avx2, 6, 16}, avx512 = {Isa::avx512, 8, 32};
constexpr TileShape avx2_f64 = {Isa::avx2, 6, 8}, avx512_f64 = {Isa::avx512, 8, 16};
const std::optional<SdpaSet> forward, all = SdpaSet{true, true, true};

SdpaRequest request_of(index_t n, index_t d, const TileShape& tile, DType dtype) {
  SdpaRequest request;
  request.shape = {1, 1, 1, n, 1024, d, d, {}};
  request.dtype = dtype;
  request.M = 196608;
  request.tile = tile;
  return request;
}

// AVX2 by AVX-512, whose sums are of quarters of a panel if vectors are taken by halves.
double ratio(index_t n, index_t d, const std::optional<SdpaSet>& set, DType dtype = DType::f32,
             bool in_halves = false) {
  const bool f64 = dtype == DType::f64;
  const SdpaRequest request = request_of(n, d, f64 ? avx512_f64 : avx512, dtype);
  SdpaPlan plan;
  EXPECT_OK(make_plan_of(request, set, &plan, nullptr));
  const double own =
      kernel_time(request.shape, set, dtype, plan, plan.tile.cols / (in_halves ? 4 : 2));
  EXPECT_GT(own, 0) << to_text(plan);
  plan.tile = f64 ? avx2_f64 : avx2;
  return kernel_time(request.shape, set, dtype, plan, plan.tile.cols / 2) / own;
}

TEST(KernelTime, CountsLanesThatAreWasted) {
  // Columns of gradients.
  for (const index_t d : {4, 8}) EXPECT_LT(ratio(512, d, all), 0.83) << d;
  EXPECT_LT(ratio(512, 4, forward), ratio(512, 16, forward) - 0.1);
  for (const index_t d : {8, 24, 40, 72}) {
    EXPECT_LT(ratio(512, d, all), ratio(512, d, all, DType::f32, true) - 0.02) << d;
    EXPECT_GT(ratio(512, d, all, DType::f32, true), 0.93) << d;
  }
  // Half a panel of either is as many lanes as are asked for.
  for (const index_t d : {16, 32, 64, 96, 128, 512, 2048}) {
    EXPECT_GT(ratio(512, d, forward), 0.95) << d;
    EXPECT_GT(ratio(512, d, all), 0.93) << d;
    EXPECT_LT(ratio(512, d, forward), 1.2) << d;
  }
  // Queries are lanes forward, and columns of nothing backward.
  for (const index_t d : {32, 64, 128}) {
    EXPECT_LT(ratio(8, d, forward), 0.75) << d;
    EXPECT_GT(ratio(8, d, all), 0.93) << d;
  }
  for (const index_t d : {32, 64, 128})
    EXPECT_GT(ratio(8, d, forward, DType::f32, true), handicap::another_isa) << d;
  // Few queries have keys for lanes, and AVX-512 more of them.
  for (const index_t n : {1, 2, 3, 4}) {
    EXPECT_GT(ratio(n, 64, forward), 0.95) << n;
    EXPECT_LT(ratio(n, 64, forward), 1.3) << n;
  }
  // Softmax of doubles by AVX2 takes longer, which counts most forward.
  EXPECT_GT(ratio(512, 4, forward, DType::f64), 1.1);
  EXPECT_LT(ratio(512, 4, all, DType::f64), 1);
}

// Tiles have no rows that stay: their queries are lanes as well.
TEST(KernelTime, IsAboutTheSameOfTilesAndRows) {
  for (const auto& set : {forward, all}) {
    double least = 0, most = 0;
    for (const SdpaForm form : {set ? SdpaForm::one_pass : SdpaForm::rows, SdpaForm::tiles}) {
      SdpaRequest request = request_of(512, 512, avx512, DType::f32);
      request.form = form;
      SdpaPlan plan;
      ASSERT_OK(make_plan_of(request, set, &plan, nullptr));
      const double time = kernel_time(request.shape, set, DType::f32, plan, 16);
      least = least == 0 ? time : std::min(least, time);
      most = std::max(most, time);
    }
    EXPECT_LT(most, 1.3 * least);
  }
}

TEST(KernelTime, IsNotKnownOfPairs) {
  const TileShape pairs = {Isa::avx512_bf16, 8, 32};
  SdpaRequest request = request_of(512, 64, pairs, DType::bf16);
  SdpaPlan plan;
  ASSERT_OK(make_plan_of(request, forward, &plan, nullptr));
  EXPECT_EQ(kernel_time(request.shape, forward, DType::bf16, plan, 16), 0);
  request.form = SdpaForm::tiles;
  ASSERT_OK(make_plan_of(request, all, &plan, nullptr));
  EXPECT_EQ(kernel_time(request.shape, all, DType::bf16, plan, 16), 0);
  // A pass over the keys without tiles multiplies f32.
  request.form = SdpaForm::one_pass;
  ASSERT_OK(make_plan_of(request, all, &plan, nullptr));
  EXPECT_GT(kernel_time(request.shape, all, DType::bf16, plan, 16), 0);
}

}  // namespace
}  // namespace ioattn::plan
