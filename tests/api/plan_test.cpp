// Plan and execute: the results are those of the one-call functions, the workspace is exactly as
// large as said, a plan's text is the plan, and whatever is wrong leaves the outputs alone.

#include <atomic>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "api/batch_call.hpp"
#include "api/plan_call.hpp"
#include "schedules/thread_counts.hpp"

namespace ioattn_test {
namespace {

// All but what the text of a plan does not say: the objective, and where it is from.
nlohmann::json told_of(const Plan& plan) {
  auto json = nlohmann::json::parse(text_of(ioattn_plan_describe, plan));
  EXPECT_EQ(json.count("objective"), 1u);
  EXPECT_EQ(json.count("origin"), 1u);
  json.erase("objective");
  json.erase("origin");
  return json;
}

ioattn_layer_shape shape_of(const ioattn_layer_problem& problem) {
  ioattn_layer_shape shape = {};
  shape.struct_size = sizeof shape;
  shape.n = problem.n;
  shape.m = problem.m;
  shape.d = problem.d;
  shape.dv = problem.dv;
  shape.dtype = problem.dtype;
  shape.tie = problem.a2 != problem.a3                             ? IOATTN_TIE_NONE
              : problem.a1 != problem.a2 || problem.n != problem.m ? IOATTN_TIE_KV
                                                                   : IOATTN_TIE_ALL;
  return shape;
}

Plan create(ioattn_pass pass, const ioattn_layer_problem& problem, const ioattn_options* options,
            const ioattn_layer_gradients* gradients = nullptr) {
  const ioattn_layer_shape shape = shape_of(problem);
  ioattn_plan* plan = nullptr;
  EXPECT_EQ(ioattn_layer_plan_create(pass, &shape, gradients, options, &plan), IOATTN_OK)
      << ioattn_last_error();
  return Plan(plan);
}

template <class T>
class PlanExecute : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(PlanExecute, Types);

TYPED_TEST(PlanExecute, GivesTheBitsOfTheOneCallFunctions) {
  const CaseShape shapes[] = {{40, 33, 12, 9, Ties::none},
                              {1, 1, 1, 1, Ties::none},
                              {70, 50, 17, 4, Ties::keys_values},
                              {64, 64, 20, 20, Ties::all}};
  std::size_t round = 0;
  for (const CaseShape& shape : shapes) {
    for (const char* schedule : and_auto(backward_schedules)) {
      for (const std::int64_t M : {0, 6000}) {
        SCOPED_TRACE(name_of(shape) + " " + schedule + " M=" + std::to_string(M));
        LayerCall<TypeParam> call(shape, round % 3);
        ioattn_options options = with_schedule(schedule);
        options.fast_memory_words = M;
        options.threads = 1 + static_cast<int>(round % 2);
        ioattn_options for_forward = options;
        if (!has_forward_pass(schedule)) for_forward.schedule = nullptr;
        ASSERT_EQ(call.forward(&for_forward), IOATTN_OK) << ioattn_last_error();
        ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
        const auto o = call.o.dense(), lse = call.lse.dense(), dx = call.dx.dense();

        const ioattn_layer_problem problem = call.problem;
        const Plan forward = create(IOATTN_FORWARD, problem, &for_forward);
        const Plan backward = create(IOATTN_BACKWARD, problem, &options);
        for (const bool own_memory : {true, false}) {
          call.reset();
          Workspace first(forward, round % 130), second(backward, 1 + round % 7);
          ASSERT_EQ(ioattn_layer_execute_forward(
                        forward.get(), &problem, call.o.data(), call.o.stride(), call.lse.data(),
                        own_memory ? first.data() : nullptr, own_memory ? first.size() : 0),
                    IOATTN_OK)
              << ioattn_last_error();
          ioattn_layer_gradients gradients = {};
          gradients.struct_size = sizeof gradients;
          gradients.dx = call.dx.data();
          gradients.dx_stride = call.dx.stride();
          ASSERT_EQ(ioattn_layer_execute_backward(
                        backward.get(), &problem, call.d_o.data(), call.d_o.stride(), call.o.data(),
                        call.o.stride(), call.lse.data(), &gradients,
                        own_memory ? second.data() : nullptr, own_memory ? second.size() : 0),
                    IOATTN_OK)
              << ioattn_last_error();
          EXPECT_TRUE(first.stayed_inside() && second.stayed_inside());
          EXPECT_TRUE(same_bits(call.o.dense(), o));
          EXPECT_TRUE(same_bits(call.lse.dense(), lse));
          EXPECT_TRUE(same_bits(call.dx.dense(), dx));
        }
        ++round;
      }
    }
  }
}

// Random sets of gradients: the bits of the one call, in a workspace of just the size told, and the
// text reads back as the same plan.
TYPED_TEST(PlanExecute, GradientsInALentWorkspace) {
  using T = TypeParam;
  constexpr std::int64_t dk = 3;
  std::mt19937 engine(12);
  const CaseShape shapes[] = {
      {40, 33, 12, 9, Ties::none}, {30, 50, 7, 14, Ties::keys_values}, {36, 36, 10, 10, Ties::all}};
  for (int round = 0; round < 60; ++round) {
    const CaseShape& shape = shapes[round % 3];
    LayerCall<T> call(shape, static_cast<std::size_t>(round % 2));
    ASSERT_EQ(call.forward(), IOATTN_OK);
    const ioattn_layer_problem problem = call.problem;
    std::vector<T> w(shape.d * dk, T(0.5));
    ioattn_layer_gradients wanted = {};
    wanted.struct_size = sizeof wanted;
    wanted.w_q = wanted.w_k = w.data();
    wanted.dk = dk;
    void* ioattn_layer_gradients::*const outputs[] = {
        &ioattn_layer_gradients::dx,   &ioattn_layer_gradients::dy,  &ioattn_layer_gradients::da1,
        &ioattn_layer_gradients::da2,  &ioattn_layer_gradients::da3, &ioattn_layer_gradients::dw_q,
        &ioattn_layer_gradients::dw_k, &ioattn_layer_gradients::da};
    const std::size_t n = shape.n, m = shape.m, d = shape.d;
    const std::size_t sizes[] = {d * d, d * shape.dv, n * d, m * d, m * d, d * dk, d * dk, m * d};
    std::vector<std::vector<T>> first(8), second(8);
    unsigned set = std::uniform_int_distribution<unsigned>(1, 255)(engine);
    if (shape.ties == Ties::none) set = (set & 127) == 0 ? 1 : set & 127;
    if (round % 5 == 0) set = (set & 0b1100001) == 0 ? 0b0100000 : set & 0b1100001;  // dX alone
    SCOPED_TRACE(name_of(shape) + " set " + std::to_string(set));
    ioattn_layer_gradients again = wanted;
    for (std::size_t i = 0; i < 8; ++i) {
      if ((set >> i & 1) == 0) continue;
      first[i].resize(sizes[i]);
      second[i].resize(sizes[i]);
      wanted.*outputs[i] = first[i].data();
      again.*outputs[i] = second[i].data();
    }
    ioattn_options options = default_options();
    options.fast_memory_words = round % 4 == 0 ? 0 : 2000;
    options.threads = 1 + round % 2;
    ASSERT_EQ(ioattn_layer_backward(&problem, &options, call.d_o.data(), call.d_o.stride(),
                                    call.o.data(), call.o.stride(), call.lse.data(), &wanted),
              IOATTN_OK)
        << ioattn_last_error();
    const Plan plan = create(IOATTN_BACKWARD, problem, &options, &wanted);
    const std::string text = text_of(ioattn_plan_text, plan);
    const ioattn_layer_shape planned = shape_of(problem);
    ioattn_plan* read = nullptr;
    ASSERT_EQ(
        ioattn_layer_plan_parse(IOATTN_BACKWARD, &planned, &wanted, &options, text.c_str(), &read),
        IOATTN_OK)
        << ioattn_last_error();
    const Plan parsed(read);
    EXPECT_EQ(text_of(ioattn_plan_text, parsed), text);
    for (const std::string& wrong :
         {text + " ; dA9=1x1x1", text + " ; dY=1x1x1 ; dY=1x1x1", text + " ; ", " ; " + text,
          text + text, std::string("dA=1")}) {
      ioattn_plan* none = nullptr;
      EXPECT_EQ(ioattn_layer_plan_parse(IOATTN_BACKWARD, &planned, &wanted, &options, wrong.c_str(),
                                        &none),
                IOATTN_INVALID_ARGUMENT)
          << wrong;
    }
    const auto json = nlohmann::json::parse(text_of(ioattn_plan_describe, parsed));
    EXPECT_EQ(json["gradients"].size(), static_cast<std::size_t>(__builtin_popcount(set)));
    Workspace workspace(parsed, static_cast<std::size_t>(round));
    ASSERT_EQ(ioattn_layer_execute_backward(
                  parsed.get(), &problem, call.d_o.data(), call.d_o.stride(), call.o.data(),
                  call.o.stride(), call.lse.data(), &again, workspace.data(), workspace.size()),
              IOATTN_OK)
        << ioattn_last_error();
    EXPECT_TRUE(workspace.stayed_inside());
    for (std::size_t i = 0; i < 8; ++i) EXPECT_TRUE(same_bits(first[i], second[i])) << i;

    // One gradient more than planned.
    ioattn_layer_gradients more = again;
    std::vector<T> extra(d * d);
    if (more.dx == nullptr) {
      more.dx = extra.data();
      EXPECT_EQ(ioattn_layer_execute_backward(parsed.get(), &problem, call.d_o.data(),
                                              call.d_o.stride(), call.o.data(), call.o.stride(),
                                              call.lse.data(), &more, nullptr, 0),
                IOATTN_INVALID_ARGUMENT);
    }
  }
}

struct BothPlans {
  Plan forward, backward;
};
// The forward pass, and the gradients that the call wants, read back from their texts.
template <class T>
BothPlans plans_of(const BatchCall<T>& call, const ioattn_options& options) {
  const ioattn_layer_shape shape = call.planned_shape();
  const auto made = [&](ioattn_pass pass, const ioattn_layer_gradients* gradients) {
    ioattn_plan* plan = nullptr;
    EXPECT_EQ(ioattn_layer_plan_create(pass, &shape, gradients, &options, &plan), IOATTN_OK)
        << ioattn_last_error();
    const Plan created(plan);
    const std::string text = text_of(ioattn_plan_text, created);
    plan = nullptr;
    EXPECT_EQ(ioattn_layer_plan_parse(pass, &shape, gradients, &options, text.c_str(), &plan),
              IOATTN_OK)
        << ioattn_last_error();
    Plan parsed(plan);
    EXPECT_EQ(text_of(ioattn_plan_text, parsed), text);
    EXPECT_EQ(told_of(parsed), told_of(created));
    return parsed;
  };
  return {made(IOATTN_FORWARD, nullptr), made(IOATTN_BACKWARD, &call.gradients)};
}

// Batch, scale and mask: the bits of the one call, in a workspace that is exactly as large as said,
// wherever it begins; and words that are the sum of those of the phases.
TYPED_TEST(PlanExecute, BatchScaleAndMask) {
  int round = 0;
  for (const MaskCase& mask : mask_cases) {
    for (const std::int64_t batch : {1, 3}) {
      const double scale = round % 2 == 0 ? 0.5 : 1;
      const BatchShape shape = {{29, 34, 10, 7, Ties::none}, batch, scale, mask};
      SCOPED_TRACE(name_of(shape));
      BatchCall<TypeParam> call(shape, 1);
      call.want(round % 3 != 0);
      ioattn_options options = default_options();
      options.fast_memory_words = 800;
      options.threads = 1 + round % 2;
      ++round;
      ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
      ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
      const auto expected = call.outputs();
      const BothPlans plans = plans_of(call, options);
      const Plan &forward = plans.forward, &backward = plans.backward;
      // Whatever a vector's alignment: one of these lies one byte behind a cache line's begin.
      for (const std::size_t offset : {1u, 17u, 33u, 49u}) {
        call.reset();
        Workspace first(forward, offset), second(backward, offset);
        const auto run = [&](std::size_t less) {
          const ioattn_status status = ioattn_layer_execute_forward(
              forward.get(), &call.problem, call.o.data(), call.o.stride(), call.lse.data(),
              first.data(), first.size() - less);
          const ioattn_status next = ioattn_layer_execute_backward(
              backward.get(), &call.problem, call.d_o.data(), call.d_o.stride(), call.o.data(),
              call.o.stride(), call.lse.data(), &call.gradients, second.data(),
              second.size() - less);
          EXPECT_EQ(next, status) << ioattn_last_error();
          return status;
        };
        EXPECT_EQ(run(1), IOATTN_INVALID_ARGUMENT);
        EXPECT_TRUE(call.untouched());
        EXPECT_EQ(run(0), IOATTN_OK) << ioattn_last_error();
        EXPECT_TRUE(first.stayed_inside() && second.stayed_inside());
        EXPECT_TRUE(same_bits(call.outputs(), expected));
      }
      for (const Plan* plan : {&forward, &backward}) {
        const auto json = nlohmann::json::parse(text_of(ioattn_plan_describe, *plan));
        const std::string problem = json["problem"];
        EXPECT_EQ(problem.find(",b3") != std::string::npos, batch == 3) << problem;
        EXPECT_EQ(problem.find(",s0.5") != std::string::npos, scale == 0.5) << problem;
        EXPECT_EQ(problem.find(",causal") != std::string::npos ||
                      problem.find(",keys") != std::string::npos,
                  mask.mask != IOATTN_MASK_NONE)
            << problem;
        long words = 0;
        for (const auto& phase : json["phases"])
          words += phase["reads"].get<long>() + phase["writes"].get<long>();
        EXPECT_EQ(json["words"], words);
        EXPECT_LE(json["lower_bound"].get<double>(), static_cast<double>(words));
        EXPECT_GT(json["lower_bound"], 0);
      }
    }
  }
}

// Nothing as large as the scores is kept without a word, and all that is said to be kept has room.
TEST(Plans, TellWhatIsStored) {
  const std::int64_t n = 150, m = 140, d = 20, dv = 9;
  LayerCall<float> call({n, m, d, dv, Ties::none}, 0);
  const auto stored = [&](ioattn_pass pass, const char* schedule) {
    ioattn_options options = default_options();
    options.schedule = schedule;
    options.fast_memory_words = 40000;
    options.memory_limit = 1 << 20;
    const Plan plan = create(pass, call.problem, &options);
    const auto json = nlohmann::json::parse(text_of(ioattn_plan_describe, plan));
    std::set<std::string> names;
    std::int64_t words = 0;
    for (const auto& item : json["stored"]) {
      const std::int64_t rows = item["shape"][0], cols = item["shape"][1];
      EXPECT_EQ(item["words"], rows * cols);
      EXPECT_TRUE(rows == n || rows == m || rows == d) << item;
      words += rows * cols;
      if (rows == n && cols == m) names.insert(item["name"].get<std::string>());
    }
    EXPECT_LE(words * std::int64_t(sizeof(float)), json["workspace_bytes"]) << json;
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(stored(IOATTN_FORWARD, "row_stream"), Names());
  EXPECT_EQ(stored(IOATTN_FORWARD, "stationary"), Names({"scores"}));
  EXPECT_EQ(stored(IOATTN_FORWARD, "paper_small"), Names({"scores"}));
  EXPECT_EQ(stored(IOATTN_BACKWARD, "row_stream"), Names());
  EXPECT_EQ(stored(IOATTN_BACKWARD, "tile_fused"), Names());
  EXPECT_EQ(stored(IOATTN_BACKWARD, "stationary"), Names({"f"}));
  EXPECT_EQ(stored(IOATTN_BACKWARD, "q_stored"), Names({"q"}));
  EXPECT_EQ(stored(IOATTN_BACKWARD, "half_dim"), Names({"p", "scores"}));
  EXPECT_EQ(stored(IOATTN_BACKWARD, "paper_small"), Names({"f", "p"}));
}

// Every entry moves what one alone does; a sum over them, and a scale, move what they touch.
TEST(Plans, WordsOfABatchAreThoseOfItsEntries) {
  const std::int64_t d = 10, dv = 7;
  const auto described = [&](std::int64_t batch, double scale, bool all) {
    BatchCall<double> call({{29, 34, 10, 7, Ties::none}, batch, scale, mask_cases[1]}, 0);
    call.want(all);
    ioattn_options options = default_options();
    options.fast_memory_words = 800;
    const auto [forward, backward] = plans_of(call, options);
    return std::pair(nlohmann::json::parse(text_of(ioattn_plan_describe, forward)),
                     nlohmann::json::parse(text_of(ioattn_plan_describe, backward)));
  };
  for (const bool all : {false, true}) {
    const auto [forward, backward] = described(1, 1, all);
    const auto [forward3, backward3] = described(3, 1, all);
    const auto [scaled, scaled_backward] = described(1, 0.5, all);
    const auto number = [](const nlohmann::json& json, const char* key) {
      return json[key].get<std::int64_t>();
    };
    EXPECT_EQ(number(forward3, "words"), 3 * number(forward, "words"));
    EXPECT_EQ(number(forward3, "fma"), 3 * number(forward, "fma"));
    EXPECT_EQ(number(scaled, "words"), number(forward, "words") + 2 * d * d);
    // Two sums of two matrices: each is read twice and written once.
    const std::int64_t summed = d * d + (all ? d * dv : 0);
    EXPECT_EQ(number(backward3, "words"), 3 * number(backward, "words") + 2 * 3 * summed);
    EXPECT_EQ(number(backward3, "fma"), 3 * number(backward, "fma"));
    // A copy of X, and dX in place.
    EXPECT_EQ(number(scaled_backward, "words"), number(backward, "words") + 4 * d * d);
    // Operands of every entry, the weights once.
    const std::int64_t entry = 29 * d + 2 * 29 * d + 29 * dv;  // 29 keys are seen
    EXPECT_GE(number(forward3, "lower_bound"), 3 * entry + d * d + d * dv);
    if (!all) {
      EXPECT_GE(number(backward3, "lower_bound"), 3 * entry + 2 * d * d + d * dv);
    }
    for (const auto& level : forward3["levels"]) {
      EXPECT_EQ(level["bound"], "compulsory");  // all fits
      EXPECT_EQ(number(level, "lower_bound"), 3 * entry + d * d + d * dv);
    }
  }
}

TEST(Plans, AreForOneBatchScaleAndMask) {
  BatchCall<float> call({{29, 34, 10, 7, Ties::none}, 2, 0.5, {IOATTN_MASK_WINDOW_TOP_LEFT, 4, 1}},
                        0);
  const auto [forward, backward] = plans_of(call, default_options());
  const std::function<void(ioattn_layer_problem*)> changes[] = {
      [](auto* p) { p->batch = 1; },
      [](auto* p) { p->batch = 0; },
      [](auto* p) { p->scale = 0; },
      [](auto* p) { p->scale = -0.5; },
      [](auto* p) { p->mask = IOATTN_MASK_NONE; },
      [](auto* p) { p->mask = IOATTN_MASK_CAUSAL_TOP_LEFT; },
      [](auto* p) { p->mask = IOATTN_MASK_WINDOW_BOTTOM_RIGHT; },
      [](auto* p) { p->window_left = 3; },
      [](auto* p) { p->window_left = -1; },
      [](auto* p) { p->window_right = 2; }};
  for (const auto& change : changes) {
    ioattn_layer_problem other = call.problem;
    change(&other);
    for (const bool is_forward : {true, false}) {
      EXPECT_EQ(is_forward ? ioattn_layer_execute_forward(forward.get(), &other, call.o.data(), 0,
                                                          call.lse.data(), nullptr, 0)
                           : ioattn_layer_execute_backward(backward.get(), &other, call.d_o.data(),
                                                           0, call.o.data(), 0, call.lse.data(),
                                                           &call.gradients, nullptr, 0),
                IOATTN_INVALID_ARGUMENT)
          << &change - changes;
      const std::string message = ioattn_last_error();
      EXPECT_NE(message.find("the plan is for layer:n29,m34,d10,v7,f32,keys-4:1,b2,s0.5"),
                std::string::npos)
          << message;
    }
  }
  EXPECT_TRUE(call.untouched());
}

TEST(Plans, OneByteLessIsTooSmall) {
  LayerCall<float> call({40, 33, 12, 9, Ties::none}, 0);
  const ioattn_layer_problem problem = call.problem;
  const Plan plan = create(IOATTN_FORWARD, problem, nullptr);
  Workspace workspace(plan, 0);
  ASSERT_GT(workspace.size(), 1000u);
  EXPECT_EQ(ioattn_layer_execute_forward(plan.get(), &problem, call.o.data(), call.o.stride(),
                                         call.lse.data(), workspace.data(), workspace.size() - 1),
            IOATTN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ioattn_last_error()).find(std::to_string(workspace.size())),
            std::string::npos);
  EXPECT_TRUE(call.untouched());
}

TEST(Plans, AWorkspaceMayBeOfAnySize) {
  LayerCall<float> call({40, 33, 12, 9, Ties::none}, 0);
  const Plan plan = create(IOATTN_FORWARD, call.problem, nullptr);
  Workspace workspace(plan, 1);
  constexpr std::size_t half = std::size_t{1} << 63;
  for (const std::size_t told : {half - 1, half, half + 1, 2 * half - 1}) {
    EXPECT_EQ(
        ioattn_layer_execute_forward(plan.get(), &call.problem, call.o.data(), call.o.stride(),
                                     call.lse.data(), workspace.data(), told),
        IOATTN_OK)
        << ioattn_last_error();
  }
}

// 2^60 words are more than any problem takes, and more say no more.
TEST(Plans, FastMemoryMayBeOfAnySize) {
  ioattn_options options = default_options();
  options.memory_limit = std::numeric_limits<std::int64_t>::max();
  ioattn_sdpa_problem sdpa = {};
  sdpa.struct_size = sizeof sdpa;
  sdpa.batch = sdpa.heads = sdpa.kv_heads = 1;
  sdpa.n = sdpa.m = 100;
  sdpa.d = sdpa.dv = 300;
  ioattn_layer_shape layer = {};
  layer.struct_size = sizeof layer;
  layer.n = layer.m = 100;
  layer.d = layer.dv = 300;
  const auto texts = [&](ioattn_pass pass, std::int64_t words, const char* schedule) {
    options.fast_memory_words = words;
    options.schedule = schedule;
    ioattn_plan *of_layer = nullptr, *of_sdpa = nullptr;
    EXPECT_EQ(ioattn_layer_plan_create(pass, &layer, nullptr, &options, &of_layer), IOATTN_OK)
        << ioattn_last_error();
    options.schedule = nullptr;
    EXPECT_EQ(ioattn_sdpa_plan_create(pass, &sdpa, nullptr, &options, &of_sdpa), IOATTN_OK)
        << ioattn_last_error();
    return text_of(ioattn_plan_text, Plan(of_layer)) + text_of(ioattn_plan_text, Plan(of_sdpa));
  };
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD})
    for (const auto objective : {IOATTN_TIME, IOATTN_WORDS_L2})
      for (const char* schedule : {"row_stream", "paper_small", "tile_fused"}) {
        options.objective = objective;
        EXPECT_EQ(texts(pass, std::numeric_limits<std::int64_t>::max(), schedule),
                  texts(pass, std::int64_t{1} << 60, schedule));
      }
}

