// A plan and its text are the same thing: every plan is read back as it was, and nothing else is
// taken for a plan.

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "reference/sanitizer.hpp"
#include "schedules/random_problem.hpp"

namespace ioattn::plan {
namespace {

Plan random_plan(ioattn_test::RandomProblem* random) {
  const auto size = [&] { return random->logarithmic(1, index_t(1) << 40); };
  Plan plan;
  const char* levels[] = {"L1", "L2", "L3", "M"};
  plan.level = levels[random->uniform(0, 3)];
  plan.schedule = static_cast<Schedule>(random->uniform(0, schedule_count - 1));
  for (index_t Blocks::*field :
       {&Blocks::r, &Blocks::c, &Blocks::rho, &Blocks::w, &Blocks::o, &Blocks::a, &Blocks::b}) {
    if (random->uniform(0, 2) > 0) plan.blocks.*field = size();
  }
  if (has_form(plan.schedule, Form::h)) {
    plan.blocks.form = random->uniform(0, 1) == 0 ? Form::g : Form::h;
  }
  for (const ProductField& field : product_fields()) {
    if (random->uniform(0, 1) == 0) continue;
    plan.blocks.*field.product = {size(), size(), size(), random->uniform(0, 1) == 0};
  }
  plan.blocks.literal = random->uniform(0, 3) == 0;
  plan.tile = {static_cast<Isa>(random->uniform(0, isa_count - 1)),
               static_cast<int>(random->uniform(1, 40)), static_cast<int>(random->uniform(1, 200))};
  return plan;
}

TEST(PlanText, PrintsLevelScheduleBlocksAndTile) {
  Plan plan;
  plan.blocks.r = 448;
  plan.blocks.c = 64;
  plan.tile = {Isa::avx2, 6, 16};
  EXPECT_EQ(to_text(plan), "L2:row_stream(form=g,r=448,c=64) > reg:avx2(6x16)");
  plan.level = "M";
  plan.blocks.form = Form::h;
  plan.blocks.h = {7, 8, 9};
  EXPECT_EQ(to_text(plan), "M:row_stream(form=h,r=448,c=64,h=7x8x9) > reg:avx2(6x16)");
  plan.schedule = Schedule::score_stored;
  plan.blocks = {};
  plan.blocks.f = {7, 8, 9, true};
  plan.blocks.u = {5, 6, 4};
  EXPECT_EQ(to_text(plan), "M:score_stored(form=g,f=7x8x9a,u=5x6x4) > reg:avx2(6x16)");
  plan.schedule = Schedule::paper_large;
  plan.blocks = {};
  plan.blocks.literal = true;
  EXPECT_EQ(to_text(plan), "M:paper_large(literal) > reg:avx2(6x16)");
  plan.schedule = Schedule::naive;
  plan.blocks = {};
  EXPECT_EQ(to_text(plan), "M:naive() > reg:avx2(6x16)");
}

TEST(PlanText, IsReadBack) {
  ioattn_test::RandomProblem random(2);
  for (int round = 0; round < 3000; ++round) {
    const Plan plan = random_plan(&random);
    const std::string text = to_text(plan);
    Plan parsed = random_plan(&random);
    std::string error;
    ASSERT_TRUE(parse_plan(text, &parsed, &error)) << error;
    ASSERT_EQ(parsed, plan) << text;
  }
}

// Fails, says why, and leaves the plan as it was.
void expect_refused(std::string_view text) {
  const Plan before;
  Plan plan;
  std::string error;
  EXPECT_FALSE(parse_plan(text, &plan, &error)) << text;
  EXPECT_EQ(error.find("not a plan: " + std::string(text)), 0u) << error;
  EXPECT_EQ(plan, before);
}

TEST(PlanText, RefusesEveryTruncation) {
  ioattn_test::RandomProblem random(3);
  for (int round = 0; round < 200; ++round) {
    const std::string text = to_text(random_plan(&random));
    for (std::size_t size = 0; size < text.size(); ++size)
      expect_refused(std::string_view(text).substr(0, size));
    for (std::size_t skip = 1; skip < text.size(); ++skip)
      expect_refused(std::string_view(text).substr(skip));
  }
}

// A mutation is refused or is the text of another plan.
TEST(PlanText, TakesNoMutationForWhatItIsNot) {
  ioattn_test::RandomProblem random(4);
  int accepted = 0, refused = 0;
  const auto check = [&](const std::string& text) {
    Plan plan;
    std::string error;
    if (parse_plan(text, &plan, &error)) {
      ++accepted;
      ASSERT_EQ(to_text(plan), text);
    } else {
      ++refused;
    }
  };
  for (int round = 0; round < ioattn_test::cases(100); ++round) {
    const std::string text = to_text(random_plan(&random));
    for (std::size_t at = 0; at < text.size(); ++at) {
      for (const char byte : std::string_view("0159,=:x()> rchL+-\0\n\xff", 21)) {
        std::string replaced = text, inserted = text;
        replaced[at] = byte;
        inserted.insert(at, 1, byte);
        check(replaced);
        check(inserted);
      }
      check(std::string(text).erase(at, 1));
      ASSERT_FALSE(testing::Test::HasFatalFailure());
    }
  }
  EXPECT_GT(accepted, ioattn_test::cases(1000));  // another digit is another plan
  EXPECT_GT(refused, ioattn_test::cases(10000));
}

TEST(PlanText, RefusesOtherSpellings) {
  for (const char* text : {
           "",
           "plan",
           "L4:naive() > reg:avx2(6x16)",
           "L2:nave() > reg:avx2(6x16)",
           "L2:naive() > reg:avx3(6x16)",
           "L2:naive() > reg:avx2(6x0)",
           "L2:naive() > reg:avx2(-6x16)",
           "L2:naive() > reg:avx2(6x99999999999)",
           "L2:naive() > reg:avx2(6x16) ",
           "L2:naive(literal,literal) > reg:avx2(6x16)",
           "L2:naive(form=g) > reg:avx2(6x16)",
           "L2:row_stream() > reg:avx2(6x16)",
           "L2:row_stream(form=q) > reg:avx2(6x16)",
           "L2:row_stream(form=g,r=0) > reg:avx2(6x16)",
           "L2:row_stream(form=g,r=07) > reg:avx2(6x16)",
           "L2:row_stream(form=g,r=-7) > reg:avx2(6x16)",
           "L2:row_stream(form=g,r=7,) > reg:avx2(6x16)",
           "L2:row_stream(form=g,r=7,r=8) > reg:avx2(6x16)",
           "L2:row_stream(form=g,c=7,r=8) > reg:avx2(6x16)",
           "L2:row_stream(form=g,r=9223372036854775808) > reg:avx2(6x16)",
           "L2:row_stream(form=h,h=1x2) > reg:avx2(6x16)",
           "L2:row_stream(form=h,h=1x2x0) > reg:avx2(6x16)",
           "L2:row_stream(form=h,h=1x2x3x4) > reg:avx2(6x16)",
           "L2:row_stream(form=g,z=7) > reg:avx2(6x16)",
       })
    expect_refused(text);
}

TEST(PlanText, SaysWhatAnotherSpellingMeans) {
  Plan plan;
  std::string error;
  EXPECT_FALSE(parse_plan("L2:row_stream(form=g,c=7,r=08) > reg:avx2(6x16)", &plan, &error));
  EXPECT_EQ(error,
            "not a plan: L2:row_stream(form=g,c=7,r=08) > reg:avx2(6x16) (did you mean "
            "L2:row_stream(form=g,r=8,c=7) > reg:avx2(6x16)?)");
}

}  // namespace
}  // namespace ioattn::plan
