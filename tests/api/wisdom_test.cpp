// Wisdom in the library: plans follow it where the caller leaves M to the machine, for the same
// bits whatever the threads; what is wrong with it is told and harms nothing.

#include <atomic>
#include <thread>

#include "api/isa_variable.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/refused.hpp"
#include "api/wisdom_case.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

TEST_F(WisdomTest, IsFollowedByPlansAndCalls) {
  for (const auto& set : {forward_set, all_gradients}) {
    const ioattn_pass pass = set ? IOATTN_BACKWARD : IOATTN_FORWARD;
    const std::string estimate = quick_plan(set), other = to_text(another(set));
    ASSERT_NE(estimate, other);
    EXPECT_EQ(describe(pass)["origin"], "estimate");
    import(document(other, set));
    const Json told = describe(pass);
    EXPECT_EQ(told["origin"], "wisdom");
    EXPECT_EQ(told["plan"], other);
    EXPECT_EQ(quick_plan(set), other);
    EXPECT_EQ(quick_plan(set), other) << "from the cache";
    EXPECT_EQ(explained()["records"].back()["code"], "ok");
    EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
    EXPECT_EQ(quick_plan(set), estimate);
    EXPECT_EQ(describe(pass)["plan"], estimate);
  }
}

// Blocks fix the order of sums: neither threads nor the place in a batch have a say.
TEST_F(WisdomTest, GivesTheSameBitsForAnyThreadsAndBatch) {
  import(document(to_text(another(forward_set))));
  import(document(to_text(another(all_gradients)), all_gradients));
  expect_results_of_any_threads();
  SdpaProblem alone = problem;
  alone.shape.batch = alone.shape.heads = alone.shape.kv_heads = 1;
  plan::SdpaPlan plan;
  ASSERT_OK(api::plan_sdpa(alone, std::nullopt, {}, &plan));
  EXPECT_EQ(to_text(plan), quick_plan());
}

// Of a size whose 100 queries were one block: of more a block has whole strips, lest bits depend on
// threads.
TEST_F(WisdomTest, OfAnotherSizeHasWholeStrips) {
  plan::SdpaPlan other = another(forward_set);
  other.blocks.rows = {};
  other.blocks.rows.r = 100;
  other.blocks.rows.c = 200;
  other.blocks.rows.rho = 64;
  other.blocks = plan::blocks_taken(other.blocks, forward_set);
  import(document(to_text(other)));
  other.blocks.rows.r = 64;
  EXPECT_EQ(quick_plan(), to_text(other));
}

TEST_F(WisdomTest, IsLeftOutWhereTheCallerDecides) {
  import(document(to_text(another(forward_set))));
  const auto origin = [&](auto change) {
    ioattn_options options = default_options();
    change(&options);
    return describe(IOATTN_FORWARD, &options)["origin"];
  };
  EXPECT_EQ(origin([](ioattn_options*) {}), "wisdom");
  EXPECT_EQ(origin([](ioattn_options* o) { o->threads = 1; }), "wisdom");
  EXPECT_EQ(origin([](ioattn_options* o) { o->reproducible = 1; }), "estimate");
  EXPECT_EQ(origin([](ioattn_options* o) { o->fast_memory_words = 20000; }), "estimate");
  EXPECT_EQ(origin([](ioattn_options* o) { o->cache_level = 1; }), "estimate");
  // The cache of plans knows them apart.
  api::RunOptions reproducible;
  reproducible.reproducible = true;
  const std::string first = quick_plan();
  EXPECT_NE(quick_plan({}, reproducible), first);
  EXPECT_EQ(quick_plan(), first);
  // Another class.
  call.problem.n = 300;
  EXPECT_EQ(origin([](ioattn_options*) {}), "estimate");
  call.problem.n = 140;
  EXPECT_EQ(origin([](ioattn_options*) {}), "wisdom");
  call.problem.mask = IOATTN_MASK_CAUSAL_TOP_LEFT;
  EXPECT_EQ(origin([](ioattn_options*) {}), "wisdom");
}

