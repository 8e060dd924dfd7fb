#include "plan/layer/planner.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "plan/blocks/blocking.hpp"
#include "plan/blocks/blocking_tile_fused.hpp"
#include "plan/blocks/tile_fused_time.hpp"
#include "reference/sanitizer.hpp"
#include "schedules/random_problem.hpp"
#include "status_ok.hpp"

namespace ioattn::plan {
namespace {

constexpr Pass passes[] = {Pass::forward, Pass::backward};

LayerRequest request_for(Pass pass, const LayerShape& shape, index_t M) {
  LayerRequest request;
  request.pass = pass;
  request.problem.shape = shape;
  request.M = M;
  request.tile = {Isa::avx2, 6, 16};
  return request;
}

bool scores_pass_through_memory(Schedule schedule) {
  return schedule == Schedule::naive || schedule == Schedule::paper_small ||
         schedule == Schedule::stationary || schedule == Schedule::score_stored ||
         schedule == Schedule::q_stored || schedule == Schedule::half_dim;
}

// lib/plan/README.md: multiply-adds + 16 words.
double weighed(Pass pass, Schedule schedule, const LayerShape& shape, const Blocks& blocks) {
  return static_cast<double>(theory::fma_count(pass, schedule, shape, blocks)) +
         16 * static_cast<double>(theory::io_cost(pass, schedule, shape, blocks).total().words());
}

// The least weighed cost among the schedules that fit and that `admits` lets pass.
template <class Admits>
double least_cost(const LayerRequest& request, Admits admits) {
  double least = std::numeric_limits<double>::infinity();
  for (const Variant& v : variants()) {
    if (v.pass != request.pass || !admits(v.schedule, v.form)) continue;
    Blocks blocks;
    if (!choose_blocks(v, false, request.problem.shape, request.M, request.tile, &blocks)) continue;
    least = std::min(least, weighed(request.pass, v.schedule, request.problem.shape, blocks));
  }
  return least;
}

// The least weighed cost, but for tiles, whose speed depends on their sides: they are taken where
// they are predicted to save a twentieth, forward of values as wide as the keys, or nothing else
// fits but the paper's schedules, which are slow.
void expect_fastest(const LayerRequest& request, const Candidate& chosen) {
  const std::vector<Candidate> list = candidates(request);
  const Candidate *other = nullptr, *tiles = nullptr, *papers = nullptr;
  const auto cost = [&](const Candidate& c) {
    return weighed(request.pass, c.schedule, request.problem.shape, c.blocks);
  };
  for (const Candidate& c : list) {
    if (!c.fits || !c.within_memory_limit) continue;
    if (c.schedule == Schedule::tile_fused) {
      tiles = &c;
    } else if (is_papers(c.schedule)) {
      if (papers == nullptr || cost(c) < cost(*papers)) papers = &c;
    } else if (other == nullptr || cost(c) < cost(*other)) {
      other = &c;
    }
  }
  const auto time_of_tiles = [&] {
    const FastMemory memory = request.memory(false);
    const double longer =
        request.pass == Pass::forward
            ? 0
            : longer_in_short_blocks(request.problem.shape, tiles->blocks, tiles_of_u(request.tile),
                                     memory, request.tile);
    return (predicted_time(request, *tiles) + longer) / 0.95;
  };
  const bool compete =
      request.pass == Pass::backward || request.problem.shape.dv >= request.problem.shape.d;
  const bool by_tiles =
      tiles != nullptr &&
      (other == nullptr || (compete && time_of_tiles() < predicted_time(request, *other)));
  ASSERT_EQ(chosen.schedule == Schedule::tile_fused, by_tiles);
  ASSERT_EQ(cost(chosen), cost(by_tiles ? *tiles : other != nullptr ? *other : *papers));
}

index_t named_least(const Status& status) {
  const std::string message = status.message(), key = "the least is ";
  const std::size_t at = message.find(key);
  EXPECT_NE(at, std::string::npos) << message;
  return at == std::string::npos ? -1
                                 : std::strtoll(message.c_str() + at + key.size(), nullptr, 10);
}

TEST(Planner, ListsEveryVariantOnce) {
  const LayerShape shape = {100, 90, 30, 20, Tie::none};
  for (const Pass pass : passes) {
    std::vector<Variant> listed, known;
    for (const Candidate& c : candidates(request_for(pass, shape, 4000))) {
      listed.push_back(variant_of(pass, c.schedule, c.blocks));
    }
    for (const Variant& v : variants()) {
      if (v.pass == pass) known.push_back(v);
    }
    EXPECT_EQ(listed, known);
  }
}

TEST(Planner, KnowsWhichSchedulesStoreScores) {
  for (int i = 0; i < schedule_count; ++i) {
    const Schedule schedule = static_cast<Schedule>(i);
    EXPECT_EQ(stores_scores(schedule), scores_pass_through_memory(schedule)) << name_of(schedule);
  }
}

TEST(Planner, MasksAreForSchedulesThatTakeThem) {
  LayerShape shape = {100, 90, 30, 20, Tie::none};
  shape.mask = causal_top_left();
  for (const Pass pass : passes) {
    LayerRequest request = request_for(pass, shape, 4000);
    request.memory_limit_bytes = index_t(1) << 40;
    for (const Candidate& c : candidates(request)) {
      EXPECT_TRUE(takes_masks(c.schedule)) << name_of(c.schedule);
    }
    Plan plan;
    EXPECT_OK(make_plan(request, &plan));
    request.schedule = Schedule::stationary;
    const Status refused = make_plan(request, &plan);
    EXPECT_EQ(refused.code(), StatusCode::unsupported);
    EXPECT_STREQ(refused.message(), "stationary takes no mask");
  }
}

// Forms with nothing else in memory: a scaled X, and backward dX of one entry of a batch.
TEST(Planner, ScalesAndBatchesTakeScratchMemory) {
  const LayerShape shape = {100, 90, 30, 30, Tie::none};
  for (const Pass pass : passes) {
    for (const index_t batch : {1, 3}) {
      for (const double scale : {1.0, 0.5}) {
        LayerRequest request = request_for(pass, shape, 40000);
        request.problem.batch = batch;
        request.problem.scale = scale;
        const index_t matrices =
            (scale == 1 ? 0 : 1) + (pass == Pass::backward && batch > 1 ? 1 : 0);
        request.memory_limit_bytes = matrices * 30 * 30 * size_of(request.problem.dtype);
        Plan plan;
        EXPECT_OK(make_plan(request, &plan));
        if (matrices == 0) continue;
        request.memory_limit_bytes -= 1;
        EXPECT_EQ(make_plan(request, &plan).code(), StatusCode::memory_limit);
      }
    }
  }
}

TEST(Planner, CandidatesCarryTheExactCosts) {
  ioattn_test::RandomProblem random(30);
  int fitting = 0;
  for (int round = 0; round < 300; ++round) {
    const LayerShape shape = random.shape(500, 100);
    const index_t M = random.logarithmic(1, 1 << 18);
    for (const Pass pass : passes) {
      const LayerRequest request = request_for(pass, shape, M);
      for (const Candidate& c : candidates(request)) {
        ASSERT_EQ(c.least_M, least_fast_memory(variant_of(pass, c.schedule, c.blocks), shape));
        ASSERT_EQ(c.fits, M >= c.least_M);
        if (!c.fits) continue;
        ++fitting;
        const theory::ScheduleCost cost = theory::io_cost(pass, c.schedule, shape, c.blocks);
        ASSERT_EQ(c.cost.phase_count, cost.phase_count);
        ASSERT_EQ(c.cost.total(), cost.total());
        ASSERT_EQ(c.fma, theory::fma_count(pass, c.schedule, shape, c.blocks));
        ASSERT_EQ(c.within_memory_limit, !scores_pass_through_memory(c.schedule));
      }
    }
  }
  EXPECT_GT(fitting, 1000);
}

TEST(Planner, AutoTakesTheLeastCostAndNeverStoresScores) {
  ioattn_test::RandomProblem random(31);
  int planned = 0, storing_is_cheaper = 0, tiles = 0;
  for (int round = 0; round < ioattn_test::cases(1000); ++round) {
    const LayerShape shape = random.shape(2000, 200);
    const index_t M = random.logarithmic(5, 1 << 18);
    for (const Pass pass : passes) {
      const LayerRequest request = request_for(pass, shape, M);
      const double least = least_cost(
          request, [](Schedule schedule, Form) { return !scores_pass_through_memory(schedule); });
      const double least_of_all = least_cost(request, [](Schedule, Form) { return true; });
      Plan plan;
      Candidate chosen;
      const Status status = make_plan(request, &plan, &chosen);
      ASSERT_EQ(status.is_ok(), least < std::numeric_limits<double>::infinity())
          << status.message();
      if (!status.is_ok()) {
        ASSERT_EQ(status.code(), StatusCode::fast_memory_too_small);
        continue;
      }
      ++planned;
      storing_is_cheaper += least_of_all < least;
      ASSERT_FALSE(scores_pass_through_memory(plan.schedule));
      expect_fastest(request, chosen);
      ASSERT_FALSE(HasFatalFailure()) << to_text(plan);
      tiles += plan.schedule == Schedule::tile_fused;
      ASSERT_EQ(chosen.schedule, plan.schedule);
      ASSERT_EQ(chosen.blocks, plan.blocks);
      ASSERT_LE(chosen.cost.total().footprint, M);
      ASSERT_EQ(plan.level, "L2");
      ASSERT_EQ(plan.tile, (TileShape{Isa::avx2, 6, 16}));
      Plan parsed;
      std::string error;
      ASSERT_TRUE(parse_plan(to_text(plan), &parsed, &error)) << error;
      ASSERT_EQ(parsed, plan);
    }
  }
  EXPECT_GT(planned, ioattn_test::cases(500));
  EXPECT_GT(tiles, ioattn_test::cases(100));
  EXPECT_GT(storing_is_cheaper,
            ioattn_test::cases(50));  // the rule costs something, else it was not tested
}

TEST(Planner, MemoryLimitIsHonoured) {
  ioattn_test::RandomProblem random(32);
  int refused = 0, stored = 0;
  for (int round = 0; round < ioattn_test::cases(200); ++round) {
    const LayerShape shape = random.shape(300, 100);
    LayerRequest request = request_for(passes[round % 2], shape, random.logarithmic(5, 1 << 15));
    request.problem.dtype = round % 3 == 0 ? DType::f64 : DType::f32;
    for (const Candidate& c : candidates(request)) {
      if (!c.fits) continue;
      for (const index_t limit : {c.scratch_bytes, c.scratch_bytes - 1}) {
        if (limit < 0) continue;
        request.memory_limit_bytes = limit;
        request.schedule.reset();
        double least = std::numeric_limits<double>::infinity();
        for (const Candidate& other : candidates(request)) {
          if (!other.fits) continue;
          ASSERT_EQ(other.within_memory_limit, other.scratch_bytes <= limit);
          if (other.scratch_bytes > limit) continue;
          least = std::min(least, weighed(request.pass, other.schedule, shape, other.blocks));
        }
        Plan plan;
        Candidate chosen;
        const Status status = make_plan(request, &plan, &chosen);
        ASSERT_EQ(status.is_ok(), least < std::numeric_limits<double>::infinity());
        if (status.is_ok()) {
          ASSERT_LE(chosen.scratch_bytes, limit);
          expect_fastest(request, chosen);
          ASSERT_FALSE(HasFatalFailure()) << to_text(plan);
          stored += scores_pass_through_memory(plan.schedule);
        } else {
          ASSERT_EQ(status.code(), StatusCode::memory_limit) << status.message();
          ++refused;
        }
        if (has_form(c.schedule, Form::h)) continue;  // its other form may need less
        request.schedule = c.schedule;
        const Status named = make_plan(request, &plan);
        ASSERT_EQ(named.code(),
                  limit == c.scratch_bytes ? StatusCode::ok : StatusCode::memory_limit)
            << name_of(c.schedule) << ": " << named.message();
      }
      request.memory_limit_bytes = -1;
      request.schedule.reset();
    }
  }
  EXPECT_GT(refused, ioattn_test::cases(20));
  EXPECT_GT(stored, ioattn_test::cases(50));
}

// Intermediates in slow memory: S [n,d] and h [m,dv] between the phases of the paper's schedules,
// scores, q and T = A1^T p [d,m] besides where they are stored. stationary: S, G or Z or h, scores
// or p over f, backward delta and U.
TEST(Planner, ScratchIsWhatPassesThroughSlowMemory) {
  const LayerShape shape = {50, 40, 12, 7, Tie::none};
  const auto [n, m, d, e, tie, mask] = shape;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Pass pass : passes) {
      LayerRequest request = request_for(pass, shape, 1 << 12);
      request.problem.dtype = dtype;
      for (const Candidate& c : candidates(request)) {
        ASSERT_TRUE(c.fits);
        index_t words = 0;
        const index_t values = c.blocks.form == Form::h ? m * e : n * d;
        if (has_form(c.schedule, Form::h)) words = c.blocks.form == Form::h ? m * e : 0;
        if (c.blocks.products == Products::stored) {
          words = pass == Pass::forward ? n * d + values : n + 2 * n * d + values;
        }
        if (c.schedule == Schedule::paper_large) words = n * d + m * e;
        if (c.schedule == Schedule::q_stored) {
          words = n + values + n * m + (c.blocks.products == Products::stored ? 2 * n * d : 0);
        } else if (c.schedule == Schedule::half_dim) {
          words = n + 2 * n * d + values + 2 * n * m;
        } else if (c.schedule == Schedule::stationary || c.schedule == Schedule::score_stored) {
          words = n * d + (c.blocks.form == Form::h ? m * e : n * d) + n * m +
                  (pass == Pass::backward ? n + n * d : 0);
        } else if (scores_pass_through_memory(c.schedule)) {
          words = n * d + m * e + n * m + (pass == Pass::backward ? n * m + d * m : 0);
        }
        EXPECT_EQ(c.scratch_bytes, words * (dtype == DType::f32 ? 4 : 8)) << name_of(c.schedule);
      }
    }
  }
}