TEST(Plans, TextIsThePlan) {
  LayerCall<float> call({90, 70, 24, 8, Ties::keys_values}, 0);
  const ioattn_layer_problem problem = call.problem;
  const ioattn_layer_shape shape = shape_of(problem);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  const auto o = call.o.dense();
  const Plan plan = create(IOATTN_FORWARD, problem, nullptr);
  const std::string text = text_of(ioattn_plan_text, plan);
  ioattn_plan* parsed = nullptr;
  ASSERT_EQ(
      ioattn_layer_plan_parse(IOATTN_FORWARD, &shape, nullptr, nullptr, text.c_str(), &parsed),
      IOATTN_OK)
      << ioattn_last_error();
  const Plan again(parsed);
  EXPECT_EQ(text_of(ioattn_plan_text, again), text);
  EXPECT_EQ(told_of(again), told_of(plan));
  call.reset();
  ASSERT_EQ(ioattn_layer_execute_forward(again.get(), &problem, call.o.data(), call.o.stride(),
                                         call.lse.data(), nullptr, 0),
            IOATTN_OK);
  EXPECT_TRUE(same_bits(call.o.dense(), o));

  const std::string tile = text.substr(text.find(" > reg:"));
  for (const std::string& wrong :
       {std::string(), std::string("L2:row_stream()"), text + " ", "L2:row_stream(form=g)" + tile,
        "L2:naive()" + tile, text.substr(0, text.find(" > reg:")) + " > reg:scalar(1x999)",
        "L2:paper_small(r=2199023255552,c=1)" + tile,
        // Of the kernels' tile one side alone is another.
        text.substr(0, text.size() - 1) + "9)",
        text.substr(0, text.rfind('(') + 1) + "9" + text.substr(text.rfind('(') + 1)}) {
    ioattn_plan* none = nullptr;
    EXPECT_NE(
        ioattn_layer_plan_parse(IOATTN_FORWARD, &shape, nullptr, nullptr, wrong.c_str(), &none),
        IOATTN_OK)
        << wrong;
    EXPECT_EQ(none, nullptr);
  }
}

