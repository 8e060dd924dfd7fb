#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/isa.hpp"
#include "base/observer.hpp"
#include "base/schedule.hpp"
#include "base/types.hpp"
#include "schedule_names.hpp"

namespace ioattn {
namespace {

TEST(Names, OfSchedulesAreReadBack) {
  std::set<std::string> names;
  for (int i = 0; i < schedule_count; ++i) {
    const Schedule schedule = static_cast<Schedule>(i);
    Schedule parsed = static_cast<Schedule>((i + 1) % schedule_count);
    ASSERT_TRUE(parse_schedule(name_of(schedule), &parsed));
    EXPECT_EQ(parsed, schedule);
    EXPECT_TRUE(names.insert(name_of(schedule)).second);
  }
  EXPECT_STREQ(name_of(Schedule::row_stream), "row_stream");
  EXPECT_STREQ(name_of(Schedule::naive), "naive");
  for (const char* wrong : {"", "row", "row_stream ", "Row_stream", "naivepaper_small"}) {
    Schedule untouched = Schedule::paper_large;
    EXPECT_FALSE(parse_schedule(wrong, &untouched)) << wrong;
    EXPECT_EQ(untouched, Schedule::paper_large);
  }
}

// What other tests call all schedules.
TEST(Names, OfTheListsOfTestsAreAllThereAre) {
  using namespace ioattn_test;
  std::vector<std::string> all, forward, backward, masked, lse;
  for (int i = 0; i < schedule_count; ++i) {
    const Schedule schedule = static_cast<Schedule>(i);
    all.push_back(name_of(schedule));
    if (exists(schedule, Pass::forward)) forward.push_back(name_of(schedule));
    if (!exists(schedule, Pass::backward)) continue;
    backward.push_back(name_of(schedule));
    if (takes_masks(schedule)) masked.push_back(name_of(schedule));
    if (!takes_forward_results(schedule)) lse.push_back(name_of(schedule));
  }
  const auto names = [](const auto& list) {
    return std::vector<std::string>(std::begin(list), std::end(list));
  };
  EXPECT_EQ(names(all_schedules), all);
  EXPECT_EQ(names(forward_schedules), forward);
  EXPECT_EQ(names(backward_schedules), backward);
  EXPECT_EQ(names(masked_schedules), masked);
  EXPECT_EQ(names(lse_schedules), lse);
}

TEST(Names, OfIsasAreReadBack) {
  std::set<std::string> names;
  for (int i = 0; i < isa_count; ++i) {
    const Isa isa = static_cast<Isa>(i);
    Isa parsed = static_cast<Isa>((i + 1) % isa_count);
    ASSERT_TRUE(parse_isa(name_of(isa), &parsed));
    EXPECT_EQ(parsed, isa);
    EXPECT_TRUE(names.insert(name_of(isa)).second);
  }
  EXPECT_STREQ(name_of(Isa::scalar), "scalar");
  EXPECT_STREQ(name_of(Isa::avx512), "avx512");
  EXPECT_STREQ(name_of(Isa::neon), "neon");
  for (const char* wrong : {"", "avx", "AVX2", "avx2 ", "avx5120"}) {
    Isa untouched = Isa::avx2;
    EXPECT_FALSE(parse_isa(wrong, &untouched)) << wrong;
    EXPECT_EQ(untouched, Isa::avx2);
  }
}

// The names stand in a table beside the enumeration: one too few or out of order would show here.
TEST(Names, OfOperandsAreComplete) {
  std::set<std::string> names;
  for (int i = 0; i < operand_count; ++i) {
    const char* name = name_of(static_cast<Operand>(i));
    ASSERT_NE(name, nullptr) << i;
    EXPECT_STRNE(name, "");
    EXPECT_TRUE(names.insert(name).second) << name;
  }
#define EXPECT_NAMED(operand) EXPECT_STREQ(name_of(Operand::operand), #operand)
  EXPECT_NAMED(A1);
  EXPECT_NAMED(A2);
  EXPECT_NAMED(A3);
  EXPECT_NAMED(X);
  EXPECT_NAMED(Y);
  EXPECT_NAMED(dO);
  EXPECT_NAMED(O);
  EXPECT_NAMED(LSE);
  EXPECT_NAMED(dX);
  EXPECT_NAMED(S);
  EXPECT_NAMED(K);
  EXPECT_NAMED(G);
  EXPECT_NAMED(h);
  EXPECT_NAMED(scores);
  EXPECT_NAMED(q);
  EXPECT_NAMED(f);
  EXPECT_NAMED(p);
  EXPECT_NAMED(U);
  EXPECT_NAMED(T);
  EXPECT_NAMED(Z);
  EXPECT_NAMED(delta);
  EXPECT_NAMED(row_max);
  EXPECT_NAMED(row_sum);
  EXPECT_NAMED(rescale);
  EXPECT_NAMED(A1_panels);
#undef EXPECT_NAMED
}

TEST(Names, OfTheSmallEnumerations) {
  EXPECT_STREQ(name_of(Pass::forward), "forward");
  EXPECT_STREQ(name_of(Pass::backward), "backward");
  EXPECT_STREQ(name_of(Form::g), "g");
  EXPECT_STREQ(name_of(Form::h), "h");
  EXPECT_STREQ(name_of(DType::f32), "f32");
  EXPECT_STREQ(name_of(DType::f64), "f64");
  EXPECT_STREQ(name_of(Tie::none), "none");
  EXPECT_STREQ(name_of(Tie::kv), "kv");
  EXPECT_STREQ(name_of(Tie::all), "all");
}

TEST(Names, SchedulesOfOnePass) {
  const std::set<Schedule> only_forward = {Schedule::score_stored};
  const std::set<Schedule> only_backward = {Schedule::naive, Schedule::q_stored, Schedule::half_dim,
                                            Schedule::weight_resident, Schedule::resident};
  for (int i = 0; i < schedule_count; ++i) {
    const Schedule schedule = static_cast<Schedule>(i);
    const bool of_keys = schedule == Schedule::col_stream || schedule == Schedule::tile_fused;
    EXPECT_EQ(exists(schedule, Pass::backward_keys), of_keys);
    EXPECT_EQ(exists(schedule, Pass::backward),
              only_forward.count(schedule) == 0 && schedule != Schedule::col_stream);
    EXPECT_EQ(exists(schedule, Pass::forward),
              only_backward.count(schedule) == 0 && schedule != Schedule::col_stream);
  }
}

TEST(IsaSet, AlwaysHasScalarAndWhatWasAdded) {
  IsaSet set;
  EXPECT_TRUE(set.has(Isa::scalar));
  EXPECT_FALSE(set.has(Isa::avx2));
  EXPECT_FALSE(set.has(Isa::avx512));
  set.add(Isa::avx512);
  EXPECT_FALSE(set.has(Isa::avx2));
  EXPECT_TRUE(set.has(Isa::avx512));
  IsaSet other;
  EXPECT_FALSE(set == other);
  other.add(Isa::avx512);
  other.add(Isa::avx512);
  EXPECT_TRUE(set == other);
}

}  // namespace
}  // namespace ioattn