TEST(Planner, NamedSchedulesAreTaken) {
  ioattn_test::RandomProblem random(33);
  for (int round = 0; round < 300; ++round) {
    const LayerShape shape = random.shape(500, 60);
    LayerRequest request = request_for(passes[round % 2], shape, 1 << 17);
    request.level = "M";
    for (int i = 0; i < schedule_count; ++i) {
      const Schedule schedule = static_cast<Schedule>(i);
      request.schedule = schedule;
      Plan plan;
      const Status status = make_plan(request, &plan);
      if (!exists(schedule, request.pass)) {
        ASSERT_EQ(status.code(), StatusCode::unsupported);
        ASSERT_EQ(std::string(status.message()),
                  std::string(name_of(schedule)) + " has no " + name_of(request.pass) + " pass");
        continue;
      }
      ASSERT_OK(status);
      ASSERT_EQ(plan.schedule, schedule);
      ASSERT_EQ(plan.level, "M");
      ASSERT_EQ(weighed(request.pass, schedule, shape, plan.blocks),
                least_cost(request, [&](Schedule s, Form) { return s == schedule; }));
    }
  }
}

// The error names the least M: it works, and one word less does not.
TEST(Planner, TooLittleMemoryNamesTheLeast) {
  ioattn_test::RandomProblem random(34);
  constexpr int any = schedule_count;
  for (int round = 0; round < 200; ++round) {
    const LayerShape shape = random.shape(300, 80);
    for (const Pass pass : passes) {
      for (int i = 0; i <= any; ++i) {
        for (const index_t limit : {index_t(-1), index_t(1) << 50}) {
          LayerRequest request = request_for(pass, shape, 1);
          request.memory_limit_bytes = limit;
          if (i < any) request.schedule = static_cast<Schedule>(i);
          if (request.schedule && !exists(*request.schedule, pass)) continue;
          Plan plan;
          plan.tile.rows = 77;
          const Plan before = plan;
          const Status status = make_plan(request, &plan);
          ASSERT_EQ(status.code(), StatusCode::fast_memory_too_small) << status.message();
          ASSERT_EQ(plan, before);
          const std::string message = status.message();
          const char* what = i < any     ? name_of(static_cast<Schedule>(i))
                             : limit < 0 ? "any schedule that stores no scores"
                                         : "any schedule within the memory limit";
          ASSERT_EQ(message.find(std::string("M = 1 words is too small for ") + what + " ("), 0u)
              << message;
          request.M = named_least(status);
          ASSERT_OK(make_plan(request, &plan)) << message;
          --request.M;
          const Status still = make_plan(request, &plan);
          ASSERT_EQ(still.code(), StatusCode::fast_memory_too_small) << message;
          ASSERT_EQ(named_least(still), request.M + 1);
        }
      }
    }
  }
}

