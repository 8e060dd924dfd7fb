// Wisdom about the layer problem: plans and calls follow it, for the same bits whatever the
// threads.

#include <regex>
#include <set>

#include "api/layer_wisdom_case.hpp"
#include "api/planning/layer_planning.hpp"
#include "api/refused.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

TEST_F(LayerWisdom, IsFollowedByPlansAndCalls) {
  for (const Set* set : sets) {
    const Json before = describe(*set);
    EXPECT_EQ(before["origin"], "estimate");
    const std::string other = another(*set);
    ASSERT_NE(before["plan"], other);
    import(document(other, *set));
    const Json told = describe(*set);
    EXPECT_EQ(told["origin"], "wisdom");
    EXPECT_EQ(told["plan"], other);
    const ioattn_options options = with_rigor(IOATTN_WISDOM_ONLY);
    EXPECT_EQ(describe(*set, &options)["plan"], other);
    plan::LayerPlan quick;
    ASSERT_OK(api::plan_layer(problem, *set, {}, &quick));
    EXPECT_EQ(text(quick, *set), other) << "of one call";
    const Json known = explained();
    ASSERT_EQ(known["records"].size(), 1u);
    EXPECT_EQ(known["records"][0]["code"], "ok") << known;
    EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
    EXPECT_EQ(describe(*set), before);
  }
}

// Blocks fix the order of sums: threads and the batch have no say.
TEST_F(LayerWisdom, GivesTheSameBitsForAnyThreads) {
  import(document(another(no_set), no_set));
  import(document(another(every_gradient), every_gradient));
  call.want(true);
  ioattn_options options = with_rigor(IOATTN_WISDOM_ONLY);
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    options.threads = threads;
    call.reset();
    ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
    if (threads == 1) {
      call.expect_forward();
      call.expect_backward();
      first = call.outputs();
    }
    EXPECT_TRUE(same_bits(call.outputs(), first)) << threads;
  }
  // O and LSE that are computed on the way are not asked of wisdom.
  EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
  import(document(another(every_gradient), every_gradient));
  EXPECT_EQ(call.whole_backward(&options), IOATTN_OK) << ioattn_last_error();
  EXPECT_EQ(call.forward(&options), IOATTN_UNSUPPORTED);
}

// Of a size whose 70 queries were one block: of more a block has whole strips, lest bits depend on
// threads.
TEST_F(LayerWisdom, OfAnotherSizeHasWholeStrips) {
  for (const Set* set : {&no_set, &dx_alone}) {
    plan::LayerPlan other;
    for (const plan::LayerCandidate& one : candidates(*set))
      if (one.plan.blocks.schedule == Schedule::row_stream) other = one.plan;
    ASSERT_GT(other.blocks.rows.r, 0);
    other.blocks.rows.r = 70;
    other.blocks.rows.rho = 32;
    import(document(text(other, *set), *set));
    other.blocks.rows.r = 64;
    const Json told = describe(*set);
    EXPECT_EQ(told["origin"], "wisdom");
    EXPECT_EQ(told["plan"], text(other, *set));
  }
}

// Whatever a search may find computes the same; a fifth of it.
TEST_F(LayerWisdom, IsRightWithEveryCandidate) {
  for (const Set* set : {&no_set, &every_gradient}) {
    const std::vector<plan::LayerCandidate> list = candidates(*set);
    for (std::size_t i = 0; i < list.size(); i += 5) {
      const plan::LayerCandidate& candidate = list[i];
      EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
      const std::string planned = text(candidate.plan, *set);
      SCOPED_TRACE(candidate.made_from + ": " + planned);
      import(document(planned, *set));
      EXPECT_EQ(describe(*set)["plan"], planned);
      call.want(true);
      call.reset();
      ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
      call.expect_forward();
      if (!*set) continue;
      ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
      call.expect_backward();
    }
  }
}

