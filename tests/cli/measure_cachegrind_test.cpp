// `ioattn measure --cachegrind`: with Valgrind, with what stands in for it, and without.

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/support/command.hpp"
#include "cli/support/temporary_directory.hpp"
#include "cli/support/text.hpp"

namespace {

using namespace ioattn_cli_test;
using Json = nlohmann::json;

const Environment caches = {{"IOATTN_L1", "16384"}, {"IOATTN_L2", "98304"}};
const Arguments watched = {"measure", "--problem", "sdpa:n96,d32", "--cachegrind"};

// Runs the rest of its command line, and prints what Cachegrind would if a pass cost 1000 lines of
// L1 and 70 of L2, and all else 5000 and 500.
constexpr const char* fake_valgrind = R"sh(#!/bin/sh
while case $1 in --*) true ;; *) false ;; esac; do shift; done
for passes; do :; done
"$@" || exit $?
echo "==7== D1  misses:  $((5 + passes)),000  (  1 rd + 2 wr)" >&2
echo "==7== LLd misses:  $((500 + 70 * passes))  (  1 rd + 2 wr)" >&2
)sh";

class FakeValgrind {
 public:
  explicit FakeValgrind(const std::string& end = "exit 0") {
    write_file(directory_ / "valgrind", fake_valgrind + end + "\n");
    std::filesystem::permissions(directory_ / "valgrind", std::filesystem::perms::owner_all);
  }
  RunResult run(const Arguments& arguments, const Environment& more = {}) const {
    Environment environment = caches;
    environment.insert(environment.end(), more.begin(), more.end());
    environment.emplace_back("PATH", directory_.path());
    return run_ioattn(arguments, environment);
  }

 private:
  TemporaryDirectory directory_;
};

TEST(MeasureCachegrind, TakesThePassFromTwoRunsOfCachegrind) {
  const FakeValgrind valgrind;
  const RunResult result = valgrind.run(watched + Arguments{"--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json levels = result.json()["levels"];
  ASSERT_EQ(levels.size(), 2u);
  const int lines[] = {1000, 70};
  for (std::size_t i = 0; i < 2; ++i) {
    SCOPED_TRACE(levels[i].dump(1));
    const Json& line = levels[i]["measured"]["cachegrind"];
    const int line_bytes = levels[i]["line_bytes"].get<int>();
    EXPECT_EQ(line["in"], lines[i] * line_bytes / 4);
    EXPECT_GT(line["in_ratio"], 0.0);
    EXPECT_TRUE(line["out"].is_null());  // which Cachegrind does not count
    EXPECT_TRUE(line["out_ratio"].is_null());
    const Json& seen = levels[i]["cachegrind"];
    EXPECT_TRUE(seen["reason"].is_null());
    EXPECT_TRUE(contains(levels[i]["plan"], "reg:" + seen["isa"].get<std::string>() + "("));
    EXPECT_FALSE(contains(seen["isa"], "avx512"));
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_EQ(seen["caches"][k]["lines"], lines[k]);
      EXPECT_EQ(seen["caches"][k]["bytes"], k == 0 ? 16384 : 98304);
      EXPECT_TRUE(seen["caches"][k]["rounded_from"].is_string());  // nobody told the ways
    }
  }
  const std::string text = valgrind.run(watched).out;
  EXPECT_TRUE(contains(text, "not counted")) << text;
  EXPECT_TRUE(contains(text, "L1: 1,000 lines, ")) << text;
  EXPECT_TRUE(contains(text, "L2: 70 lines, ")) << text;
  EXPECT_TRUE(contains(text, "(as Valgrind takes it, of 16,384 bytes, ways unknown")) << text;
}

TEST(MeasureCachegrind, KnowsNoThirdLevel) {
  const FakeValgrind valgrind;
  const RunResult result =
      valgrind.run(watched + Arguments{"--level", "L3", "--json"}, {{"IOATTN_L3", "1M"}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json level = result.json()["levels"][0];
  EXPECT_TRUE(contains(level["measured"]["cachegrind"]["reason"], "two levels")) << level;
  EXPECT_EQ(level["cachegrind"]["caches"][1]["lines"], 70);
}

TEST(MeasureCachegrind, SaysWhyThereIsNoCachegrind) {
  Environment nowhere = caches;
  nowhere.emplace_back("PATH", "/nowhere");
  Environment nowhere_to_write = caches;
  nowhere_to_write.emplace_back("TMPDIR", "/nowhere");
  const std::pair<RunResult, const char*> cases[] = {
      {run_ioattn(watched + Arguments{"--json"}, nowhere_to_write), "TMPDIR"},
      {run_ioattn(watched + Arguments{"--json"}, nowhere), "not installed"},
      {FakeValgrind("echo '--7-- a warning'; echo 'it broke' >&2; exit 1")
           .run(watched + Arguments{"--json"}),
       "it broke"},
  };
  for (const auto& [result, why] : cases) {
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json levels = result.json()["levels"];
    ASSERT_EQ(levels.size(), 2u);
    for (const Json& level : levels) {
      EXPECT_TRUE(contains(level["cachegrind"]["reason"], why)) << level;
      EXPECT_TRUE(level["cachegrind"]["caches"][0]["lines"].is_null());
      EXPECT_FALSE(level["measured"]["cachegrind"].contains("in"));
    }
  }
  EXPECT_TRUE(contains(run_ioattn(watched, nowhere).out, "unavailable: Valgrind is not installed"));
  const RunResult swept = run_ioattn(watched + Arguments{"--sweep-M", "600,900"}, nowhere);
  EXPECT_EQ(swept.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(swept.err)) << swept.err;
}

// The program itself, in caches of the size that the traces go through.
TEST(MeasureCachegrind, HoldsCachegrindAgainstTheTrace) {
  const RunResult found =
      run_ioattn({"--version"}, {}, "command -v valgrind >/dev/null || exit 99");
  if (found.exit_code == 99) GTEST_SKIP() << "no Valgrind";
  Environment environment = caches;
  environment.emplace_back("VALGRIND_OPTS", "--quiet");  // for other uses of it
  const RunResult result = run_ioattn(watched + Arguments{"--simulate", "--json"}, environment);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json levels = result.json()["levels"];
  ASSERT_EQ(levels.size(), 2u);
  for (const Json& level : levels) {
    SCOPED_TRACE(level.dump(1));
    const Json& seen = level["cachegrind"];
    // A sanitizer's program, or a CPU that Valgrind does not know.
    if (seen["reason"].is_string()) GTEST_SKIP() << seen["reason"];
    const double ratio = level["measured"]["cachegrind"]["in"].get<double>() /
                         level["measured"]["lru"]["in"].get<double>();
    EXPECT_GT(ratio, 0.8);
    EXPECT_LT(ratio, level["level"] == "L1" ? 4 : 2);  // few ways, and the stack
  }
}

}  // namespace