// Neither is a schedule that the memory limit forbids named, however little M it would need.
TEST(Planner, LeastFastMemoryHonoursTheMemoryLimit) {
  const LayerShape shape = {100, 100, 50, 50, Tie::none};
  LayerRequest request = request_for(Pass::backward, shape, 1);
  request.memory_limit_bytes = 0;
  Plan plan;
  const Status status = make_plan(request, &plan);
  ASSERT_EQ(status.code(), StatusCode::fast_memory_too_small);
  request.M = named_least(status);
  EXPECT_EQ(request.M, least_fast_memory({Pass::backward, Schedule::row_stream, Form::g}, shape));
  ASSERT_OK(make_plan(request, &plan));
  EXPECT_EQ(plan.schedule, Schedule::row_stream);

  request.schedule = Schedule::paper_small;
  for (const index_t M : {1, 100, 100000}) {
    request.M = M;
    EXPECT_EQ(make_plan(request, &plan).code(), StatusCode::memory_limit);
  }
}

// Where a score and what its sums are kept with are too much for M, scores that are stored may not
// be: the limit that admits them is named.
TEST(Planner, TooLittleFastMemoryNamesWhatWouldFit) {
  LayerRequest request = request_for(Pass::forward, {300, 300, 2048, 2048, Tie::none}, 5);
  request.price = price_of(Objective::words);
  Plan plan;
  const Status status = make_plan(request, &plan);
  ASSERT_EQ(status.code(), StatusCode::fast_memory_too_small);
  const std::string message = status.message(), before = " would do, with ";
  const std::size_t at = message.find(before);
  ASSERT_NE(at, std::string::npos) << message;
  request.memory_limit_bytes = std::atoll(message.c_str() + at + before.size());
  ASSERT_OK(make_plan(request, &plan)) << message;
  EXPECT_TRUE(stores_scores(plan.schedule));
  const std::size_t name = message.rfind("; ", at) + 2;
  Schedule named;
  ASSERT_TRUE(parse_schedule(message.substr(name, at - name), &named)) << message;
  request.schedule = named;
  EXPECT_OK(make_plan(request, &plan)) << message;
  EXPECT_EQ(plan.schedule, named);
  request.schedule.reset();
  --request.memory_limit_bytes;
  EXPECT_EQ(make_plan(request, &plan).code(), StatusCode::memory_limit);
}

