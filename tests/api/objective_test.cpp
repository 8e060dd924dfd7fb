// Plans for an objective: what they tell of it, that words are no more than those for time, that
// the results are right, and what is refused.

#include <functional>
#include <nlohmann/json.hpp>

#include "api/plan_call.hpp"
#include "api/sdpa_call.hpp"
#include "ioattn/ioattn.hpp"

namespace ioattn_test {
namespace {

using Json = nlohmann::json;

constexpr const char* names[] = {"time", "words@L1", "words@L2"};

ioattn_options options_for(int objective) {
  ioattn_options options = default_options();
  options.objective = objective;
  options.reproducible = 1;  // whatever wisdom is on this machine
  return options;
}

ioattn_sdpa_problem sdpa_problem(std::int64_t n, std::int64_t d) {
  ioattn_sdpa_problem problem = {};
  problem.struct_size = sizeof problem;
  problem.batch = problem.heads = problem.kv_heads = 1;
  problem.n = problem.m = n;
  problem.d = problem.dv = d;
  return problem;
}

Json sdpa_plan(ioattn_pass pass, const ioattn_options& options, std::int64_t n, std::int64_t d) {
  const ioattn_sdpa_problem problem = sdpa_problem(n, d);
  ioattn_plan* plan = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_create(pass, &problem, nullptr, &options, &plan), IOATTN_OK)
      << ioattn_last_error();
  return Json::parse(text_of(ioattn_plan_describe, Plan(plan)));
}

Json layer_plan(ioattn_pass pass, const ioattn_options& options) {
  ioattn_layer_shape shape = {};
  shape.struct_size = sizeof shape;
  shape.n = shape.m = 1000;
  shape.d = shape.dv = 48;
  ioattn_plan* plan = nullptr;
  EXPECT_EQ(ioattn_layer_plan_create(pass, &shape, nullptr, &options, &plan), IOATTN_OK)
      << ioattn_last_error();
  return Json::parse(text_of(ioattn_plan_describe, Plan(plan)));
}

TEST(Objective, IsToldWithItsLevel) {
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD})
    for (int objective = IOATTN_TIME; objective <= IOATTN_WORDS_L2; ++objective) {
      for (const Json& json : {sdpa_plan(pass, options_for(objective), 500, 64),
                               layer_plan(pass, options_for(objective))}) {
        EXPECT_EQ(json["objective"], names[objective]);
        EXPECT_EQ(json["level"] == "L1", objective == IOATTN_WORDS_L1) << json["plan"];
        if (objective == IOATTN_WORDS_L2) {
          EXPECT_EQ(json["level"], "L2");
        }
      }
    }
}

TEST(Objective, WordsAreNoMoreThanThoseForTime) {
  int fewer = 0;
  for (const std::int64_t M : {6144, 98304, 196608})
    for (const std::int64_t d : {16, 64, 512})
      for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
        ioattn_options time = options_for(IOATTN_TIME), words = options_for(IOATTN_WORDS_L2);
        time.fast_memory_words = words.fast_memory_words = M;
        const Json of_time = sdpa_plan(pass, time, 1024, d);
        const Json of_words = sdpa_plan(pass, words, 1024, d);
        EXPECT_LE(of_words["words"], of_time["words"]) << of_words["plan"];
        EXPECT_LE(of_words["footprint"], M);
        EXPECT_EQ(of_words["level"], "M");
        fewer += of_words["words"] < of_time["words"];
      }
  EXPECT_GT(fewer, 4);
}

TEST(Objective, ResultsAreRight) {
  const auto check = [](const SdpaSizes& sizes, const ioattn_options& options) {
    SdpaCall<float> call(sizes);
    ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
    call.expect_forward();
    ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
    call.expect_backward();
  };
  for (int objective = IOATTN_WORDS_L1; objective <= IOATTN_WORDS_L2; ++objective) {
    check({2, 4, 2, 150, 170, 24, 40}, options_for(objective));
  }
  // Rows that no L1 holds.
  ioattn_options small = options_for(IOATTN_WORDS_L1);
  small.fast_memory_words = 4096;
  check({1, 2, 1, 40, 50, 2100, 1900}, small);
}

TEST(Objective, IsChecked) {
  const auto refused = [](const std::function<void(ioattn_options*)>& change) {
    ioattn_options options = default_options();
    change(&options);
    const ioattn_sdpa_problem problem = sdpa_problem(10, 8);
    ioattn_plan* plan = nullptr;
    const ioattn_status status =
        ioattn_sdpa_plan_create(IOATTN_FORWARD, &problem, nullptr, &options, &plan);
    ioattn_plan_destroy(plan);
    return status;
  };
  const ioattn_status invalid = IOATTN_INVALID_ARGUMENT;
  EXPECT_EQ(refused([](ioattn_options* o) { o->objective = -1; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->objective = 3; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->objective = std::int64_t{1} << 32; }), invalid);
  for (const int rigor : {IOATTN_MEASURE, IOATTN_PATIENT, IOATTN_WISDOM_ONLY}) {
    EXPECT_EQ(refused([&](ioattn_options* o) { o->objective = 1, o->rigor = rigor; }), invalid);
  }
  EXPECT_EQ(refused([](ioattn_options* o) { o->objective = 1, o->cache_level = 2; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->objective = 2, o->cache_level = 3; }), invalid);
  EXPECT_EQ(refused([](ioattn_options* o) { o->objective = 2, o->cache_level = 2; }), IOATTN_OK);
  ioattn::Options options;
  options.objective = IOATTN_WORDS_L1;
  EXPECT_EQ(options.c().objective, IOATTN_WORDS_L1);
}

}  // namespace
}  // namespace ioattn_test
