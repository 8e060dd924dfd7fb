// Plans that have the fewest words, held against all other plans: those that the planner lists for
// either objective, and blocks of whole register tiles by brute force.

#include <gtest/gtest.h>

#include "base/tile_steps.hpp"
#include "plan/blocks/block_search.hpp"
#include "plan/layer/gradient_planner.hpp"
#include "plan/layer/layer_candidates.hpp"
#include "plan/sdpa/sdpa_candidates.hpp"
#include "plan/times/time_parts.hpp"
#include "status_ok.hpp"
#include "theory/block_costs.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn::plan {
namespace {

constexpr TileShape tiles[] = {{Isa::avx2, 6, 16}, {Isa::avx512, 8, 32}};
constexpr index_t memories[] = {4096, 6144, 49152, 98304, 196608};  // L1 and L2, f32 and f64
const std::optional<SdpaSet> sets[] = {std::nullopt, SdpaSet{true, true, true},
                                       SdpaSet{true, false, false}, SdpaSet{false, true, true}};

struct Size {
  index_t n, m, d, dv;
};
constexpr Size sizes[] = {{1024, 1024, 64, 64}, {512, 2000, 128, 128}, {1024, 1024, 512, 512},
                          {300, 300, 16, 40},   {8, 5, 4, 3},          {2048, 128, 32, 32}};

SdpaRequest sdpa_request(const Size& size, index_t M, const TileShape& tile, Objective objective) {
  SdpaRequest request;
  request.shape.n = size.n;
  request.shape.m = size.m;
  request.shape.d = size.d;
  request.shape.dv = size.dv;
  request.shape.batch = request.shape.heads = request.shape.kv_heads = 1;
  request.M = M;
  request.tile = tile;
  request.price = price_of(objective);
  return request;
}

index_t words_of(const SdpaCandidate& candidate) { return candidate.estimate.cost.total().words(); }

// Whether no panel of a score tile is mostly padding, memory that no word counts.
bool fills_panels(const SdpaRequest& request, const SdpaBlocks& blocks) {
  const index_t queries = blocks.rows.rho, keys = blocks.keys.c;
  return (queries == 0 || fill_lanes(queries, request.shape.n, request.tile)) &&
         (keys == 0 || fill_lanes(keys, request.shape.m, request.tile));
}

struct Kernels {
  TileShape tile;
  DType dtype;
};
constexpr Kernels kernels[] = {{tiles[0], DType::f32},
                               {tiles[1], DType::f32},
                               {tiles[0], DType::f16},
                               {{Isa::avx512_bf16, 8, 32}, DType::bf16}};

TEST(Objective, SdpaHasTheFewestWordsOfAllCandidates) {
  int plans = 0, fewer = 0, filled = 0;
  for (const Size& size : sizes)
    for (const index_t M : memories)
      for (const auto& [tile, dtype] : kernels)
        for (const std::optional<SdpaSet>& set : sets) {
          SdpaRequest request = sdpa_request(size, M, tile, Objective::words);
          request.dtype = dtype;
          std::vector<SdpaCandidate> for_words, for_time;
          ASSERT_OK(list_candidates(request, set, &for_words));
          SdpaRequest in_time = request;
          in_time.price = price_of(Objective::time);
          ASSERT_OK(list_candidates(in_time, set, &for_time));
          const SdpaCandidate& chosen = for_words.front();
          SCOPED_TRACE(to_text(chosen.plan) + " M=" + std::to_string(M));
          EXPECT_LE(chosen.estimate.cost.total().footprint, M);
          const bool fills = fills_panels(request, chosen.plan.blocks);
          // In 16 bits blocks are those of the fewest numbers, of 2 and of 4 bytes.
          const double most = is_half(dtype) ? 1.05 : 1;
          const auto allowed = [&](const SdpaCandidate& other) {
            return most * static_cast<double>(words_of(other));
          };
          EXPECT_LE(words_of(chosen), allowed(for_time.front()));
          for (const auto& list : {for_words, for_time})
            for (const SdpaCandidate& other : list) {
              const bool other_fills = fills_panels(request, other.plan.blocks);
              if (fills && !other_fills) continue;
              EXPECT_LE(words_of(chosen), allowed(other)) << to_text(other.plan);
            }
          filled += fills;
          // The time that is told is the time, not what decided.
          const double time = time_parts(request, set, chosen.plan, 0).total();
          EXPECT_NEAR(chosen.estimate.time, time, 1e-9 * time);
          ++plans;
          fewer += words_of(chosen) < words_of(for_time.front());
        }
  // It is no other name for time.
  EXPECT_GT(fewer, plans / 8);
  EXPECT_GT(filled, plans * 3 / 4);
}

// Rows of 31 queries, one at a time, would count fewer words, and be padded to 32 times the memory.
TEST(Objective, SdpaOfWordsIsNotPaddedWhereTilesFit) {
  const SdpaRequest request = sdpa_request({1024, 1024, 64, 64}, 6144, tiles[1], Objective::words);
  for (const auto& set : sets) {
    SdpaPlan plan;
    ASSERT_OK(make_plan_of(request, set, &plan, nullptr));
    if (set && !set->keys()) continue;  // rows alone
    EXPECT_TRUE(fills_panels(request, plan.blocks)) << to_text(plan);
  }
}

// In an L1 whatever the depth, by tiles.
TEST(Objective, SdpaHasAPlanOfAnyDepth) {
  for (const index_t M : {index_t(100), index_t(4096), index_t(6144)})
    for (const index_t d : {index_t(1100), index_t(2048), index_t(70000)})
      for (const TileShape& tile : tiles)
        for (const auto& set : sets)
          for (const DType dtype : {DType::f32, DType::f64}) {
            SdpaRequest request = sdpa_request({300, 400, d, d + 7}, M, tile, Objective::words);
            request.dtype = dtype;
            SCOPED_TRACE("d=" + std::to_string(d) + " M=" + std::to_string(M));
            SdpaPlan plan;
            Estimate estimate;
            const Status status = make_plan_of(request, set, &plan, &estimate);
            ASSERT_OK(status);
            EXPECT_LE(estimate.cost.total().footprint, M) << to_text(plan);
          }
}

// dBias is made by rows.
TEST(Objective, DBiasNeedsRowsOfTheDepth) {
  SdpaSet set = {true, true, true};
  set.dBias = true;
  SdpaRequest request = sdpa_request({300, 400, 2048, 2048}, 4096, tiles[0], Objective::words);
  request.shape.bias_batch = request.shape.bias_heads = 1;
  SdpaPlan plan;
  const Status status = make_plan_of(request, set, &plan, nullptr);
  ASSERT_EQ(status.code(), StatusCode::fast_memory_too_small);
  EXPECT_NE(std::string(status.message()).find("the least is "), std::string::npos);
}

// dQ, dK and dV in one pass over the keys, and in two, with any c and rho of whole tiles.
TEST(Objective, NoWholeTilesOfSdpaMoveFewerWords) {
  const SdpaSet set = {true, true, true};
  for (const Size& size : {Size{700, 500, 48, 48}, Size{200, 260, 128, 64}}) {
    for (const index_t M : {index_t(20000), index_t(60000)}) {
      SdpaRequest request = sdpa_request(size, M, tiles[0], Objective::words);
      SdpaPlan plan;
      Estimate estimate;
      ASSERT_OK(make_plan_of(request, set, &plan, &estimate));
      request.form = SdpaForm::one_pass;
      SdpaPlan trial;
      Estimate cost;
      ASSERT_OK(make_plan_of(request, set, &trial, &cost));
      index_t least = cost.cost.total().words();
      for (index_t c = tiles[0].cols; c <= size.m; ++c)
        for (index_t rho = tiles[0].rows; rho <= 256; ++rho) {
          trial.blocks.keys.c = c;
          trial.blocks.keys.rho = rho;
          estimate_costs(request, set, trial, &cost);
          if (cost.cost.total().footprint > M) break;
          least = std::min(least, cost.cost.total().words());
        }
      EXPECT_LE(static_cast<double>(estimate.cost.total().words()),
                1.02 * static_cast<double>(least))
          << to_text(plan);
    }
  }
}

// Wider columns of the same tiles are as many words, but meet in few sets of a cache.
TEST(Objective, TilesOfAsManyWordsComeBySteps) {
  for (const TileShape& tile : tiles) {
    const SdpaSet set = {true, true, true, false};
    const auto keys_for = [&](Objective objective) {
      SdpaPlan plan;
      EXPECT_OK(
          make_plan_of(sdpa_request({1024, 1024, 512, 512}, 196608, tile, objective), set, &plan));
      EXPECT_EQ(plan.blocks.by_keys, Schedule::tile_fused) << to_text(plan);
      return plan.blocks.keys;
    };
    const Blocks keys = keys_for(Objective::words);
    EXPECT_TRUE(
        values_come_by_steps(KeyPassKind(KeyGradients::both, true), keys.c, keys.rho, keys.w, 512))
        << keys.c << " " << keys.rho << " " << keys.w;
    EXPECT_GE(keys.w, 16);
    EXPECT_EQ(1024 % keys.c, 0) << keys.c;
  }
}

// One tile of a memory in place of two, for a seventh fewer words or for dQ alone: where words
// decide and columns do not meet in few sets.
TEST(Objective, WeightsAreParkedForFewerWordsAlone) {
  const SdpaSet all = {true, true, true}, dq = {true, false, false}, dv = {false, false, true};
  const auto is_parked = [&](const Size& size, index_t M, Isa isa, Objective objective,
                             const SdpaSet& set, DType dtype = DType::f32) {
    SdpaRequest request = sdpa_request(size, M, tiles[1], objective);
    request.tile.isa = isa;
    request.dtype = dtype;
    SdpaPlan plan;
    EXPECT_OK(make_plan_of(request, set, &plan));
    EXPECT_EQ(plan.blocks.by_keys, Schedule::tile_fused) << to_text(plan);
    return plan.blocks.keys.parked;
  };
  constexpr Objective words = Objective::words, time = Objective::time;
  const Size deep = {1024, 1024, 1000, 1000}, pages = {1024, 1024, 2048, 2048};
  for (const Isa isa : {Isa::avx512, Isa::avx2}) {
    EXPECT_TRUE(is_parked(deep, 4096, isa, words, all));
    EXPECT_FALSE(is_parked(deep, 4096, isa, time, all));
    EXPECT_FALSE(is_parked(deep, 4096, isa, words, dv));
    EXPECT_TRUE(is_parked(pages, 98304, isa, words, dq));
    EXPECT_FALSE(is_parked(pages, 98304, isa, time, dq));
    EXPECT_FALSE(is_parked(pages, 98304, isa, words, all));
    // Two tiles would have half as many rows.
    EXPECT_FALSE(is_parked({512, 512, 1024, 1024}, 40000, isa, words, all));
  }
  EXPECT_TRUE(is_parked(deep, 4096, Isa::avx512, words, all, DType::f64));
  EXPECT_FALSE(is_parked({512, 512, 640, 640}, 49152, Isa::avx512, words, all, DType::f64));
  EXPECT_FALSE(is_parked(deep, 4096, Isa::avx512_bf16, words, all, DType::bf16));
  EXPECT_FALSE(is_parked({256, 256, 291, 291}, 49152, Isa::avx512, words, dq, DType::f16));
}

// dQ alone too, and what a bias leaves to a pass over the keys.
TEST(Objective, TilesTakeAnySetWhereRowsAreLong) {
  for (const TileShape& tile : tiles) {
    for (const Objective objective : {Objective::words, Objective::time}) {
      const auto plan = [&](index_t d, const SdpaSet& set) {
        SdpaRequest request = sdpa_request({1024, 1024, d, d}, 98304, tile, objective);
        request.shape.bias_batch = request.shape.bias_heads = set.dBias ? 1 : 0;
        SdpaPlan made;
        EXPECT_OK(make_plan_of(request, set, &made));
        return made;
      };
      const SdpaSet dq = {true, false, false, false}, keys = {false, true, true, false};
      for (const SdpaSet& set : {dq, keys, SdpaSet{true, false, true, false}}) {
        const SdpaPlan made = plan(2048, set);
        EXPECT_EQ(made.blocks.by_keys, Schedule::tile_fused) << to_text(made);
        EXPECT_EQ(made.blocks.keys.one_pass, set.dQ) << to_text(made);
        EXPECT_EQ(made.blocks.rows.r, 0) << to_text(made);
      }
      const SdpaPlan of_bias = plan(2048, {true, true, true, false, true});
      EXPECT_EQ(of_bias.blocks.by_keys, Schedule::tile_fused) << to_text(of_bias);
      EXPECT_FALSE(of_bias.blocks.keys.one_pass) << to_text(of_bias);
      EXPECT_GT(of_bias.blocks.rows.r, 0) << to_text(of_bias);
      EXPECT_GT(plan(64, dq).blocks.rows.r, 0);
    }
  }
}

LayerRequest layer_request(Pass pass, const LayerShape& shape, index_t M, Objective objective) {
  LayerRequest request;
  request.pass = pass;
  request.problem.shape = shape;
  request.M = M;
  request.tile = tiles[0];
  request.price = price_of(objective);
  return request;
}

TEST(Objective, LayerHasTheFewestWordsOfAllCandidates) {
  int plans = 0, fewer = 0;
  for (const Size& size : sizes)
    for (const index_t M : memories)
      for (const Pass pass : {Pass::forward, Pass::backward})
        for (const Tie tie : {Tie::none, Tie::kv})
          for (const index_t limit : {index_t(-1), index_t(1) << 40}) {
            const LayerShape shape = {size.n, size.m, size.d, size.dv, tie, {}};
            LayerRequest request = layer_request(pass, shape, M, Objective::words);
            request.memory_limit_bytes = limit;
            request.outer_M = 4 * M;  // holds blocks for time alone
            Plan plan;
            Candidate chosen;
            ASSERT_OK(make_plan(request, &plan, &chosen));
            EXPECT_EQ(plan.level, "L2");
            const index_t words = chosen.cost.total().words();
            std::vector<Candidate> all = candidates(request);
            request.price = price_of(Objective::time);
            index_t of_time = 0;
            double least_time = 0;
            for (const Candidate& c : candidates(request)) {
              all.push_back(c);
              if (!c.fits || !c.within_memory_limit) continue;
              const double time = static_cast<double>(c.fma + 16 * c.cost.total().words());
              if (least_time > 0 && time >= least_time) continue;
              least_time = time;
              of_time = c.cost.total().words();
            }
            for (const Candidate& c : all) {
              if (c.fits && c.within_memory_limit) {
                EXPECT_LE(words, c.cost.total().words()) << to_text(plan) << " M=" << M;
              }
            }
            ++plans;
            fewer += words < of_time;
          }
  EXPECT_GT(fewer, plans / 8);
}

// With less memory no plan has fewer words.
TEST(Objective, LayerIsListedAtWholeLevelsAlone) {
  const std::optional<GradientSet> passes[] = {std::nullopt, GradientSet{.dX = true}};
  for (const std::optional<GradientSet>& set : passes)
    for (const Objective objective : {Objective::words, Objective::time}) {
      LayerRequest request = layer_request(set ? Pass::backward : Pass::forward,
                                           {1024, 1024, 256, 256, Tie::none, {}}, 98304, objective);
      std::vector<LayerCandidate> list;
      ASSERT_OK(list_candidates(request, set, &list));
      int narrowed = 0;
      for (const LayerCandidate& one : list) {
        const std::size_t part = one.made_from.find("/8");
        narrowed += part != std::string::npos && one.made_from.substr(part - 1, 3) != "8/8";
      }
      EXPECT_EQ(narrowed > 0, objective == Objective::time) << list.size();
    }
}

TEST(Objective, GradientsHaveNoMoreWordsThanForTime) {
  int plans = 0, fewer = 0;
  GradientSet all;
  all.dX = all.dY = all.dA1 = all.dA2 = all.dA3 = true;
  GradientSet some;
  some.dA2 = some.dA3 = true;
  for (const Size& size : sizes)
    for (const index_t M : memories)
      for (const GradientSet& set : {all, some}) {
        const LayerShape shape = {size.n, size.m, size.d, size.dv, Tie::none, {}};
        LayerPlan plan;
        Estimate words, time;
        LayerRequest request = layer_request(Pass::backward, shape, M, Objective::words);
        ASSERT_OK(make_gradient_plan(request, set, &plan, &words));
        request.price = price_of(Objective::time);
        ASSERT_OK(make_gradient_plan(request, set, &plan, &time));
        EXPECT_LE(words.cost.total().words(), time.cost.total().words())
            << to_text(plan, set, Tie::none);
        EXPECT_LE(words.cost.total().footprint, M);
        ++plans;
        fewer += words.cost.total().words() < time.cost.total().words();
      }
  EXPECT_GT(fewer, plans / 8);
}

}  // namespace
}  // namespace ioattn::plan