TEST_F(WisdomTest, WithAPlanOfNoUseIsNotFollowed) {
  const std::string estimate = quick_plan();
  std::string huge = estimate, kernel = estimate;
  huge.replace(huge.find("c="), 2, "c=9000000000000");
  kernel.replace(kernel.find("reg:"), std::string::npos, absent_kernels());
  const std::pair<std::string, const char*> cases[] = {{"no plan", "bad_plan"},
                                                       {kernel, "other_kernel"},
                                                       {"M" + estimate.substr(2), "bad_blocks"},
                                                       {huge, "bad_blocks"}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.first);
    EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
    import(document(one.first));
    EXPECT_EQ(describe()["origin"], "estimate");
    EXPECT_EQ(quick_plan(), estimate);
    const Json told = explained()["records"][0];
    EXPECT_EQ(told["code"], one.second);
    EXPECT_NE(told["message"], "");
    const ioattn_options options = with_rigor(IOATTN_WISDOM_ONLY);
    ioattn_plan* plan = nullptr;
    expect_refused(ioattn_sdpa_plan_create(IOATTN_FORWARD, &call.problem, nullptr, &options, &plan),
                   IOATTN_UNSUPPORTED, one.second);
    EXPECT_EQ(plan, nullptr);
  }
}

// Blocks are cut to the problem, so that it takes a large one for them not to fit.
TEST_F(WisdomTest, WithBlocksThatDoNotFitIsNotFollowed) {
  std::string text = quick_plan();
  text.replace(text.find("c="), 2, "c=1000000");
  plan::SdpaPlan plan;
  EXPECT_OK(api::read_plan(request, {}, record(text), &plan));
  problem.shape.n = problem.shape.m = 1 << 20;
  ASSERT_OK(api::sdpa_request(problem, {}, &request));
  const wisdom::Verdict verdict = api::read_plan(request, {}, record(text), &plan);
  EXPECT_EQ(verdict.reason, wisdom::Reason::blocks);
  EXPECT_NE(verdict.message.find("do not fit"), std::string::npos) << verdict.message;
}

