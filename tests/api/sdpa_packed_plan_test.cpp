// Plans of packed sequences: the results are those of each alone, the workspace is exactly as large
// as said, the text is the plan, the description adds up, and only what was planned is executed.

#include <functional>
#include <nlohmann/json.hpp>

#include "api/half_call.hpp"
#include "api/packed_call.hpp"
#include "api/sdpa_execution.hpp"
#include "ioattn/ioattn.hpp"
#include "schedules/thread_counts.hpp"

namespace ioattn_test {
namespace {

using Json = nlohmann::json;

Json described(const Plan& plan) { return Json::parse(text_of(ioattn_plan_describe, plan)); }

// What is told of a plan is told of its text's, too.
Plan read_and_told(const Plan& plan, ioattn_pass pass, const ioattn_sdpa_problem& problem,
                   const ioattn_options* options,
                   const ioattn_sdpa_gradients* gradients = nullptr) {
  Plan parsed = read_back(plan, pass, problem, options, gradients);
  Json told = described(plan);
  for (Json& shape : told["shapes"]) {
    EXPECT_EQ(shape["plan"]["origin"], "estimate");
    shape["plan"]["origin"] = "text";
    shape["plan"]["objective"] = nullptr;  // a text does not say
  }
  EXPECT_EQ(described(parsed), told);
  return parsed;
}

template <class T>
class PackedPlans : public testing::Test {};
TYPED_TEST_SUITE(PackedPlans, BothTypes);

TYPED_TEST(PackedPlans, GiveTheBitsOfEachSequenceAlone) {
  for (std::size_t i = 0; i < std::size(packed_cases); ++i) {
    const PackedCase& c = packed_cases[i];
    const Layout layout = reference::all_layouts[i % 3];
    PackedCall<TypeParam> alone(c, layout, i);
    alone.run_alone();
    for (const int threads : thread_counts) {
      SCOPED_TRACE("case " + std::to_string(i) + " threads " + std::to_string(threads));
      const ioattn_options options = with_threads(threads);
      PackedCall<TypeParam> call(c, layout, i);
      const Plan forward = read_and_told(create(IOATTN_FORWARD, call.problem, &options),
                                         IOATTN_FORWARD, call.problem, &options);
      const Plan backward =
          read_and_told(create(IOATTN_BACKWARD, call.problem, &options, &call.gradients),
                        IOATTN_BACKWARD, call.problem, &options, &call.gradients);
      for (const bool lent : {true, false}) {
        call.poison();
        Workspace first(forward, i + std::size_t(threads)), second(backward, 1);
        if (first.size() > 0) {
          expect_refused(execute_forward(forward, &call, first.data(), first.size() - 1),
                         IOATTN_INVALID_ARGUMENT, std::to_string(first.size()));
          EXPECT_TRUE(call.untouched());
        }
        ASSERT_EQ(execute_forward(forward, &call, lent ? first.data() : nullptr, first.size()),
                  IOATTN_OK)
            << ioattn_last_error();
        if (second.size() > 0) {
          expect_refused(execute_backward(backward, &call, second.data(), second.size() - 1),
                         IOATTN_INVALID_ARGUMENT, std::to_string(second.size()));
        }
        EXPECT_TRUE(call.gradients_untouched());
        ASSERT_EQ(execute_backward(backward, &call, lent ? second.data() : nullptr, second.size()),
                  IOATTN_OK)
            << ioattn_last_error();
        EXPECT_TRUE(same_bits(call.values(), alone.values()));
        EXPECT_TRUE(first.stayed_inside() && second.stayed_inside());
      }
    }
  }
}

// Starts of sequences of several lengths, some of them the same.
Starts many_starts() {
  Starts starts = {0};
  for (std::int64_t b = 0; b < 40; ++b) starts.push_back(starts.back() + 7 * (b * b % 13));
  return starts;
}

template <class S>
class PackedHalfPlans : public testing::Test {};
using Halves = testing::Types<ioattn_bf16, ioattn_f16>;
TYPED_TEST_SUITE(PackedHalfPlans, Halves);

// Every worker has a workspace of its own: with several sequences on the way at a time.
TYPED_TEST(PackedHalfPlans, GiveTheBitsOfOneCall) {
  const Starts starts = many_starts();
  const std::int64_t rows = starts.back();
  for (const std::int64_t kv_heads : {1, 4}) {
    HalfCall<TypeParam> expected({1, 4, kv_heads, rows, rows, 24, 16});
    expected.problem.batch = std::int64_t(starts.size()) - 1;
    expected.problem.q_starts = expected.problem.k_starts = starts.data();
    expected.problem.mask = kv_heads == 1 ? IOATTN_MASK_NONE : IOATTN_MASK_CAUSAL_TOP_LEFT;
    const HalfCall<TypeParam> before(expected);
    ASSERT_EQ(expected.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(expected.backward(), IOATTN_OK) << ioattn_last_error();
    for (const int threads : thread_counts) {
      SCOPED_TRACE(threads);
      const ioattn_options options = with_threads(threads);
      HalfCall<TypeParam> call(before);
      const ioattn_sdpa_problem& p = call.problem;
      const Plan forward = create(IOATTN_FORWARD, p, &options);
      const Plan backward = create(IOATTN_BACKWARD, p, &options, &call.gradients);
      Workspace first(forward, 5), second(backward, 70);
      EXPECT_EQ(ioattn_sdpa_execute_forward(forward.get(), &p, call.o.data(), nullptr,
                                            call.lse.data(), nullptr, first.data(), first.size()),
                IOATTN_OK)
          << ioattn_last_error();
      EXPECT_EQ(ioattn_sdpa_execute_backward(backward.get(), &p, call.d_o.data(), nullptr,
                                             call.o.data(), nullptr, call.lse.data(), nullptr,
                                             &call.gradients, second.data(), second.size()),
                IOATTN_OK)
          << ioattn_last_error();
      EXPECT_TRUE(call.same_results(expected));
      EXPECT_TRUE(first.stayed_inside() && second.stayed_inside());
    }
  }
}

// Weights of 57 queries on 17 keys are about 1/17: those of the second sequence sum up to three.
TEST(PackedPlan, CountsTheOverflowsOfAllSequences) {
  const Starts q_starts = {0, 3, 60, 63, 90}, k_starts = {0, 3, 20, 23, 90};
  HalfCall<ioattn_f16> call({1, 2, 2, 90, 90, 8, 8});
  call.d_o.assign(call.d_o.size(), element<ioattn_f16>(40000));
  call.problem.scale = 0.01;
  call.problem.batch = 4;
  call.problem.q_starts = q_starts.data();
  call.problem.k_starts = k_starts.data();
  ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
  for (const int threads : {1, 3}) {
    const ioattn_options options = with_threads(threads);
    const Plan plan = create(IOATTN_BACKWARD, call.problem, &options, &call.gradients);
    EXPECT_TRUE(described(plan)["overflows"].is_null());
    EXPECT_EQ(ioattn_plan_count_overflows(plan.get(), 1), IOATTN_OK);
    EXPECT_EQ(ioattn_sdpa_execute_backward(plan.get(), &call.problem, call.d_o.data(), nullptr,
                                           call.o.data(), nullptr, call.lse.data(), nullptr,
                                           &call.gradients, nullptr, 0),
              IOATTN_OK)
        << ioattn_last_error();
    const auto infinite = std::count_if(call.dv.begin(), call.dv.end(),
                                        [](ioattn_f16 x) { return std::isinf(number(x)); });
    EXPECT_EQ(infinite, 2 * 17 * 8);
    EXPECT_EQ(described(plan)["overflows"],
              Json({{"executions", 1}, {"dQ", 0}, {"dK", 0}, {"dV", infinite}}));
  }
}

TEST(PackedPlan, DescribesSumsAndShapes) {
  // 20 x 31 twice, and one without keys.
  const PackedCase c = {{1, 4, 2, 100, 150, 16, 12}, {0, 20, 67, 87, 91}, {0, 31, 90, 121, 121}};
  PackedCall<float> call(c);
  const ioattn_options options = with_threads(2);
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    const Plan plan = create(pass, call.problem, &options);
    const Json told = described(plan);
    SCOPED_TRACE(told.dump());
    EXPECT_EQ(told["sequences"], 4);
    EXPECT_EQ(told["queries"], 91);
    EXPECT_EQ(told["keys"], 121);
    EXPECT_EQ(told["pass"], pass == IOATTN_FORWARD ? "forward" : "backward");
    EXPECT_EQ(told["threads"], 2);
    EXPECT_EQ(told.contains("gradients"), pass == IOATTN_BACKWARD);
    if (pass == IOATTN_BACKWARD) {
      EXPECT_EQ(told["gradients"], Json({"dQ", "dK", "dV"}));
    }
    ASSERT_EQ(told["shapes"].size(), 3u);
    const std::int64_t sizes[3][3] = {{1, 47, 59}, {2, 20, 31}, {1, 4, 0}};
    std::int64_t words = 0, fma = 0, footprint = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto [count, n, m] = sizes[i];
      EXPECT_EQ(told["shapes"][i]["sequences"], count);
      // What the plan of such a sequence alone tells.
      ioattn_sdpa_problem alone = call.problem;
      alone.batch = 1;
      alone.q_starts = alone.k_starts = nullptr;
      alone.n = n;
      alone.m = m;
      const Json& shape = told["shapes"][i]["plan"];
      EXPECT_EQ(shape["threads"], i < 2 ? 2 : 1);  // short ones have one
      const ioattn_options alike = with_threads(shape["threads"]);
      const Json one = described(create(pass, alone, &alike));
      EXPECT_EQ(shape, one);
      if (m == 0) continue;
      words += count * std::int64_t(one["words"]);
      fma += count * std::int64_t(one["fma"]);
      footprint = std::max<std::int64_t>(footprint, one["footprint"]);
    }
    EXPECT_EQ(told["words"], words);
    EXPECT_EQ(told["reads"].get<std::int64_t>() + told["writes"].get<std::int64_t>(), words);
    EXPECT_EQ(told["footprint"], footprint);
    EXPECT_EQ(told["fma"], fma);
    EXPECT_EQ(told["flops"], 2 * fma);
    std::size_t bytes = 0;
    ASSERT_EQ(ioattn_plan_workspace_size(plan.get(), &bytes), IOATTN_OK);
    EXPECT_EQ(told["workspace_bytes"], bytes);
    EXPECT_EQ(told["plan"], text_of(ioattn_plan_text, plan));
    EXPECT_EQ(std::string(told["plan"]).rfind("47x59", 0), 0u);
  }
}

// As many workspaces as threads, however many sequences there are.
TEST(PackedPlan, WorkspaceIsThatOfTheSequencesAtWork) {
  const auto bytes_of = [](std::int64_t sequences, int threads) {
    Starts starts = {0};
    for (std::int64_t b = 0; b < sequences; ++b) starts.push_back(starts.back() + 40);
    const auto rows = std::size_t(starts.back());
    PackedCall<float> call({{1, 2, 2, rows, rows, 16, 16}, starts, starts});
    const ioattn_options options = with_threads(threads);
    std::size_t bytes = 0;
    EXPECT_EQ(
        ioattn_plan_workspace_size(create(IOATTN_BACKWARD, call.problem, &options).get(), &bytes),
        IOATTN_OK);
    return bytes + 1;  // but for the slack of the alignment a multiple of it
  };
  EXPECT_EQ(bytes_of(100, 3), bytes_of(50, 3));
  const std::size_t alignment = 2 * bytes_of(100, 1) - bytes_of(100, 2);
  EXPECT_EQ(bytes_of(100, 1) % alignment, 0u);
  EXPECT_EQ(bytes_of(100, 8) - alignment, 8 * (bytes_of(100, 1) - alignment));
}

TEST(PackedPlan, TextIsOfTheseLengths) {
  PackedCall<float> call(packed_cases[0]);
  const std::string text = text_of(ioattn_plan_text, create(IOATTN_FORWARD, call.problem, nullptr));
  const auto parse = [&](const std::string& from, Plan* plan) {
    ioattn_plan* parsed = nullptr;
    const ioattn_status status = ioattn_sdpa_plan_parse(IOATTN_FORWARD, &call.problem, nullptr,
                                                        nullptr, from.c_str(), &parsed);
    EXPECT_EQ(parsed == nullptr, status != IOATTN_OK);
    plan->reset(parsed);
    return status;
  };
  Plan plan;
  EXPECT_EQ(parse(text, &plan), IOATTN_OK);
  // In another order, and one of them twice.
  PackedCall<float> other(
      {{1, 2, 1, 60, 99, 16, 12}, {0, 13, 13, 33, 60, 60}, {0, 50, 59, 90, 90, 99}});
  ioattn_plan* of_other = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_parse(IOATTN_FORWARD, &other.problem, nullptr, nullptr, text.c_str(),
                                   &of_other),
            IOATTN_OK)
      << ioattn_last_error();
  EXPECT_EQ(text_of(ioattn_plan_text, Plan(of_other)), text);
  const ioattn_status invalid = IOATTN_INVALID_ARGUMENT;
  const std::string item = text.substr(text.find(": "));
  expect_refused(parse("", &plan), invalid, "no plan for 13x50");
  expect_refused(parse("nonsense", &plan), invalid, "a plan for nonsense");
  const std::string twice = text.substr(0, text.find(": ")) + "," + item;
  for (const std::string& odd : {text + " | ", " | " + text, twice})
    expect_refused(parse(odd, &plan), invalid, "none of a plan");
  expect_refused(parse("13x50" + item.substr(0, item.find(" | ")), &plan), invalid,
                 "no plan for 20x31");
  expect_refused(parse("13x51" + item, &plan), invalid, "a plan for 13x51");
  expect_refused(parse(text + " | 1x1" + item, &plan), invalid, "a plan for 1x1");
  expect_refused(parse("13x50: L2:nonsense", &plan), invalid, "no plan for 20x31");
  std::string broken = text;
  broken.insert(broken.find(": ") + 2, "x");
  EXPECT_EQ(parse(broken, &plan), invalid);
  // That of one problem, and that of packed sequences for one.
  ioattn_sdpa_problem one = call.problem;
  one.batch = 1;
  one.q_starts = one.k_starts = nullptr;
  EXPECT_EQ(parse(text_of(ioattn_plan_text, create(IOATTN_FORWARD, one, nullptr)), &plan), invalid);
  ioattn_plan* none = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_parse(IOATTN_FORWARD, &one, nullptr, nullptr, text.c_str(), &none),
            invalid);
  EXPECT_EQ(none, nullptr);
}