// Of few columns of values rows are estimated too long; of many, tiles are as fast as they are said
// to be.
TEST(Planner, ForwardTilesAreForLongRowsOfValues) {
  LayerRequest request = request_for(Pass::forward, {512, 512, 385, 32, Tie::all}, 196608);
  Plan plan;
  for (const index_t d : {385, 1024, 2048}) {
    request.problem.shape.d = d;
    ASSERT_OK(make_plan(request, &plan));
    EXPECT_EQ(plan.schedule, Schedule::row_stream) << d;
  }
  request.problem.shape = {2048, 2048, 2048, 2048, Tie::none};
  ASSERT_OK(make_plan(request, &plan));
  EXPECT_EQ(plan.schedule, Schedule::tile_fused);
}

TEST(Planner, LimitThatAdmitsNothingIsNotCalledTooLittleFastMemory) {
  const LayerShape shape = {100, 100, 50, 50, Tie::none};
  LayerRequest request = request_for(Pass::forward, shape, 5);  // tile_fused needs 6
  Plan plan;
  EXPECT_EQ(make_plan(request, &plan).code(), StatusCode::fast_memory_too_small);
  request.memory_limit_bytes = 0;
  const Status status = make_plan(request, &plan);
  EXPECT_EQ(status.code(), StatusCode::memory_limit);
  EXPECT_STREQ(status.message(),
               "no schedule for M = 5 words (forward pass) needs at most 0 bytes of scratch "
               "memory");
  request.memory_limit_bytes = 1 << 20;
  EXPECT_OK(make_plan(request, &plan));
  EXPECT_TRUE(scores_pass_through_memory(plan.schedule));
}

