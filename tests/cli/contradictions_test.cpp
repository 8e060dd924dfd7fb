// Options that contradict each other, or say nothing where they stand, are refused: nothing that
// was asked for is left out in silence.
#include <gtest/gtest.h>

#include "cli/support/command.hpp"
#include "cli/support/temporary_directory.hpp"

namespace {

using namespace ioattn_cli_test;

struct Line {
  Arguments arguments;
  const char* says;
};

void expect_refused(const std::vector<Line>& lines) {
  for (const Line& line : lines) {
    SCOPED_TRACE(testing::PrintToString(line.arguments));
    const RunResult result = run_ioattn(line.arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
    EXPECT_NE(result.err.find(line.says), std::string::npos)
        << result.err << "does not say: " << line.says;
  }
}

TEST(Contradictions, OfMeasure) {
  const Arguments text = {"measure", "--problem", "layer:n16,d8"},
                  sizes = {"measure", "--n", "16", "--d", "8"},
                  files = {"measure", "--A1", "a.npy", "--X", "x.npy", "--Y", "y.npy"},
                  command = {"--", "true"};
  expect_refused({
      {text + Arguments{"--X", "x.npy"}, "--X"},
      {files + Arguments{"--problem", "layer:n16,d8"}, "--problem"},
      {files + Arguments{"--n", "16"}, "--n"},
      {sizes + Arguments{"--dO", "do.npy"}, "--dO"},
      {{"measure", "--X", "x.npy"}, "--A1, --X and --Y"},
      {{"measure", "--A2", "a.npy"}, "--A1, --X and --Y"},
      {Arguments{"measure", "--html", "x.html"} + command, "--html is of a problem"},
      {Arguments{"measure", "--simulate"} + command, "--simulate is of a problem"},
      {Arguments{"measure", "--level", "L1"} + command, "--level is of a problem"},
      {Arguments{"measure", "--pass", "forward"} + command, "--pass is of a problem"},
      {{"measure", "--proof", "--simulate"}, "--simulate is of a problem"},
      {{"measure", "--proof", "--html", "x.html"}, "--html is of a problem"},
      {{"measure", "--show-events", "--sweep-M", "600"}, "--sweep-M is of a problem"},
      {text + Arguments{"--threads", "2"}, "--simulate"},
      {text + Arguments{"--level", "L2", "--objective", "words@L1"}, "--objective words@L1"},
      {text + Arguments{"--level", "L1", "--objective", "time,words@L1", "--sweep-M", "600"},
       "one objective"},
      {text + Arguments{"--event", "page-faults"}, "--perf"},
      {{"measure", "--proof", "--event", "page-faults"}, "--perf"},
      {text + Arguments{"--record", "x"}, "--perf"},
      {text + Arguments{"--events", "x"}, "--perf"},
  });
}

TEST(Contradictions, OfOtherCommands) {
  const Arguments dry_run = {"tune", "--dry-run", "--problem", "layer:n8,d8"};
  expect_refused({
      {{"bounds", "--M", "64", "--sparse", "a.mtx", "--linear"}, "--linear"},
      {{"plan", "--problem", "sdpa:n8,d8", "--literal"}, "paper_large"},
      {{"plan", "--problem", "sdpa:n8,d8", "--literal", "--schedule", "paper_large"},
       "not paper_large"},
      {{"tune", "--gradients", "dX"}, "--problem or --shapes is required for --gradients"},
      {{"tune", "--pass", "forward"}, "--problem or --shapes is required for --pass"},
      {{"tune", "--rigor", "patient"}, "--problem or --shapes is required for --rigor"},
      {{"tune", "--time-limit", "1"}, "--problem or --shapes is required for --time-limit"},
      {{"tune", "--problem", "layer:n8,d8", "--pass", "forward", "--gradients", "dX"}, "backward"},
      {dry_run + Arguments{"--again"}, "--again"},
      {dry_run + Arguments{"--file", "x"}, "--file"},
      {dry_run + Arguments{"--time-limit", "1"}, "--time-limit"},
      {{"sdpa", "--Q", "q", "--K", "k", "--V", "v", "--out", "o", "--f32-gradients"}, "--dO"},
      {{"grad", "--A1", "a", "--X", "x", "--Y", "y", "--out", "o", "--outputs", "O",
        "--f32-gradients"},
       "--outputs has none"},
  });
}

// Twice the same is once.
TEST(Contradictions, ListsHaveNoDuplicates) {
  const RunResult result = run_ioattn({"measure", "--problem", "layer:n32,d8", "--level", "L2,L2",
                                       "--objective", "time,words@L2,time,words@L2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto levels = result.json()["levels"];
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0]["objective"], "time");
  EXPECT_EQ(levels[1]["objective"], "words@L2");
}

// What plan takes measure takes.
TEST(Contradictions, SdpaIsOfOneSchedule) {
  for (const Arguments& command : {Arguments{"plan"}, {"measure", "--level", "L2"}}) {
    const Arguments of = command + Arguments{"--problem", "sdpa:n16,d8", "--schedule"};
    EXPECT_EQ(run_ioattn(of + Arguments{"row_stream"}).exit_code, 0) << command.front();
    expect_refused({{of + Arguments{"naive"}, "not naive"}});
  }
}

TEST(Contradictions, MasksShowSomeKey) {
  for (const char* problem : {"sdpa:n64,d8,keys100:200", "layer:n64,d8,keys100:200"}) {
    for (const Arguments& command :
         {Arguments{"plan"}, {"bounds", "--M", "64"}, {"measure"}, {"tune", "--dry-run"}}) {
      expect_refused({{command + Arguments{"--problem", problem}, "the mask hides every key"}});
    }
  }
}

TEST(Contradictions, SizesOfProblemsAreAtLeast1) {
  for (const char* sizes : {"sdpa:n0,d8", "sdpa:n8,m0,d8", "sdpa:b0,n8,d8", "sdpa:h0,kv1,n8,d8",
                            "sdpa:n8,d8,v0", "sdpa:n8,d0", "layer:n0,d8", "layer:n8,d8,v0",
                            "layer:n8,d0", "layer:n8,m0,d8", "layer:n8,d8,b0"}) {
    const std::string problem = sizes;
    const char* says = problem == "layer:n8,d8,b0" ? "below 1" : "at least 1";
    expect_refused({{{"plan", "--problem", problem}, says},
                    {{"tune", "--dry-run", "--problem", problem}, says},
                    {{"bounds", "--M", "64", "--problem", problem}, says},
                    {{"measure", "--problem", problem}, "1"}});
  }
}

}  // namespace