TEST(PackedPlan, IsForItsSequences) {
  const PackedCase& c = packed_cases[2];  // 33 x 60, 47 x 39
  PackedCall<float> call(c);
  const Plan forward = create(IOATTN_FORWARD, call.problem, nullptr);
  const Plan backward = create(IOATTN_BACKWARD, call.problem, nullptr, &call.gradients);
  const ioattn_status invalid = IOATTN_INVALID_ARGUMENT;
  const auto both_refused = [&](const char* word) {
    expect_refused(execute_forward(forward, &call, nullptr, 0), invalid, word);
    expect_refused(execute_backward(backward, &call, nullptr, 0), invalid, word);
    EXPECT_TRUE(call.untouched());
  };
  const ioattn_sdpa_problem good = call.problem;
  const auto refused = [&](const std::function<void(ioattn_sdpa_problem*)>& change,
                           const char* word) {
    SCOPED_TRACE(word);
    change(&call.problem);
    both_refused(word);
    call.problem = good;
  };
  refused([](auto* p) { p->batch = 1; }, "for 2 sequences, the inputs are 1");
  refused([](auto* p) { p->n = 81; }, "the plan is for sdpa:b1,h4,kv2,n80,m99");
  refused([](auto* p) { p->m = 100; }, "the inputs are sdpa:b1,h4,kv2,n80,m100");
  refused([](auto* p) { p->d = 7; }, "the plan is for sdpa");
  refused([](auto* p) { p->dtype = IOATTN_F64; }, "the plan is for sdpa");
  refused([](auto* p) { p->scale = 2; }, "s2");
  refused([](auto* p) { p->mask = IOATTN_MASK_CAUSAL_TOP_LEFT; }, "n33,m60");
  refused([](auto* p) { p->q_offset = 1; }, "n33,m60");
  refused([](auto* p) { p->bias_batch = p->bias_heads = 1; }, "bias1x1");
  refused([](auto* p) { p->q_starts = nullptr; }, "q_starts is null");
  refused([](auto* p) { p->q_starts = p->k_starts = nullptr; },
          "the plan is of packed sequences, not of SDPA");
  refused([](auto* p) { p->q = nullptr; }, "Q is null");
  // Other lengths, and the same ones elsewhere.
  const Starts longer = {0, 34, 80}, ending = {0, 33, 79};
  refused([&](auto* p) { p->q_starts = longer.data(); }, "n34,m60");
  refused([&](auto* p) { p->q_starts = ending.data(); }, "n46,m39");
  const PackedCase with_room = {
      {1, 4, 2, 85, 99, 8, 8}, {0, 33, 80}, {0, 60, 99}, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT};
  PackedCall<float> roomy(with_room);
  const Plan planned = create(IOATTN_FORWARD, roomy.problem, nullptr);
  const Starts shifted = {2, 35, 82};
  roomy.problem.q_starts = shifted.data();
  expect_refused(execute_forward(planned, &roomy, nullptr, 0), invalid,
                 "sequence 0 of the plan begins with query 0 and key 0, that of the inputs with "
                 "query 2 and key 0");
  PackedCase with_room_for_keys = with_room;
  with_room_for_keys.sizes.n = 80;
  with_room_for_keys.sizes.m = 101;
  PackedCall<float> of_keys(with_room_for_keys);
  const Plan of_first_keys = create(IOATTN_FORWARD, of_keys.problem, nullptr);
  const Starts later_keys = {2, 62, 101};
  of_keys.problem.k_starts = later_keys.data();
  expect_refused(execute_forward(of_first_keys, &of_keys, nullptr, 0), invalid,
                 "query 0 and key 2");
  EXPECT_TRUE(roomy.untouched() && of_keys.untouched());

  // Of one pass, set and kind.
  expect_refused(execute_forward(backward, &call, nullptr, 0), invalid, "a backward pass");
  expect_refused(execute_backward(forward, &call, nullptr, 0), invalid, "a forward pass");
  call.gradients.accumulate = 1;
  expect_refused(execute_backward(backward, &call, nullptr, 0), invalid, "accumulate");
  call.gradients.accumulate = 0;
  ioattn_sdpa_problem one = good;
  one.batch = 1;
  one.q_starts = one.k_starts = nullptr;
  expect_refused(execute_forward(create(IOATTN_FORWARD, one, nullptr), &call, nullptr, 0), invalid,
                 "the plan is of SDPA, not of packed sequences");
  expect_refused(execute_forward(Plan(), &call, nullptr, 0), invalid, "plan is null");
  EXPECT_TRUE(call.untouched());

  // The caller's starts may be gone, and said elsewhere.
  PackedCall<float> expected(c);
  expected.run_alone();
  std::fill(call.packed.q_starts.begin(), call.packed.q_starts.end(), 0);
  std::fill(call.packed.k_starts.begin(), call.packed.k_starts.end(), 0);
  call.problem.q_starts = c.q_starts.data();
  call.problem.k_starts = c.k_starts.data();
  EXPECT_EQ(execute_forward(forward, &call, nullptr, 0), IOATTN_OK) << ioattn_last_error();
  EXPECT_EQ(execute_backward(backward, &call, nullptr, 0), IOATTN_OK) << ioattn_last_error();
  EXPECT_TRUE(same_bits(call.values(), expected.values()));
}