// Of a size whose 170 queries were one block: dX has a term per strip, and of more queries a block
// has whole strips, which are the same for any number of threads.
TEST(Plans, OfAnotherSizeAreTheSameBitsForAnyThreads) {
  LayerCall<float> call({250, 300, 64, 64, Ties::none}, 0);
  const ioattn_layer_problem problem = call.problem;
  const ioattn_layer_shape shape = shape_of(problem);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ioattn_layer_gradients gradients = {};
  gradients.struct_size = sizeof gradients;
  gradients.dx = call.dx.data();
  gradients.dx_stride = call.dx.stride();
  const std::string made = text_of(ioattn_plan_text, create(IOATTN_BACKWARD, problem, nullptr));
  const std::string tile = made.substr(made.find(" > reg:"));
  std::vector<float> one;
  for (const int threads : thread_counts) {
    ioattn_options options = default_options();
    options.threads = threads;
    ioattn_plan* parsed = nullptr;
    const std::string text = "M:row_stream(form=g,r=170,c=256,rho=64,w=64,o=170,a=64,b=64)" + tile;
    ASSERT_EQ(ioattn_layer_plan_parse(IOATTN_BACKWARD, &shape, &gradients, &options, text.c_str(),
                                      &parsed),
              IOATTN_OK)
        << ioattn_last_error();
    const Plan plan(parsed);
    call.dx.fill_with_pattern();
    ASSERT_EQ(ioattn_layer_execute_backward(plan.get(), &problem, call.d_o.data(),
                                            call.d_o.stride(), call.o.data(), call.o.stride(),
                                            call.lse.data(), &gradients, nullptr, 0),
              IOATTN_OK);
    call.expect_backward();
    const std::vector<float> dx = call.dx.dense();
    if (threads == 1) one = dx;
    EXPECT_TRUE(same_bits(dx, one)) << threads;
  }
}

