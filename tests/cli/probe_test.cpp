#include <gtest/gtest.h>

#include "cli/support/command.hpp"
#include "tune/reports/probe_report.hpp"

// `machine --probe`: what is told of points that were measured, and the shape of what the command
// prints; never what it measures here.
namespace {

using namespace ioattn_cli_test;
using namespace ioattn;
using Json = nlohmann::json;

machine::Machine machine_of(index_t L1, index_t L2) {
  machine::Machine machine;
  for (const auto& [level, bytes] : {std::pair(1, L1), std::pair(2, L2)}) {
    machine::CacheLevel cache;
    cache.level = level;
    cache.size_bytes = cache.share_bytes = bytes;
    cache.source = machine::Source::hwloc;
    machine.caches.push_back(cache);
  }
  return machine;
}

// Of a CPU that has 32 KiB and 256 KiB.
std::vector<api::ProbedSize> points() {
  std::vector<api::ProbedSize> list;
  for (const index_t bytes : api::probe_sizes(32 << 10, 1 << 20)) {
    const double seconds = bytes <= 32 << 10 ? 1e-9 : bytes <= 256 << 10 ? 4e-9 : 12e-9;
    list.push_back({bytes, seconds, 1e-10});
  }
  return list;
}

TEST(Probe, AsksForSizesAroundTheCaches) {
  const std::vector<index_t> sizes = api::probe_sizes(32 << 10, 1 << 20);
  EXPECT_EQ(sizes.front(), 4 << 10);
  EXPECT_EQ(sizes.back(), 4 << 20);
  EXPECT_EQ(sizes.size(), 41u);
  for (std::size_t i = 1; i < sizes.size(); ++i) EXPECT_LT(sizes[i - 1], sizes[i]);
  // However small or large the caches are.
  EXPECT_EQ(api::probe_sizes(64, 64), std::vector<index_t>{1 << 10});
  EXPECT_EQ(api::probe_sizes(index_t(1) << 40, index_t(1) << 40), std::vector<index_t>{64 << 20});
}

TEST(Probe, SaysWhatToSetWhereItContradicts) {
  const tune::CacheProbe probe = tune::judged(machine_of(32 << 10, 1 << 20), 2, points());
  const Json json = tune::probe_json(probe);
  EXPECT_EQ(json["points"].size(), points().size());
  EXPECT_EQ(json["caches"][0]["verdict"], "confirmed");
  EXPECT_TRUE(json["caches"][0]["override"].is_null());
  EXPECT_EQ(json["caches"][1]["verdict"], "smaller");
  const index_t found = json["caches"][1]["found_bytes"];
  EXPECT_GT(found, 230 << 10);
  EXPECT_LT(found, 330 << 10);
  const std::string override = "IOATTN_L2=" + std::to_string(found >> 10) + "k";
  EXPECT_EQ(json["caches"][1]["override"], override);
  const std::string text = tune::probe_text(probe);
  EXPECT_NE(text.find("L1: a thread's share is told to be 32.0 KiB (hwloc); times rise at"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("smaller\n    to plan with what was found, set " + override),
            std::string::npos)
      << text;
  // Which the planner then takes.
  const RunResult set =
      run_ioattn({"machine", "--json"}, {{"IOATTN_L2", std::to_string(found >> 10) + "k"}});
  EXPECT_EQ(set.json()["caches"][1]["share_bytes"], (found >> 10) << 10);
}

TEST(Probe, SaysThatItIsUnclear) {
  std::vector<api::ProbedSize> flat = points();
  for (api::ProbedSize& point : flat) point.access_seconds = 1e-9;
  const tune::CacheProbe probe = tune::judged(machine_of(32 << 10, 1 << 20), 2, flat);
  const Json json = tune::probe_json(probe);
  EXPECT_EQ(json["caches"][1]["verdict"], "unclear");
  EXPECT_TRUE(json["caches"][1]["found_bytes"].is_null());
  EXPECT_NE(tune::probe_text(probe).find("L2: a thread's share is told to be 1.00 MiB (hwloc); "
                                         "unclear"),
            std::string::npos);
  // Streams have a say where loads have none.
  for (api::ProbedSize& point : flat)
    if (point.bytes > 1 << 20) point.stream_seconds *= 2;
  EXPECT_EQ(tune::judged(machine_of(32 << 10, 1 << 20), 2, flat).caches[1].verdict,
            search::CacheVerdict::confirmed);
}

TEST(Probe, IsAnOptionOfMachine) {
  // Small, so that it is soon over.
  const Environment small = {{"IOATTN_L1", "4k"}, {"IOATTN_L2", "16k"}};
  const RunResult result = run_ioattn({"machine", "--probe", "--json"}, small);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json probe = result.json()["probe"];
  ASSERT_EQ(probe["points"].size(), 25u);  // from 1 KiB
  for (const Json& point : probe["points"]) {
    EXPECT_GT(point["access_seconds"], 0);
    EXPECT_GT(point["stream_seconds_per_word"], 0);
  }
  ASSERT_EQ(probe["caches"].size(), 2u);
  EXPECT_EQ(probe["caches"][0]["level"], "L1");
  EXPECT_EQ(probe["caches"][1]["told_bytes"], 16 << 10);
  EXPECT_FALSE(run_ioattn({"machine", "--json"}, small).json().contains("probe"));
  EXPECT_NE(run_ioattn({"machine", "--probe"}, small).out.find("a load takes"), std::string::npos);
}

}  // namespace
