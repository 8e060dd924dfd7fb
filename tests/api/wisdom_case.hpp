#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "api/known/sdpa_wisdom.hpp"
#include "api/plan_call.hpp"
#include "api/run/sdpa.hpp"
#include "api/sdpa_call.hpp"
#include "machine/machine.hpp"
#include "plan/sdpa/sdpa_candidates.hpp"
#include "status_ok.hpp"
#include "wisdom/text.hpp"

// A problem and wisdom about it; the process begins and ends each test without any.
namespace ioattn_test {

using namespace ioattn;  // NOLINT: of tests alone
using Json = nlohmann::json;

inline constexpr SdpaSizes sizes = {2, 2, 2, 150, 200, 40, 24};

inline const std::optional<SdpaSet> forward_set;
inline const std::optional<SdpaSet> all_gradients = SdpaSet{true, true, true};

// Of a plan for kernels that this CPU has not.
inline const char* absent_kernels() {
  return machine::this_machine().isa.has(Isa::neon) ? "reg:avx2(6x16)" : "reg:neon(8x8)";
}
inline Json explained() { return Json::parse(text_of_wisdom(ioattn_wisdom_explain)); }

class WithoutWisdom : public testing::Test {
 protected:
  WithoutWisdom() { EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK); }
  ~WithoutWisdom() override { EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK); }

  static wisdom::Record record_of(const std::string& problem, const std::string& plan) {
    wisdom::Record made;
    made.plan = plan;
    made.problem = problem;
    made.seconds = made.estimate_seconds = 0.1;
    made.rounds = 5;
    made.date = "2026-01-01T00:00:00Z";
    return made;
  }
  static void import(const std::string& text) {
    EXPECT_EQ(ioattn_wisdom_import_text(text.c_str()), IOATTN_OK) << ioattn_last_error();
  }
};

class WisdomTest : public WithoutWisdom {
 protected:
  WisdomTest() : call(sizes) {
    problem = {{2, 2, 2, 150, 200, 40, 24, {}}, DType::f32, 0};
    EXPECT_OK(api::sdpa_request(problem, {}, &request));
  }

  // Another plan than the estimate, which is as good as one that was measured.
  plan::SdpaPlan another(const std::optional<SdpaSet>& set) const {
    std::vector<plan::SdpaCandidate> candidates;
    EXPECT_OK(plan::list_candidates(request, set, &candidates));
    for (const plan::SdpaCandidate& near : plan::neighbours(request, set, candidates[0].plan))
      candidates.push_back(near);
    EXPECT_GT(candidates.size(), 1u);
    return candidates.back().plan;
  }
  wisdom::Record record(const std::string& plan) const { return record_of(to_text(problem), plan); }
  std::string document(const std::string& plan, const std::optional<SdpaSet>& set = {},
                       wisdom::Rigor rigor = wisdom::Rigor::measure) const {
    wisdom::Wisdom made;
    wisdom::Record one = record(plan);
    one.rigor = rigor;
    made.keep(api::environment_of(request.tile.isa),
              api::class_of(problem.shape, problem.dtype, set), one);
    return to_text(made);
  }
  static ioattn_status refusal(const std::string& text, const std::string& word) {
    const std::string before = text_of_wisdom(ioattn_wisdom_export_text);
    const ioattn_status status = ioattn_wisdom_import_text(text.c_str());
    EXPECT_NE(std::string(ioattn_last_error()).find(word), std::string::npos)
        << ioattn_last_error();
    EXPECT_EQ(text_of_wisdom(ioattn_wisdom_export_text), before);
    return status;
  }

  Json describe(ioattn_pass pass = IOATTN_FORWARD, const ioattn_options* options = nullptr) const {
    ioattn_plan* plan = nullptr;
    EXPECT_EQ(ioattn_sdpa_plan_create(pass, &call.problem, nullptr, options, &plan), IOATTN_OK)
        << ioattn_last_error();
    return Json::parse(text_of(ioattn_plan_describe, Plan(plan)));
  }
  // What the one-call functions take.
  std::string quick_plan(const std::optional<SdpaSet>& set = {},
                         const api::RunOptions& options = {}) const {
    plan::SdpaPlan plan;
    const Status status = api::plan_sdpa(problem, set, options, &plan);
    EXPECT_OK(status);
    return to_text(plan);
  }

  // Both passes are right, and have the same bits for more threads.
  void expect_results_of_any_threads() {
    const ioattn_options one = with_threads(1);
    ASSERT_EQ(call.forward(&one), IOATTN_OK);
    ASSERT_EQ(call.backward(&one), IOATTN_OK);
    call.expect_forward();
    call.expect_backward();
    const std::vector<float> values = call.values();
    const ioattn_options more = with_threads(4);
    call.poison();
    ASSERT_EQ(call.forward(&more), IOATTN_OK);
    ASSERT_EQ(call.backward(&more), IOATTN_OK);
    EXPECT_TRUE(same_bits(call.values(), values));
  }

  SdpaCall<float> call;
  SdpaProblem problem;
  plan::SdpaRequest request;
};

}  // namespace ioattn_test