TEST(Plans, DescribeNamesWhatMakesGradientsInOnePass) {
  LayerCall<float> call({200, 150, 16, 16, Ties::none}, 0);
  ioattn_layer_gradients gradients = {};
  gradients.struct_size = sizeof gradients;
  float anywhere = 0;
  gradients.dx = gradients.da2 = &anywhere;
  const Plan plan = create(IOATTN_BACKWARD, call.problem, nullptr, &gradients);
  const auto json = nlohmann::json::parse(text_of(ioattn_plan_describe, plan));
  EXPECT_NE(json["plan"].get<std::string>().find(",one_pass)"), std::string::npos) << json["plan"];
  EXPECT_EQ(json["schedule"], "col_stream");
  EXPECT_GT(json["blocks"]["c"], 0);
}

TEST(Plans, OfTilesDescribeAndParse) {
  LayerCall<float> call({200, 150, 16, 16, Ties::none}, 0);
  const ioattn_layer_shape shape = shape_of(call.problem);
  ioattn_options options = default_options();
  options.schedule = "tile_fused";
  float anywhere = 0;
  for (const bool keys : {false, true}) {
    ioattn_layer_gradients gradients = {};
    gradients.struct_size = sizeof gradients;
    gradients.dx = &anywhere;
    if (keys) gradients.da2 = &anywhere;
    const Plan plan = create(IOATTN_BACKWARD, call.problem, &options, &gradients);
    const std::string text = text_of(ioattn_plan_text, plan);
    const auto json = nlohmann::json::parse(text_of(ioattn_plan_describe, plan));
    EXPECT_EQ(json["schedule"], "tile_fused");
    for (const char* size : {"c", "share", "rho", "w"}) EXPECT_GT(json["blocks"][size], 0) << size;
    const auto parse = [&](const std::string& line) {
      ioattn_plan* parsed = nullptr;
      const ioattn_status status = ioattn_layer_plan_parse(IOATTN_BACKWARD, &shape, &gradients,
                                                           nullptr, line.c_str(), &parsed);
      const Plan owned(parsed);
      EXPECT_EQ(parsed != nullptr, status == IOATTN_OK);
      if (parsed != nullptr) {
        EXPECT_EQ(text_of(ioattn_plan_text, owned), line);
      }
      return status;
    };
    EXPECT_EQ(parse(text), IOATTN_OK) << text;
    const auto replaced = [](const std::string& in, const char* name, const std::string& to) {
      const std::size_t at = in.find(name, in.find(":tile_fused("));
      EXPECT_NE(at, std::string::npos) << in;
      const std::size_t end = in.find_first_of(",)", at + 1);
      return in.substr(0, at) + to + in.substr(end);
    };
    const std::string in_one = replaced(text, ",share=", "");
    const auto changed = [&](const char* name, const std::string& to) {
      return replaced(in_one, name, to);
    };
    EXPECT_EQ(parse(in_one), IOATTN_OK) << in_one;
    for (const std::string& wrong :
         {changed(",c=", ",c=0"), changed(",w=", ""), changed(",rho=", ",rho=2199023255552"),
          changed("form=", "form=g"), changed(",c=", ",c=30,share=20"),
          changed(",c=", ",c=30,share=15")})
      EXPECT_NE(parse(wrong), IOATTN_OK) << wrong;
    EXPECT_EQ(parse(changed(",c=", ",c=40,share=20")), IOATTN_OK);
    std::string parked = in_one;
    parked.insert(parked.find(") > reg:", parked.find(":tile_fused(")), ",parked");
    EXPECT_EQ(parse(parked), IOATTN_OK) << parked;
    // Of gradients of queries, by tiles.
    ioattn_layer_gradients of_keys = {};
    of_keys.struct_size = sizeof of_keys;
    of_keys.da2 = &anywhere;
    const Plan other = create(IOATTN_BACKWARD, call.problem, nullptr, &of_keys);
    std::string columns = text_of(ioattn_plan_text, other);
    columns.insert(columns.find(",rho=", columns.rfind("_stream(")), ",share=2");
    ioattn_plan* parsed = nullptr;
    EXPECT_NE(ioattn_layer_plan_parse(IOATTN_BACKWARD, &shape, &of_keys, nullptr, columns.c_str(),
                                      &parsed),
              IOATTN_OK)
        << columns;
  }
}

