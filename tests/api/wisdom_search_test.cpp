// Searches: what is learned is known, and they end in time.

#include "api/search/sdpa_search.hpp"
#include "api/wisdom_case.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using WisdomSearch = WisdomTest;

TEST_F(WisdomSearch, IsLearnedByASearch) {
  ioattn_options options = with_rigor(IOATTN_MEASURE);
  options.time_limit_seconds = 0.1;
  for (const auto& set : {forward_set, all_gradients}) {
    const ioattn_pass pass = set ? IOATTN_BACKWARD : IOATTN_FORWARD;
    const Json first = describe(pass, &options);
    // A machine that is busy may leave too little time.
    if (first["origin"] == "estimate") continue;
    EXPECT_EQ(first["origin"], "measure");
    const Json second = describe(pass, &options);
    EXPECT_EQ(second["origin"], "wisdom") << "nothing is timed again";
    EXPECT_EQ(second["plan"], first["plan"]);
    EXPECT_EQ(describe(pass)["plan"], first["plan"]);
    EXPECT_EQ(quick_plan(set), first["plan"]);
    const Json record = explained()["records"].back();
    EXPECT_EQ(record["code"], "ok");
    EXPECT_EQ(record["rigor"], "measure");
    EXPECT_GT(record["seconds"], 0);
    EXPECT_GT(record["estimate_seconds"], 0);
  }
  const std::string learned = text_of_wisdom(ioattn_wisdom_export_text);
  EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
  import(learned);
  EXPECT_EQ(text_of_wisdom(ioattn_wisdom_export_text), learned);
  // One call never searches.
  EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
  EXPECT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
  EXPECT_TRUE(explained()["records"].empty());
}

// Or every plan of these options would be searched for, and none would have what was found.
TEST_F(WisdomSearch, ReplacesWhatIsOfNoUseWhateverItsRigor) {
  const std::string absent = "L2:row_stream(form=h,r=64,c=64,rho=32,stored) > ";
  for (const std::string& plan : {std::string("no plan"), absent + absent_kernels()}) {
    EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
    import(document(plan, forward_set, wisdom::Rigor::patient));
    EXPECT_NE(explained()["records"].back()["code"], "ok");
    api::RunOptions options;
    options.rigor = wisdom::Rigor::measure;
    options.time_limit_seconds = 0.2;
    api::SearchReport report;
    ASSERT_OK(api::search_plan<api::SdpaKind>(problem, {}, options, nullptr, &report));
    if (!report.verdict.is_ok()) continue;  // a machine that is busy may leave too little time
    EXPECT_TRUE(report.kept);
    EXPECT_EQ(describe()["plan"], report.record.plan);
    const ioattn_options measure = with_rigor(IOATTN_MEASURE);
    EXPECT_EQ(describe(IOATTN_FORWARD, &measure)["origin"], "wisdom") << "nothing is timed again";
  }
}

TEST_F(WisdomSearch, KeepsWhatHasMoreRigor) {
  const std::string known = to_text(another(forward_set));
  import(document(known, forward_set, wisdom::Rigor::patient));
  api::RunOptions options;
  options.rigor = wisdom::Rigor::measure;
  options.time_limit_seconds = 0.2;
  api::SearchReport report;
  ASSERT_OK(api::search_plan<api::SdpaKind>(problem, {}, options, nullptr, &report));
  EXPECT_FALSE(report.kept);
  EXPECT_EQ(describe()["plan"], known);
}

TEST_F(WisdomSearch, SearchesEndInTime) {
  api::RunOptions options;
  options.rigor = wisdom::Rigor::measure;
  options.time_limit_seconds = 1e-6;
  api::SearchReport report;
  ASSERT_OK(api::search_plan<api::SdpaKind>(problem, all_gradients, options, nullptr, &report));
  EXPECT_FALSE(report.verdict.is_ok());
  EXPECT_EQ(text_of_wisdom(ioattn_wisdom_export_text), to_text(wisdom::Wisdom()));
  EXPECT_EQ(report.timed.shape.batch, 1);
  EXPECT_EQ(report.candidates[0].made_from, "estimate");
  for (std::size_t i = 0; i < report.candidates.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_FALSE(report.candidates[i].plan.blocks == report.candidates[j].plan.blocks &&
                   report.candidates[i].plan.tile.isa == report.candidates[j].plan.tile.isa);
  // Stopped by the caller; with time on a machine that is busy, too.
  options.rigor = wisdom::Rigor::patient;
  options.time_limit_seconds = 0;
  ASSERT_OK(api::search_plan<api::SdpaKind>(
      problem, {}, options, [](const auto&) { return false; }, &report));
  EXPECT_TRUE(report.stopped);
  options.rigor = wisdom::Rigor::measure;
  options.time_limit_seconds = 0.5;
  // Of memory that there is, but hours of work: nothing runs.
  SdpaProblem hours = problem;
  hours.shape.n = hours.shape.m = index_t(1) << 21;
  ASSERT_OK(api::search_plan<api::SdpaKind>(hours, {}, options, nullptr, &report));
  EXPECT_FALSE(report.verdict.is_ok());
  EXPECT_NE(report.verdict.message.find("too long"), std::string::npos);
  // Too large to be timed at all.
  SdpaProblem large = problem;
  large.shape.n = large.shape.m = index_t(1) << 23;
  ASSERT_OK(api::search_plan<api::SdpaKind>(large, {}, options, nullptr, &report));
  EXPECT_FALSE(report.verdict.is_ok());
}

}  // namespace
}  // namespace ioattn_test