TEST(PackedPlan, WhatCannotBePlanned) {
  PackedCall<float> call(packed_cases[0]);
  ioattn_plan* none = nullptr;
  const auto refused = [&](const auto& change, ioattn_status wanted, const char* word) {
    expect_no_plan(call.problem, change, wanted, word);
  };
  const ioattn_status invalid = IOATTN_INVALID_ARGUMENT;
  const Starts falling = {0, 20, 19, 47, 60};
  refused([](auto* p) { p->batch = -1; }, invalid, "negative");
  refused([](auto* p) { p->batch = std::int64_t(1) << 60; }, IOATTN_SIZE_OVERFLOW, "64 bits");
  refused([](auto* p) { p->k_starts = nullptr; }, invalid, "k_starts is null");
  refused([&](auto* p) { p->q_starts = falling.data(); }, invalid, "q_starts do not ascend");
  refused([](auto* p) { p->scale = HUGE_VAL; }, invalid, "scale");
  refused([](auto* p) { p->bias_batch = p->bias_heads = 2; }, invalid, "bias_batch of packed");
  const auto create_with = [&](ioattn_pass pass, const ioattn_sdpa_gradients* gradients,
                               const ioattn_options* options) {
    return ioattn_sdpa_plan_create(pass, &call.problem, gradients, options, &none);
  };
  ioattn_sdpa_gradients gradients = {};
  gradients.struct_size = sizeof gradients;
  expect_refused(create_with(IOATTN_BACKWARD, &gradients, nullptr), invalid, "none is wanted");
  gradients.dbias = &gradients;
  expect_refused(create_with(IOATTN_BACKWARD, &gradients, nullptr), invalid, "no bias");
  ioattn_options options = default_options();
  options.memory_limit = 8;
  EXPECT_EQ(create_with(IOATTN_FORWARD, nullptr, &options), IOATTN_OK);
  ioattn_plan_destroy(none);
  none = nullptr;
  expect_refused(create_with(IOATTN_BACKWARD, nullptr, &options), IOATTN_MEMORY_LIMIT, "scratch");
  options = default_options();
  options.fast_memory_words = 1;
  EXPECT_EQ(create_with(IOATTN_FORWARD, nullptr, &options), IOATTN_FAST_MEMORY_TOO_SMALL);
  options = with_rigor(IOATTN_WISDOM_ONLY);
  EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
  expect_refused(create_with(IOATTN_FORWARD, nullptr, &options), IOATTN_UNSUPPORTED, "no wisdom");
  EXPECT_EQ(none, nullptr);
}