// Weights wait in memory for p alone, which O and the gradient of values do without.
TEST(Plans, OfTilesParkForGradientsOfScores) {
  LayerCall<float> call({200, 150, 16, 16, Ties::none}, 0);
  const ioattn_layer_shape shape = shape_of(call.problem);
  ioattn_options options = default_options();
  float anywhere = 0;
  ioattn_layer_gradients dx = {}, dy = {};
  dx.struct_size = dy.struct_size = sizeof dx;
  dx.dx = dy.dy = &anywhere;
  const auto parse = [&](ioattn_pass pass, const ioattn_layer_gradients* set, std::string text) {
    text.insert(text.find(") > reg:", text.find(":tile_fused(")), ",parked");
    ioattn_plan* parsed = nullptr;
    const ioattn_status status =
        ioattn_layer_plan_parse(pass, &shape, set, nullptr, text.c_str(), &parsed);
    const Plan owned(parsed);
    if (status == IOATTN_OK) {
      const auto json = nlohmann::json::parse(text_of(ioattn_plan_describe, owned));
      EXPECT_EQ(json["blocks"]["parked"], true);
    }
    return status;
  };
  options.schedule = "tile_fused";
  const auto planned = [&](ioattn_pass pass, const ioattn_layer_gradients* set) {
    return text_of(ioattn_plan_text, create(pass, call.problem, &options, set));
  };
  EXPECT_EQ(parse(IOATTN_BACKWARD, &dx, planned(IOATTN_BACKWARD, &dx)), IOATTN_OK);
  EXPECT_EQ(parse(IOATTN_FORWARD, nullptr, planned(IOATTN_FORWARD, nullptr)), IOATTN_UNSUPPORTED);
  EXPECT_EQ(parse(IOATTN_BACKWARD, &dy, planned(IOATTN_BACKWARD, &dy)), IOATTN_UNSUPPORTED);
}