TEST_F(LayerWisdom, IsLeftOutWhereTheCallerDecides) {
  import(document(another(dx_alone), dx_alone));
  const auto origin = [&](auto change) {
    ioattn_options options = default_options();
    change(&options);
    return describe(dx_alone, &options)["origin"];
  };
  EXPECT_EQ(origin([](ioattn_options*) {}), "wisdom");
  EXPECT_EQ(origin([](ioattn_options* o) { o->threads = 1; }), "wisdom");
  EXPECT_EQ(origin([](ioattn_options* o) { o->reproducible = 1; }), "estimate");
  EXPECT_EQ(origin([](ioattn_options* o) { o->fast_memory_words = 20000; }), "estimate");
  EXPECT_EQ(origin([](ioattn_options* o) { o->cache_level = 1; }), "estimate");
  EXPECT_EQ(origin([](ioattn_options* o) { o->objective = IOATTN_WORDS_L2; }), "estimate");
  EXPECT_EQ(origin([](ioattn_options* o) { o->schedule = "row_stream"; }), "estimate");
  // Another class: sizes, gradients, mask, operands that share memory.
  EXPECT_EQ(describe(every_gradient)["origin"], "estimate");
  EXPECT_EQ(describe(no_set)["origin"], "estimate");
  const auto origin_of = [&](auto member, auto value) {
    const auto kept = call.problem.*member;
    call.problem.*member = value;
    Json told = describe(dx_alone)["origin"];
    call.problem.*member = kept;
    return told;
  };
  EXPECT_EQ(origin_of(&ioattn_layer_problem::n, 70), "wisdom");
  EXPECT_EQ(origin_of(&ioattn_layer_problem::n, 170), "estimate");
  EXPECT_EQ(origin_of(&ioattn_layer_problem::batch, 1), "wisdom");
  EXPECT_EQ(origin_of(&ioattn_layer_problem::mask, IOATTN_MASK_CAUSAL_TOP_LEFT), "estimate");
  call.shape.entry.ties = Ties::none;
  EXPECT_EQ(describe(dx_alone)["origin"], "estimate");
}

TEST_F(LayerWisdom, WithAPlanOfNoUseIsNotFollowed) {
  const std::string estimate = describe(dx_alone)["plan"];
  std::string kernel = estimate;
  kernel.replace(kernel.find("reg:"), std::string::npos, absent_kernels());
  plan::LayerRequest stationary = request(dx_alone);
  stationary.schedule = Schedule::stationary;
  plan::LayerPlan stores;
  ASSERT_OK(plan::make_plan_of(stationary, dx_alone, &stores, nullptr));
  const std::string scores = text(stores, dx_alone);
  const std::pair<std::string, const char*> cases[] = {{"no plan", "bad_plan"},
                                                       {kernel, "other_kernel"},
                                                       {"M" + estimate.substr(2), "bad_blocks"},
                                                       {scores, "bad_blocks"}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.first);
    EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
    import(document(one.first, dx_alone));
    EXPECT_EQ(describe(dx_alone)["plan"], estimate);
    EXPECT_EQ(explained()["records"][0]["code"], one.second) << explained();
    const ioattn_options options = with_rigor(IOATTN_WISDOM_ONLY);
    ioattn_plan* plan = nullptr;
    expect_refused(create(dx_alone, &options, &plan), IOATTN_UNSUPPORTED, one.second);
    EXPECT_EQ(plan, nullptr);
  }
}

TEST_F(LayerWisdom, WithMoreScratchMemoryThanAllowedIsNotFollowed) {
  const std::string known = another(every_gradient);
  plan::LayerPlan parsed;
  std::string error;
  ASSERT_TRUE(plan::parse_plan_of(known, every_gradient, Tie::kv, &parsed, &error)) << error;
  plan::Estimate estimate;
  plan::estimate_costs(request(every_gradient), every_gradient, parsed, &estimate);
  ASSERT_GT(estimate.scratch_bytes, 0);
  import(document(known, every_gradient));
  ioattn_options options = default_options();
  options.memory_limit = estimate.scratch_bytes;
  EXPECT_EQ(describe(every_gradient, &options)["origin"], "wisdom");
  --options.memory_limit;
  options.rigor = IOATTN_WISDOM_ONLY;
  ioattn_plan* plan = nullptr;
  expect_refused(create(every_gradient, &options, &plan), IOATTN_UNSUPPORTED, "bad_blocks");
}