TEST(Planner, ValueFormFollowsTheFlops) {
  for (const Pass pass : passes) {
    for (const index_t d : {64, 128, 385}) {
      for (const index_t M : {index_t(1) << 15, index_t(98304)}) {
        for (const Tie tie : {Tie::none, Tie::kv, Tie::all}) {
          LayerRequest request = request_for(pass, {512, 512, d, d / 8, tie}, M);
          Plan plan;
          request.schedule = Schedule::row_stream;
          ASSERT_OK(make_plan(request, &plan));
          EXPECT_EQ(plan.blocks.form, Form::h) << "d = " << d << ", dv = " << d / 8;
          // With as many values as keys both forms multiply as often and words decide: h costs a
          // pass more, g reads Y in every pass, which is less where X is small or A2 = A3.
          if (d > 128 && tie == Tie::none) continue;
          request.problem.shape.dv = d;
          ASSERT_OK(make_plan(request, &plan));
          EXPECT_EQ(plan.blocks.form, Form::g) << "dv = d = " << d;
        }
      }
    }
  }
  // One head of a real model: h-form, also when any schedule may be taken.
  Plan plan;
  ASSERT_OK(make_plan(request_for(Pass::backward, {512, 512, 385, 32, Tie::all}, 98304), &plan));
  EXPECT_EQ(plan.schedule, Schedule::row_stream);
  EXPECT_EQ(plan.blocks.form, Form::h);
}