TEST_F(WisdomTest, IsImportedAsAWholeOrRefused) {
  const std::string good = document(to_text(another(forward_set)));
  EXPECT_EQ(refusal("{", "syntax: "), IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(
      refusal(std::string(good).replace(good.find("\"schema\":1"), 10, "\"schema\":9"), "schema: "),
      IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(
      refusal(std::string(good).replace(good.find("\"rounds\""), 8, "\"circles\""), "record: "),
      IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(ioattn_wisdom_import_text(nullptr), IOATTN_INVALID_ARGUMENT);
  expect_refused(ioattn_wisdom_import_file("/nonexistent/wisdom"), IOATTN_INVALID_ARGUMENT,
                 "not_found: ");
  const auto elsewhere = [&](std::string wisdom::Environment::*field) {
    wisdom::Environment environment = api::environment_of(request.tile.isa);
    environment.*field = "another";
    wisdom::Wisdom made;
    made.keep(environment, api::class_of(problem.shape, problem.dtype, {}), record("a plan"));
    return to_text(made);
  };
  using E = wisdom::Environment;
  EXPECT_EQ(refusal(elsewhere(&E::library), "other_library: "), IOATTN_UNSUPPORTED);
  EXPECT_EQ(refusal(elsewhere(&E::kernels), "other_kernels: "), IOATTN_UNSUPPORTED);
  EXPECT_EQ(refusal(elsewhere(&E::isa), "other_isa: "), IOATTN_UNSUPPORTED);
  EXPECT_EQ(refusal(elsewhere(&E::cpu), "other_cpu: "), IOATTN_UNSUPPORTED);
  EXPECT_EQ(refusal(elsewhere(&E::caches), "other_caches: "), IOATTN_UNSUPPORTED);
  import(good);
  EXPECT_EQ(text_of_wisdom(ioattn_wisdom_export_text), good);
  import(to_text(wisdom::Wisdom()));
  EXPECT_EQ(text_of_wisdom(ioattn_wisdom_export_text), good);
}

// 16-bit numbers are multiplied in several ways, all of which one machine may have.
TEST_F(WisdomTest, IsOfTheInstructionSetThatCallsUse) {
  const KeptIsaVariable kept;
  problem.dtype = DType::bf16;
  const auto use = [&](Isa isa) {
    setenv("IOATTN_ISA", name_of(isa), 1);
    EXPECT_OK(api::sdpa_request(problem, {}, &request));
    EXPECT_EQ(request.tile.isa, isa);
  };
  use(Isa::emulated_bf16);
  const std::string pairs = to_text(another(forward_set));
  wisdom::Wisdom made;
  made.keep(api::environment_of(Isa::emulated_bf16),
            api::class_of(problem.shape, problem.dtype, forward_set), record(pairs));
  made.keep_rates(api::environment_of(Isa::emulated_bf16), "bf16",
                  {1e10, 24 / 1e10, 6 / 1e10, 2, "2026-01-01T00:00:00Z", ""});
  import(to_text(made));
  EXPECT_EQ(quick_plan(), pairs);
  use(Isa::emulated_bf16);
  EXPECT_DOUBLE_EQ(request.price.per_word, 24);
  use(Isa::emulated_amx);
  EXPECT_EQ(request.price, plan::assumed_price(machine::this_machine().vendor, true));
  const std::string tiles = quick_plan();
  EXPECT_NE(tiles.find("reg:emulated_amx("), std::string::npos) << tiles;
  EXPECT_TRUE(explained()["records"].empty());
  EXPECT_TRUE(explained()["rates"].empty());
  // Nor is a plan that was put where theirs are, of a register tile of the same shape.
  std::string of_pairs = tiles;
  of_pairs.replace(of_pairs.find("reg:emulated_amx"), 16, "reg:emulated_bf16");
  import(document(of_pairs));
  EXPECT_EQ(quick_plan(), tiles);
  EXPECT_EQ(explained()["records"][0]["code"], "other_kernel");
}

TEST_F(WisdomTest, AloneIsAskedFor) {
  const ioattn_options options = with_rigor(IOATTN_WISDOM_ONLY);
  expect_refused(call.forward(&options), IOATTN_UNSUPPORTED, "no wisdom: absent: ");
  EXPECT_TRUE(call.untouched());
  quick_plan();  // which is then in the cache of plans
  EXPECT_EQ(call.forward(&options), IOATTN_UNSUPPORTED);
  import(document(to_text(another(forward_set))));
  EXPECT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
  EXPECT_EQ(describe(IOATTN_FORWARD, &options)["origin"], "wisdom");
}

TEST_F(WisdomTest, OptionsAreChecked) {
  const auto refused = [&](auto change) {
    ioattn_options options = default_options();
    change(&options);
    ioattn_plan* plan = nullptr;
    const ioattn_status status =
        ioattn_sdpa_plan_create(IOATTN_FORWARD, &call.problem, nullptr, &options, &plan);
    ioattn_plan_destroy(plan);
    return status;
  };
  const ioattn_status invalid = IOATTN_INVALID_ARGUMENT;
  EXPECT_EQ(refused([](ioattn_options* o) { o->rigor = 4; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->rigor = -1; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->time_limit_seconds = -1; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->time_limit_seconds = NAN; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->rigor = IOATTN_MEASURE, o->reproducible = 1; }),
            invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->rigor = IOATTN_MEASURE, o->cache_level = 3; }),
            IOATTN_UNSUPPORTED);
}

TEST_F(WisdomTest, MayChangeWhileOthersPlan) {
  const std::string estimate = quick_plan(), other = to_text(another(forward_set));
  const std::string text = document(other);
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, planned{0};
  std::vector<std::thread> planners;
  for (int i = 0; i < 2; ++i) {
    planners.emplace_back([&] {
      while (!done) {
        const std::string plan = quick_plan();
        if (plan != estimate && plan != other) ++wrong;
        ++planned;
      }
    });
  }
  for (int i = 0; i < 200 || planned < 100; ++i) {
    import(text);
    EXPECT_EQ(quick_plan(), other);
    EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
    EXPECT_EQ(quick_plan(), estimate);
  }
  done = true;
  for (std::thread& planner : planners) planner.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ioattn_test