// What one call has no room for has no plan either.
TEST(PackedPlan, MemoryLimitIsThatOfOneCall) {
  PackedCall<float> call(packed_cases[1]);  // 3 heads of 50 queries, 39 in sequences
  ASSERT_EQ(call.forward(), IOATTN_OK);
  int refused = 0, planned = 0;
  for (const std::int64_t limit : {1, 100, 300, 460, 470, 540, 599, 600, 700, 2000}) {
    SCOPED_TRACE(limit);
    ioattn_options options = with_threads(1);
    options.memory_limit = limit;
    const ioattn_status one_call = call.backward(&options);
    ioattn_plan* plan = nullptr;
    EXPECT_EQ(
        ioattn_sdpa_plan_create(IOATTN_BACKWARD, &call.problem, &call.gradients, &options, &plan),
        one_call);
    EXPECT_TRUE(one_call == IOATTN_OK || one_call == IOATTN_MEMORY_LIMIT) << one_call;
    ++(one_call == IOATTN_OK ? planned : refused);
    ioattn_plan_destroy(plan);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(planned, 0);
}

// However many queries share it: nothing is read where plans are made.
TEST(PackedPlan, SharesALimitAmongBillionsOfQueries) {
  const auto status_of = [](int bits, std::int64_t quarters_a_query) {
    const std::int64_t all = std::int64_t(1) << bits;
    const std::int64_t q_starts[] = {0, all - 16, all}, k_starts[] = {0, 1, 2};
    float element = 0;
    ioattn_sdpa_problem problem = {};
    problem.struct_size = sizeof problem;
    problem.batch = problem.m = 2;
    problem.heads = problem.kv_heads = problem.d = problem.dv = 1;
    problem.n = all;
    problem.q_starts = q_starts;
    problem.k_starts = k_starts;
    problem.q = problem.k = problem.v = &element;
    ioattn_options options = default_options();
    options.memory_limit = all / 4 * quarters_a_query;
    ioattn_plan* plan = nullptr;
    const ioattn_status status =
        ioattn_sdpa_plan_create(IOATTN_BACKWARD, &problem, nullptr, &options, &plan);
    ioattn_plan_destroy(plan);
    return status;
  };
  for (const std::int64_t quarters : {1, 15, 19, 21, 23}) {
    const ioattn_status of_a_million = status_of(20, quarters);
    EXPECT_EQ(of_a_million, quarters < 16 ? IOATTN_MEMORY_LIMIT : IOATTN_OK);
    for (const int bits : {31, 33, 36})
      EXPECT_EQ(status_of(bits, quarters), of_a_million) << bits << " " << quarters;
  }
}

// Of all queries with all keys nothing is made.
TEST(PackedPlan, OfMoreRowsThanOneSequenceMayHave) {
  constexpr std::int64_t length = 512, rows = std::int64_t(1) << 24;
  std::vector<std::int64_t> starts;
  for (std::int64_t row = 0; row <= rows; row += length) starts.push_back(row);
  float element = 0;
  ioattn_sdpa_problem problem = {};
  problem.struct_size = sizeof problem;
  problem.batch = rows / length;
  problem.heads = problem.kv_heads = 8;
  problem.n = problem.m = rows;
  problem.d = problem.dv = 64;
  problem.dtype = IOATTN_BF16;
  problem.q_starts = problem.k_starts = starts.data();
  problem.q = problem.k = problem.v = &element;
  ioattn_plan* plan = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_create(IOATTN_FORWARD, &problem, nullptr, nullptr, &plan), IOATTN_OK)
      << ioattn_last_error();
  ioattn_plan_destroy(plan);
  starts = {0, rows};
  problem.batch = 1;
  EXPECT_EQ(ioattn_sdpa_plan_create(IOATTN_FORWARD, &problem, nullptr, nullptr, &plan),
            IOATTN_SIZE_OVERFLOW);
}