index_t words_of(const LayerRequest& request, Schedule schedule) {
  index_t least = std::numeric_limits<index_t>::max();
  for (const Candidate& c : candidates(request)) {
    if (c.schedule == schedule && c.fits) least = std::min(least, c.cost.total().words());
  }
  return least;
}

// weight_resident moves fewer words than row_stream from about 6 d^2 on, for 4 n m d^3 / (M - 2
// d^2) more multiply-adds: it pays where d is short, or where one row block holds all queries.
TEST(Planner, WeightResidentIsTakenWhereItsMultiplyAddsPay) {
  const index_t n = 1 << 16;
  for (const index_t d : {4, 64}) {
    for (const Tie tie : {Tie::none, Tie::kv}) {
      const auto chosen_at = [&](index_t M) {
        const LayerRequest request = request_for(Pass::backward, {n, n, d, d, tie}, M);
        Plan plan;
        EXPECT_OK(make_plan(request, &plan));
        const bool fewer =
            words_of(request, Schedule::weight_resident) < words_of(request, Schedule::row_stream);
        return std::pair{fewer, plan.schedule};
      };
      if (d == 64) {
        EXPECT_EQ(chosen_at(4 * d * d), std::pair(false, Schedule::row_stream));
        EXPECT_EQ(chosen_at(16 * d * d), std::pair(true, Schedule::row_stream));
      } else {
        EXPECT_EQ(chosen_at(1200), std::pair(true, Schedule::weight_resident));
      }
    }
  }
  Plan plan;
  const LayerShape lopsided = {8192, 2048, 128, 128, Tie::none};  // K' has fewer rows than S
  const index_t all_rows = 2 * 128 * 128 + 2 * 8192 * 130;
  ASSERT_OK(make_plan(request_for(Pass::backward, lopsided, all_rows + 100000), &plan));
  EXPECT_EQ(plan.schedule, Schedule::weight_resident);
}

// n d^3 / M multiply-adds more may be too many to count.
TEST(Planner, WhatCannotBeCountedIsNotTaken) {
  const LayerRequest request =
      request_for(Pass::backward, {1900000, 1900000, 4096, 4096, Tie::none}, 33718352);
  for (const Candidate& c : candidates(request)) {
    if (c.fits) {
      EXPECT_GT(c.fma, 0) << name_of(c.schedule);
    }
  }
  Plan plan;
  ASSERT_OK(make_plan(request, &plan));
  EXPECT_NE(plan.schedule, Schedule::weight_resident);
}