TEST(Plans, DescribeTellsWhatIsDone) {
  LayerCall<double> call({60, 45, 16, 10, Ties::none}, 0);
  const ioattn_layer_problem problem = call.problem;
  ioattn_options options = default_options();
  options.fast_memory_words = 400;  // another M than that of any level
  options.threads = 1 << 20;
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    const Plan plan = create(pass, problem, &options);
    const auto json = nlohmann::json::parse(text_of(ioattn_plan_describe, plan));
    EXPECT_EQ(json["problem"], "layer:n60,m45,d16,v10,f64");
    EXPECT_EQ(json["pass"], pass == IOATTN_FORWARD ? "forward" : "backward");
    EXPECT_EQ(json["plan"], text_of(ioattn_plan_text, plan));
    EXPECT_EQ(json["words"], json["reads"].get<long>() + json["writes"].get<long>());
    EXPECT_LE(json["lower_bound"].get<double>(), json["words"].get<double>());
    EXPECT_EQ(json["M"], 400);
    EXPECT_LE(json["footprint"], json["M"]);
    EXPECT_EQ(json["threads"], ioattn_machine_threads());
    // A text alone does not tell M: what the plan keeps, then.
    ioattn_plan* parsed = nullptr;
    const ioattn_layer_shape shape = shape_of(problem);
    ASSERT_EQ(ioattn_layer_plan_parse(pass, &shape, nullptr, nullptr,
                                      text_of(ioattn_plan_text, plan).c_str(), &parsed),
              IOATTN_OK);
    const Plan again(parsed);
    EXPECT_EQ(nlohmann::json::parse(text_of(ioattn_plan_describe, again))["M"], json["footprint"]);
    EXPECT_EQ(json["flops"], 2 * json["fma"].get<long>());
    std::size_t bytes = 0;
    ASSERT_EQ(ioattn_plan_workspace_size(plan.get(), &bytes), IOATTN_OK);
    EXPECT_EQ(json["workspace_bytes"], bytes);
    long reads = 0;
    for (const auto& phase : json["phases"]) reads += phase["reads"].get<long>();
    EXPECT_EQ(json["reads"], reads);
    EXPECT_GE(json["levels"].size(), 2u);
    for (const auto& level : json["levels"]) {
      double bound = 0;
      ASSERT_EQ(
          ioattn_layer_bound(pass, json["class"] == "P" ? IOATTN_CLASS_PEBBLE : IOATTN_CLASS_FMA,
                             IOATTN_TIE_NONE, 60, 45, 16, 10, level["M"], &bound, nullptr),
          IOATTN_OK);
      EXPECT_EQ(level["lower_bound"], bound);
    }
    EXPECT_FALSE(json["blocks"].empty());
  }
}