// One search for each class of lengths; what was learned is known.
TEST(PackedPlan, SearchesOnceForEachClass) {
  // 64 ... 127 and 128 ... 255, three times.
  const Starts starts = {0, 70, 150, 250, 380};
  PackedCall<float> call({{1, 2, 2, 380, 380, 16, 16}, starts, starts});
  EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
  ioattn_options options = with_rigor(IOATTN_MEASURE);
  options.time_limit_seconds = 0.2;
  const auto records = [] { return Json::parse(ioattn::wisdom::explain())["records"].size(); };
  const Json first = described(create(IOATTN_FORWARD, call.problem, &options));
  const std::size_t learned = records();
  EXPECT_LE(learned, 2u);
  ASSERT_EQ(first["shapes"].size(), 4u);
  std::size_t measured = 0;
  for (const Json& shape : first["shapes"]) {
    const Json& origin = shape["plan"]["origin"];
    EXPECT_TRUE(origin == "measure" || origin == "estimate") << origin;
    measured += origin == "measure" ? 1 : 0;
  }
  // A machine that is busy may leave too little time.
  if (learned == 2) {
    EXPECT_EQ(measured, 4u);
    const Json second = described(create(IOATTN_FORWARD, call.problem, &options));
    for (const Json& shape : second["shapes"]) EXPECT_EQ(shape["plan"]["origin"], "wisdom");
    EXPECT_EQ(second["plan"], first["plan"]);
    EXPECT_EQ(records(), 2u);
    // As one call takes what is known.
    const Plan plan = create(IOATTN_FORWARD, call.problem, &options);
    ASSERT_EQ(call.forward(), IOATTN_OK);
    const std::vector<float> expected = call.values();
    call.poison();
    ASSERT_EQ(execute_forward(plan, &call, nullptr, 0), IOATTN_OK);
    EXPECT_TRUE(same_bits(call.values(), expected));
  }
  EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
}