TEST(Planner, ResidentIsTakenWhereEverythingFits) {
  for (const Tie tie : {Tie::none, Tie::kv, Tie::all}) {
    const LayerShape shape = {1024, 1024, 64, 64, tie};
    const index_t everything = 2 * 1024 * 64 + 2 * 64 * 64 + 64 * (2 * 1024 + 2 * 64 + 1);
    Plan plan;
    Candidate chosen;
    ASSERT_OK(make_plan(request_for(Pass::backward, shape, everything), &plan, &chosen));
    EXPECT_EQ(plan.schedule, Schedule::resident);
    EXPECT_EQ(plan.blocks.r, 64);
    EXPECT_EQ(static_cast<double>(chosen.cost.total().words()),
              theory::compulsory_bound(Pass::backward, shape));
    ASSERT_OK(make_plan(request_for(Pass::backward, shape, 1 << 16), &plan));
    EXPECT_EQ(plan.schedule, Schedule::row_stream);
  }
}

TEST(Planner, TiedOperandsMoveFewerWords) {
  for (const Pass pass : passes) {
    for (const index_t M : {4000, 16000, 64000}) {
      const auto words = [&](Tie tie) {
        LayerRequest request = request_for(pass, {1024, 1024, 64, 64, tie}, M);
        request.schedule = Schedule::row_stream;
        Plan plan;
        Candidate chosen;
        EXPECT_OK(make_plan(request, &plan, &chosen));
        // Only the g-form streams a tied operand once; untied, either may have fewer passes.
        if (tie != Tie::none) {
          EXPECT_EQ(plan.blocks.form, Form::g);
        }
        return chosen.cost.total().words();
      };
      EXPECT_LT(words(Tie::kv), words(Tie::none)) << "M = " << M;
      EXPECT_EQ(words(Tie::all), words(Tie::kv));
    }
  }
}

// With the thin products on the way too; sub-blocks of rows are longer where their number allows.
TEST(Planner, LongRowsOfThePassToDXAreHeldInOuterMemory) {
  const index_t M = 196608, outer_M = 1 << 20;
  for (const index_t n : {1024, 2048}) {
    const LayerShape shape = {n, n, 256, 256, Tie::none};
    LayerRequest request = request_for(Pass::backward, shape, M);
    request.tile = {Isa::avx512, 8, 32};
    Plan inner, outer;
    Candidate chosen;
    ASSERT_OK(make_plan(request, &inner));
    EXPECT_EQ(inner.level, "L2");
    EXPECT_LE(inner.blocks.rho, 64);
    request.outer_M = outer_M;
    ASSERT_OK(make_plan(request, &outer, &chosen));
    EXPECT_EQ(outer.level, "L3");
    EXPECT_EQ(outer.blocks.products, Products::fused);
    EXPECT_EQ(outer.blocks.rho, n < 2048 ? 64 : 128);
    EXPECT_GT(outer.blocks.r, inner.blocks.r);
    EXPECT_GT(chosen.cost.total().footprint, M);
    EXPECT_LE(chosen.cost.total().footprint, outer_M);
    request.price = price_of(Objective::words);
    ASSERT_OK(make_plan(request, &outer));
    EXPECT_EQ(outer.level, "L2");
  }
}

TEST(Planner, LiteralIsPlannedAlthoughItOverflows) {
  const LayerShape shape = {512, 512, 64, 64, Tie::none};
  LayerRequest request = request_for(Pass::backward, shape, 4096);
  request.schedule = Schedule::paper_large;
  Plan plan;
  Candidate chosen;
  ASSERT_EQ(make_plan(request, &plan).code(), StatusCode::fast_memory_too_small);
  request.literal = true;
  ASSERT_OK(make_plan(request, &plan, &chosen));
  EXPECT_TRUE(plan.blocks.literal);
  EXPECT_EQ(plan.blocks.r, 16);
  EXPECT_EQ(plan.blocks.c, 16);
  EXPECT_GT(chosen.cost.total().footprint, request.M);
}

}  // namespace
}  // namespace ioattn::plan