TEST(Plans, WrongArgumentsAreRefused) {
  LayerCall<float> call({30, 20, 8, 6, Ties::none}, 0);
  const ioattn_layer_problem problem = call.problem;
  const ioattn_layer_shape good = shape_of(problem);
  ioattn_plan* none = nullptr;
  const auto refused = [&](const ioattn_layer_shape& shape, ioattn_pass pass = IOATTN_FORWARD) {
    return ioattn_layer_plan_create(pass, &shape, nullptr, nullptr, &none) ==
               IOATTN_INVALID_ARGUMENT &&
           none == nullptr;
  };
  ioattn_layer_shape shape = good;
  shape.struct_size = 3;
  EXPECT_TRUE(refused(shape));
  shape = good;
  shape.n = -1;
  EXPECT_TRUE(refused(shape));
  shape = good;
  shape.tie = IOATTN_TIE_ALL;  // n is not m
  EXPECT_TRUE(refused(shape));
  EXPECT_EQ(ioattn_layer_plan_create(IOATTN_FORWARD, nullptr, nullptr, nullptr, &none),
            IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(ioattn_layer_plan_create(IOATTN_FORWARD, &good, nullptr, nullptr, nullptr),
            IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(ioattn_layer_plan_parse(IOATTN_FORWARD, &good, nullptr, nullptr, nullptr, &none),
            IOATTN_INVALID_ARGUMENT);
  float weights = 0;
  ioattn_layer_gradients huge = {};
  huge.struct_size = sizeof huge;
  huge.dw_q = &weights;
  huge.w_k = &weights;
  huge.dk = std::int64_t{1} << 61;
  EXPECT_EQ(ioattn_layer_plan_create(IOATTN_BACKWARD, &good, &huge, nullptr, &none),
            IOATTN_SIZE_OVERFLOW);
  huge.dk = -1;
  EXPECT_EQ(ioattn_layer_plan_create(IOATTN_BACKWARD, &good, &huge, nullptr, &none),
            IOATTN_INVALID_ARGUMENT);
  std::swap(huge.dw_q, huge.dw_k);
  huge.w_q = &weights;
  EXPECT_EQ(ioattn_layer_plan_create(IOATTN_BACKWARD, &good, &huge, nullptr, &none),
            IOATTN_INVALID_ARGUMENT);
  huge.dw_k = nullptr;  // none is wanted
  EXPECT_EQ(ioattn_layer_plan_create(IOATTN_BACKWARD, &good, &huge, nullptr, &none),
            IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(ioattn_plan_workspace_size(nullptr, nullptr), IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(ioattn_plan_text(nullptr, nullptr, 0, nullptr), IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(ioattn_plan_describe(nullptr, nullptr, 0, nullptr), IOATTN_INVALID_ARGUMENT);
  ioattn_plan_destroy(nullptr);

  const Plan plan = create(IOATTN_FORWARD, problem, nullptr);
  const auto executes = [&](const ioattn_layer_problem* inputs, void* o, void* lse) {
    return ioattn_layer_execute_forward(plan.get(), inputs, o, call.o.stride(), lse, nullptr, 0);
  };
  ioattn_layer_problem other = problem;
  other.n = 29;
  EXPECT_EQ(executes(&other, call.o.data(), call.lse.data()), IOATTN_INVALID_ARGUMENT);
  other = problem;
  other.dtype = IOATTN_F64;
  EXPECT_EQ(executes(&other, call.o.data(), call.lse.data()), IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(executes(nullptr, call.o.data(), call.lse.data()), IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(executes(&problem, nullptr, call.lse.data()), IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(executes(&problem, call.o.data(), nullptr), IOATTN_INVALID_ARGUMENT);
  const Plan of_backward = create(IOATTN_BACKWARD, problem, nullptr);
  EXPECT_EQ(ioattn_layer_execute_forward(of_backward.get(), &problem, call.o.data(),
                                         call.o.stride(), call.lse.data(), nullptr, 0),
            IOATTN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ioattn_last_error()).find("backward"), std::string::npos);
  ioattn_layer_gradients dx_alone = {};
  dx_alone.struct_size = sizeof dx_alone;
  dx_alone.dx = call.dx.data();
  EXPECT_EQ(ioattn_layer_execute_backward(plan.get(), &problem, call.d_o.data(), 0, call.o.data(),
                                          0, call.lse.data(), &dx_alone, nullptr, 0),
            IOATTN_INVALID_ARGUMENT);
  EXPECT_TRUE(call.untouched());
  EXPECT_EQ(executes(&problem, call.o.data(), call.lse.data()), IOATTN_OK) << ioattn_last_error();

  // Planned as one memory, given as two.
  ioattn_layer_shape tied = good;
  tied.tie = IOATTN_TIE_KV;
  ASSERT_EQ(ioattn_layer_plan_create(IOATTN_FORWARD, &tied, nullptr, nullptr, &none), IOATTN_OK);
  const Plan of_tied(none);
  EXPECT_EQ(ioattn_layer_execute_forward(of_tied.get(), &problem, call.o.data(), call.o.stride(),
                                         call.lse.data(), nullptr, 0),
            IOATTN_INVALID_ARGUMENT);
}

// Parts of a plan of gradients that cannot be run, each in a text that reads back as it is.
TEST(Plans, TextsOfGradientsThatCannotRunAreRefused) {
  LayerCall<float> call({40, 33, 12, 9, Ties::none}, 0);
  const ioattn_layer_problem problem = call.problem;
  const ioattn_layer_shape shape = shape_of(problem);
  float memory = 0;
  ioattn_layer_gradients all = {};
  all.struct_size = sizeof all;
  all.dx = all.dy = all.da1 = all.da2 = all.da3 = &memory;
  ioattn_options options = default_options();
  options.fast_memory_words = 2000;
  const Plan plan = create(IOATTN_BACKWARD, problem, &options, &all);
  const std::string text = text_of(ioattn_plan_text, plan);
  const auto changed = [&](const std::string& behind, const std::string& from,
                           const std::string& to) {
    const std::size_t at = text.find(from, text.find(behind));
    EXPECT_NE(at, std::string::npos) << from << " in " << text;
    return std::string(text).replace(at, from.size(), to);
  };
  const auto number_behind = [&](const std::string& key, const std::string& name) {
    const std::size_t at = text.find(name, text.find(key)) + name.size();
    return text.substr(at, text.find_first_not_of("0123456789", at) - at);
  };
  const std::string keys = " ; M:col_stream(";
  std::vector<std::string> wrong = {changed(keys, "form=h", "form=g"),
                                    changed(keys, "form=h,", "form=h,r=2199023255552,")};
  for (const std::string name : {"dY=", "dA1=", "dA3="})
    wrong.push_back(changed(" ; ", name + number_behind(" ; ", name), name + "0"));
  wrong.push_back(changed(keys, "c=" + number_behind(keys, "c="), "c=0"));
  wrong.push_back(changed(keys, "c=" + number_behind(keys, "c="), "c=2199023255552"));
  for (const std::string& line : wrong) {
    EXPECT_NE(line, text);
    ioattn_plan* none = nullptr;
    EXPECT_NE(ioattn_layer_plan_parse(IOATTN_BACKWARD, &shape, &all, &options, line.c_str(), &none),
              IOATTN_OK)
        << line;
    EXPECT_EQ(none, nullptr);
  }
}

TEST(Plans, OfEmptyProblemsTakeNoWorkspace) {
  LayerCall<float> no_values({5, 4, 3, 0, Ties::none}, 0);
  const Plan backward = create(IOATTN_BACKWARD, no_values.problem, nullptr);
  std::size_t none = 1;
  EXPECT_EQ(ioattn_plan_workspace_size(backward.get(), &none), IOATTN_OK);
  EXPECT_EQ(none, 0u);
  for (const CaseShape& shape :
       {CaseShape{0, 5, 3, 2, Ties::none}, CaseShape{5, 0, 3, 2, Ties::none},
        CaseShape{5, 4, 0, 2, Ties::none}}) {
    LayerCall<float> call(shape, 0);
    const ioattn_layer_problem problem = call.problem;
    const Plan plan = create(IOATTN_FORWARD, problem, nullptr);
    std::size_t bytes = 1;
    EXPECT_EQ(ioattn_plan_workspace_size(plan.get(), &bytes), IOATTN_OK);
    EXPECT_EQ(bytes, 0u);
    EXPECT_EQ(ioattn_layer_execute_forward(plan.get(), &problem, call.o.data(), call.o.stride(),
                                           call.lse.data(), nullptr, 0),
              IOATTN_OK)
        << ioattn_last_error();
  }
}

// One plan, several threads, each with its own workspace and outputs.
TEST(Plans, AreReentrant) {
  const CaseShape shape = {80, 60, 16, 16, Ties::none};
  LayerCall<float> first(shape, 0);
  ASSERT_EQ(first.forward(), IOATTN_OK);
  const auto expected = first.o.dense();
  const ioattn_layer_problem problem = first.problem;
  const Plan plan = create(IOATTN_FORWARD, problem, nullptr);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Workspace workspace(plan, 0);
      std::vector<float> o(80 * 16), lse(80);
      bool same = true;
      for (int repeat = 0; repeat < 5; ++repeat) {
        same =
            same && ioattn_layer_execute_forward(plan.get(), &problem, o.data(), 0, lse.data(),
                                                 workspace.data(), workspace.size()) == IOATTN_OK;
        same = same && same_bits(o, expected);
      }
      right += same ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

}  // namespace
}  // namespace ioattn_test
