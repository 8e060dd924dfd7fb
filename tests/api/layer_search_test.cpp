// Searches for plans of the layer problem: what is learned is known, and they end in time.

#include <tuple>

#include "api/layer_wisdom_case.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using LayerSearch = LayerWisdom;

// Of memory that there is but hours of work, or of none, nothing runs.
TEST_F(LayerSearch, SearchesEndInTime) {
  api::RunOptions options;
  options.rigor = wisdom::Rigor::measure;
  options.time_limit_seconds = 1e-6;
  api::LayerSearchReport report;
  ASSERT_OK(api::search_plan<api::LayerKind>(problem, every_gradient, options, nullptr, &report));
  EXPECT_FALSE(report.verdict.is_ok());
  EXPECT_EQ(report.timed.batch, 1);
  EXPECT_EQ(report.candidates[0].made_from, "estimate");
  options.rigor = wisdom::Rigor::patient;  // so that there is time on a machine that is busy, too
  options.time_limit_seconds = 0;
  const auto stop = [](const search::Progress&) { return false; };
  ASSERT_OK(api::search_plan<api::LayerKind>(problem, dx_alone, options, stop, &report));
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.verdict.message.rfind("interrupted (", 0), 0u) << report.verdict.message;
  for (const int log2_n : {20, 21}) {
    LayerProblem large = problem;
    large.shape.n = large.shape.m = index_t(1) << log2_n;
    const Status status =
        api::search_plan<api::LayerKind>(large, dx_alone, options, nullptr, &report);
    ASSERT_OK(status);
    EXPECT_NE(report.verdict.message.find("too long"), std::string::npos);
  }
  EXPECT_EQ(text_of_wisdom(ioattn_wisdom_export_text), to_text(wisdom::Wisdom()));
  options.time_limit_seconds = 0.05;
  // Sizes of 0 cost nothing, and are planned for all the same.
  LayerProblem empty = problem;
  empty.shape.m = 0;
  ASSERT_OK(api::search_plan<api::LayerKind>(empty, dx_alone, options, nullptr, &report));
}

// In other types, with other masks and weights.
TEST_F(LayerSearch, SearchesTakeEveryProblem) {
  api::RunOptions options;
  options.rigor = wisdom::Rigor::measure;
  options.time_limit_seconds = 0.05;
  Set weights = dx_alone;
  weights->dW_Q = weights->dW_K = true;
  weights->dk = 7;
  Set sum = every_gradient;
  sum->dA = true;
  Set in_f32 = every_gradient;
  in_f32->in_f32 = true;
  const Mask causal = window(0, -1, 0);
  const std::tuple<DType, Tie, Mask, const Set*> cases[] = {
      {DType::f64, Tie::none, {}, &weights},    {DType::bf16, Tie::kv, {}, &in_f32},
      {DType::f16, Tie::none, causal, &no_set}, {DType::bf16, Tie::none, {}, &every_gradient},
      {DType::f32, Tie::all, causal, &sum},     {DType::f64, Tie::kv, {}, &sum}};
  for (const auto& [dtype, tie, mask, set] : cases) {
    LayerProblem one = problem;
    one.dtype = dtype;
    one.shape.tie = tie;
    one.shape.mask = mask;
    if (tie == Tie::all) one.shape.m = one.shape.n;
    SCOPED_TRACE(to_text(one));
    api::LayerSearchReport report;
    const Status status = api::search_plan<api::LayerKind>(one, *set, options, nullptr, &report);
    EXPECT_OK(status);
  }
}

TEST_F(LayerSearch, IsLearnedByASearch) {
  ioattn_options options = with_rigor(IOATTN_PATIENT);
  options.time_limit_seconds = 1;
  for (const Set* set : sets) {
    const Json first = describe(*set, &options);
    // A machine that is busy may leave too little time.
    if (first["origin"] == "estimate") continue;
    EXPECT_EQ(first["origin"], "patient");
    const Json second = describe(*set, &options);
    EXPECT_EQ(second["origin"], "wisdom") << "nothing is timed again";
    EXPECT_EQ(second["plan"], first["plan"]);
    EXPECT_EQ(describe(*set)["plan"], first["plan"]);
    bool is_told = false;
    const Json known = explained();
    for (const Json& record : known["records"]) {
      if (record["plan"] != first["plan"]) continue;
      is_told = true;
      EXPECT_EQ(record["code"], "ok") << record["message"];
      EXPECT_EQ(record["rigor"], "patient");
      EXPECT_GT(record["seconds"], 0);
    }
    EXPECT_TRUE(is_told) << known;
  }
}

}  // namespace
}  // namespace ioattn_test