// One plan, several threads, each with its own workspace and outputs.
TEST(PackedPlan, IsReentrant) {
  const PackedCase& c = packed_cases[6];
  PackedCall<float> alone(c);
  alone.run_alone();
  const std::vector<float> values = alone.values();
  const ioattn_options options = with_threads(2);
  const Plan forward = create(IOATTN_FORWARD, alone.problem, &options);
  const Plan backward = create(IOATTN_BACKWARD, alone.problem, &options, &alone.gradients);
  expect_reentrant(forward, backward, values,
                   [&](Layout layout) { return PackedCall<float>(c, layout); });
}

TEST(PackedPlan, FromCpp) {
  const PackedCase& c = packed_cases[7];
  PackedCall<float> call(c);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ioattn::Sdpa<float> sdpa;
  const auto view = [](auto& t, std::int64_t heads, std::int64_t rows, std::int64_t cols) {
    return ioattn::Tensor<const float>(t.data(), 1, heads, rows, cols);
  };
  sdpa.q = view(call.q, 2, 420, 16);
  sdpa.k = view(call.k, 1, 400, 16);
  sdpa.v = view(call.v, 1, 400, 16);
  sdpa.bias = view(call.bias, 1, 420, 400);
  sdpa.mask = c.mask;
  sdpa.q_starts = c.q_starts;
  sdpa.k_starts = c.k_starts;
  const auto plan = ioattn::SdpaPlan<float>::forward(sdpa);
  PackedCall<float> planned(c);
  planned.poison();
  plan.execute_forward(sdpa, ioattn::Tensor<float>(planned.o.data(), 1, 2, 420, 16),
                       ioattn::Tensor<float>(planned.lse.data(), 1, 2, 1, 420));
  EXPECT_TRUE(same_bits(planned.values(), call.values()));
}

}  // namespace
}  // namespace ioattn_test