// Sizes that no problem has would overflow in formulas and loops.
TEST_F(LayerWisdom, WithHugeBlocksIsNotFollowed) {
  const std::string estimate = describe(every_gradient)["plan"];
  // Of every block the first size: c=64, s=90x17x256a.
  std::multiset<std::string> blocks;
  const std::regex size("\\b([A-Za-z0-9]+)=([0-9]+)");
  for (std::sregex_iterator at(estimate.begin(), estimate.end(), size), end; at != end; ++at) {
    blocks.insert((*at)[1]);
    std::string huge = estimate;
    huge.replace(std::size_t(at->position(2)), std::size_t(at->length(2)), "9223372036854775807");
    SCOPED_TRACE(huge);
    EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
    import(document(huge, every_gradient));
    EXPECT_EQ(describe(every_gradient)["plan"], estimate);
    EXPECT_EQ(explained()["records"][0]["code"], "bad_blocks");
  }
  EXPECT_EQ(blocks.count("c"), 2U) << estimate;  // of rows and of keys
  for (const char* block : {"rho", "s", "h", "x", "dA3", "dY", "dA1"})
    EXPECT_GE(blocks.count(block), 1U) << block << " in " << estimate;
}

// A name that another version may have written is told, and does no harm.
TEST_F(LayerWisdom, KnowsItsClasses) {
  for (const Set* set : sets) {
    LayerProblem causal = problem;
    causal.shape.mask = window(0, -1, 0);
    for (const LayerProblem& one : {problem, causal}) {
      LayerProblem read;
      Set read_set;
      const wisdom::ProblemClass of = api::class_of(one, *set);
      ASSERT_TRUE(api::problem_of_class(of, &read, &read_set)) << to_text(of);
      EXPECT_EQ(read_set, *set);
      EXPECT_EQ(api::class_of(read, read_set), of);
    }
  }
  LayerProblem causal = problem;
  causal.shape.mask = window(0, -1, 0);
  EXPECT_EQ(api::class_of(problem, every_gradient).op, "layer:dX+dY+dA1+dA2+dA3,tied");
  EXPECT_EQ(api::class_of(causal, no_set).op, "layer:forward,tied,causal");
  LayerProblem read;
  Set set;
  for (const char* op : {"layer:", "layer:dQ", "layer:dX+dX", "layer:dY+dX", "layer:dX,", "dX",
                         "layer:dX,diagonal", "layer:dX+", "layer:dX,n7"}) {
    EXPECT_FALSE(api::problem_of_class({op, "f32", 8, 8, 3, 3}, &read, &set)) << op;
  }
  EXPECT_FALSE(api::problem_of_class({"layer:dX,self", "f32", 8, 8, 3, 4}, &read, &set));
  EXPECT_FALSE(api::problem_of_class({"layer:dX", "f8", 8, 8, 3, 4}, &read, &set));
}

TEST_F(LayerWisdom, BadInputIsRefused) {
  const auto refused = [&](auto change) {
    ioattn_options options = with_rigor(IOATTN_MEASURE);
    change(&options);
    ioattn_plan* plan = nullptr;
    const ioattn_status status = create(dx_alone, &options, &plan);
    EXPECT_EQ(plan, nullptr);
    return status;
  };
  const auto invalid = IOATTN_INVALID_ARGUMENT;
  EXPECT_EQ(refused([](ioattn_options* o) { o->rigor = 4; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->time_limit_seconds = -1; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->reproducible = 1; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->objective = IOATTN_WORDS_L1; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->cache_level = 3; }), IOATTN_UNSUPPORTED);
  EXPECT_EQ(refused([](ioattn_options* o) { o->fast_memory_words = 9999; }), IOATTN_UNSUPPORTED);
  EXPECT_EQ(refused([](ioattn_options* o) { o->schedule = "row_stream"; }), IOATTN_UNSUPPORTED);
  EXPECT_EQ(refused([&](ioattn_options*) { call.problem.n = -1; }), invalid);
  call.problem.n = std::int64_t{1} << 60;
  EXPECT_EQ(refused([](ioattn_options*) {}), IOATTN_SIZE_OVERFLOW);
}

}  // namespace
}  // namespace ioattn_test
