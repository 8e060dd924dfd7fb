// `ioattn measure`.

#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/support/command.hpp"
#include "cli/support/gnuplot.hpp"
#include "cli/support/layer_case.hpp"
#include "cli/support/temporary_directory.hpp"
#include "cli/support/text.hpp"

namespace {

using namespace ioattn_cli_test;
using Json = nlohmann::json;

// Of one instruction set: how far a cache is from the count depends on the shape of the tiles.
const Environment caches = {
    {"IOATTN_L1", "16384"}, {"IOATTN_L2", "98304"}, {"IOATTN_ISA", "scalar"}};
const Arguments small = {"measure", "--n", "256", "--d", "32"};

Json done(const Arguments& arguments) {
  const RunResult result = run_ioattn(arguments + Arguments{"--json"}, caches);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");  // no progress where nobody looks
  return result.json();
}

TEST(MeasureCommand, HoldsSimulatedCachesAgainstTheCount) {
  const Json json = done(small + Arguments{"--simulate"});
  ASSERT_EQ(json["levels"].size(), 2u);
  for (const Json& level : json["levels"]) {
    SCOPED_TRACE(level.dump(1));
    const Json& counted = level["counted"];
    EXPECT_EQ(level["formula"], counted["reads"].get<long>() + counted["writes"].get<long>());
    EXPECT_GE(level["formula"], level["compulsory"]);
    EXPECT_LE(counted["footprint"], level["M"]);
    const Json& lru = level["measured"]["lru"];
    const Json& opt = level["measured"]["opt"];
    EXPECT_LE(opt["in"], lru["in"]);
    EXPECT_GT(lru["in_ratio"], 0.5);
    EXPECT_LE(lru["in_ratio"], 1.5);
    EXPECT_LE(lru["out_ratio"], 1.5);
    const double expected = counted["reads"].get<double>() + level["created_memory"].get<double>();
    EXPECT_NEAR(lru["in"].get<double>() / lru["in_ratio"].get<double>(), expected, 1e-6 * expected);
    EXPECT_GT(level["accesses"], 1000);
  }
  EXPECT_EQ(json["levels"][0]["level"], "L1");
  EXPECT_EQ(json["levels"][0]["M"], 2048);  // half of 16384 bytes
  EXPECT_EQ(json["levels"][0]["capacity_bytes"], 16384);
  EXPECT_EQ(json["levels"][1]["M"], 18432);  // three quarters of 98304
  EXPECT_FALSE(json["levels"][0]["measured"].contains("behind_first"));
  EXPECT_TRUE(json["levels"][1]["measured"].contains("behind_first"));
}

// Of fewer lines than ways, too, no cache of as many lines has fewer fills than OPT.
TEST(MeasureCommand, SimulatesCachesOfTheSizeThatIsTold) {
  const RunResult result = run_ioattn({"measure", "--problem", "layer:n32,d4", "--level", "L1",
                                       "--sweep-M", "24,100,190", "--simulate", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = result.json();
  ASSERT_EQ(json["sweep"].size(), 3u);
  for (const Json& one : json["sweep"]) {
    SCOPED_TRACE(one.dump(1));
    const Json& measured = one["measured"];
    for (const char* by_ways : {"set_lru", "set_plru"}) {
      if (measured[by_ways]["in"].is_number()) {
        EXPECT_LE(measured["opt"]["in"], measured[by_ways]["in"]) << by_ways;
      }
    }
  }
}

// Nobody knows the ways of a first level of another size.
TEST(MeasureCommand, SimulatesNoFirstLevelOfUnknownWays) {
  const RunResult result =
      run_ioattn({"measure", "--problem", "layer:n32,d4", "--level", "L2", "--simulate", "--json"},
                 {{"IOATTN_L1", "32k"}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json behind = result.json()["levels"][0]["measured"]["behind_first"];
  EXPECT_FALSE(behind.contains("in")) << behind.dump();
  EXPECT_TRUE(behind["reason"].is_string()) << behind.dump();
}

// Through f32, and in products of pairs.
TEST(MeasureCommand, SimulatesSixteenBits) {
  for (const char* isa : {"scalar", "emulated_bf16", "emulated_amx"}) {
    for (const std::string dtype : {"bf16", "f16"}) {
      SCOPED_TRACE(isa + (" " + dtype));
      Environment environment = caches;
      environment.back().second = isa;
      const RunResult result = run_ioattn(
          {"measure", "--problem", "sdpa:n200,d32," + dtype, "--simulate", "--json"}, environment);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const Json levels = result.json()["levels"];
      ASSERT_EQ(levels.size(), 2u);
      EXPECT_EQ(levels[1]["M"], 36864);  // words of 2 bytes
      for (const Json& level : levels) {
        const Json& counted = level["counted"];
        EXPECT_EQ(level["formula"], counted["reads"].get<long>() + counted["writes"].get<long>());
        EXPECT_LE(counted["footprint"], level["M"]);
        const Json& lru = level["measured"]["lru"];
        // Nothing that has to move goes unseen: Q, K, V, dO and O once, in 2 bytes.
        EXPECT_GE(lru["in"], 5 * 200 * 32);
        EXPECT_GE(lru["out"], 3 * 200 * 32);
        EXPECT_LE(level["measured"]["opt"]["in"], lru["in"]);
      }
    }
  }
}

TEST(MeasureCommand, HasAPlanForEachObjectiveOfALevel) {
  const Json levels = done(small + Arguments{"--objective", "time,words@L2"})["levels"];
  ASSERT_EQ(levels.size(), 3u);
  const char* const expected[][2] = {{"L1", "time"}, {"L2", "time"}, {"L2", "words@L2"}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(levels[i]["level"], expected[i][0]);
    EXPECT_EQ(levels[i]["objective"], expected[i][1]);
  }
  EXPECT_EQ(levels[1]["M"], levels[2]["M"]);
  EXPECT_LE(levels[2]["formula"], levels[1]["formula"]);
  EXPECT_EQ(run_ioattn(small + Arguments{"--objective", "words"}, caches).exit_code, 2);
}

// Rows of the layer problem that L1 is too small for say so; those of L2 are measured.
TEST(MeasureCommand, LeavesOutLevelsThatNothingFits) {
  const Arguments deep = {"measure", "--problem", "layer:n40,d1000,bf16", "--pass", "forward"};
  const Json json = done(deep);
  ASSERT_EQ(json["levels"].size(), 1u);
  EXPECT_EQ(json["levels"][0]["level"], "L2");
  ASSERT_EQ(json["too_small"].size(), 1u);
  EXPECT_EQ(json["too_small"][0]["level"], "L1");
  EXPECT_TRUE(contains(json["too_small"][0]["reason"], "the least is"));
  EXPECT_TRUE(contains(run_ioattn(deep, caches).out, "\nL1, for time: no plan: M = 4096 words"));
  EXPECT_EQ(done(small)["too_small"].size(), 0u);
  const RunResult none = run_ioattn(deep + Arguments{"--level", "L1"}, caches);
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(none.err)) << none.err;
  // SDPA has score tiles for any depth.
  EXPECT_EQ(done({"measure", "--problem", "sdpa:n40,d1000", "--level", "L1"})["levels"].size(), 1u);
}

TEST(MeasureCommand, TracesThreadsApart) {
  const Json json = done(
      {"measure", "--problem", "sdpa:n256,d32", "--level", "L2", "--simulate", "--threads", "2"});
  const Json& level = json["levels"][0];
  ASSERT_EQ(level["threads"].size(), 2u);
  double in = 0;
  long accesses = 0;
  for (const Json& thread : level["threads"]) {
    in += thread["lru"]["in"].get<double>();
    accesses += thread["accesses"].get<long>();
  }
  EXPECT_EQ(in, level["measured"]["lru"]["in"].get<double>());
  EXPECT_EQ(accesses, level["accesses"].get<long>());
}

TEST(PlanCommand, TellsTheObjective) {
  const Arguments plan = {"plan", "--problem", "sdpa:n256,d64", "--objective", "words@L1"};
  const Json json = done(plan + Arguments{"--explain"});
  EXPECT_EQ(json["objective"], "words@L1");
  EXPECT_EQ(json["level"], "L1");
  for (const Json& candidate : json["candidates"]) EXPECT_LE(json["words"], candidate["words"]);
  const Json layer = done({"plan", "--n", "256", "--d", "64", "--objective", "words@L2"});
  EXPECT_EQ(layer["objective"], "words@L2");
  EXPECT_EQ(layer["levels"][0]["level"], "L1");
  EXPECT_EQ(run_ioattn(plan + Arguments{"--level", "L2"}, caches).exit_code, 2);
  EXPECT_EQ(run_ioattn(plan + Arguments{"--level", "L1"}, caches).exit_code, 0);
}

TEST(MeasureCommand, CountsAloneUnlessToldToSimulate) {
  const Json json = done(small + Arguments{"--level", "L2"});
  ASSERT_EQ(json["levels"].size(), 1u);
  EXPECT_FALSE(json["levels"][0].contains("measured"));
  EXPECT_EQ(json["levels"][0]["accesses"], 0);
}

TEST(MeasureCommand, Sweeps) {
  const Json json = done(small + Arguments{"--simulate", "--sweep-M", "600:9600:3"});
  ASSERT_EQ(json["sweep"].size(), 3u);
  const int expected[] = {600, 2400, 9600};
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& one = json["sweep"][i];
    EXPECT_EQ(one["M"], expected[i]);
    EXPECT_EQ(one["capacity_bytes"], expected[i] * 4 * 4 / 3);
    if (i > 0) {
      EXPECT_LT(one["formula"], json["sweep"][i - 1]["formula"]);
    }
  }
  // A cache no larger than the machine's L1 is behind none.
  EXPECT_FALSE(json["sweep"][0]["measured"].contains("behind_first"));
  EXPECT_TRUE(json["sweep"][2]["measured"].contains("behind_first"));
  EXPECT_EQ(done(small + Arguments{"--sweep-M", "900,600"})["sweep"][0]["M"], 600);
}

// The smallest cache has fewer lines than the level has ways: heads say nothing of the first row
// alone.
TEST(MeasureCommand, HeadsColumnsForEveryCacheOfASweep) {
  const RunResult result = run_ioattn({"measure", "--problem", "layer:n32,d4", "--level", "L1",
                                       "--sweep-M", "24,190", "--simulate"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::size_t table = result.out.rfind("\n  M  ");
  ASSERT_NE(table, std::string::npos) << result.out;
  const std::string heads = result.out.substr(table + 1, result.out.find('\n', table + 1) - table);
  EXPECT_TRUE(contains(heads, "by ways LRU") && contains(heads, "by ways tree-PLRU")) << heads;

  // Where only later rows have a first level its column is there, with none in the first row.
  const RunResult two =
      run_ioattn(small + Arguments{"--simulate", "--sweep-M", "600,9600"}, caches);
  EXPECT_TRUE(contains(two.out.substr(two.out.rfind("\n  M  ")), "by ways behind L1")) << two.out;
}

TEST(MeasureCommand, TakesSdpaAndFiles) {
  const Json json = done({"measure", "--problem", "sdpa:h2,n48,d16,causal", "--simulate"});
  EXPECT_EQ(json["pass"], "backward");
  EXPECT_LT(json["levels"][1]["measured"]["lru"]["in_ratio"], 1.2);
  const Json forward = done({"measure", "--problem", "sdpa:n48,d16", "--pass", "forward"});
  EXPECT_EQ(forward["pass"], "forward");

  LayerCase layer;
  make_layer_case({24, 20, 12, 8}, ioattn_reference::Ties::none, "f32", 1, &layer);
  Arguments arguments = layer.grad();  // grad ... --out DIR
  arguments.front() = "measure";
  arguments.resize(arguments.size() - 2);
  const Json files = done(arguments + Arguments{"--simulate"});
  EXPECT_EQ(files["problem"], "layer:n24,m20,d12,v8,f32");
}

// Where a mask hides the same last keys from every query a forward pass leaves them out, and counts
// and their formula have no mask. A count that is not its formula is an internal error.
TEST(MeasureCommand, CountsKeysThatEveryQuerySees) {
  const auto count = [](const char* problem, const char* M) {
    return done({"measure", "--problem", problem, "--pass", "forward", "--sweep-M", M});
  };
  count("sdpa:n8,m64,d512,f32,keys*:20", "4096");
  count("sdpa:n1,m512,d64,f32,causal-bottom-right", "60");
  count("sdpa:n1,m512,d64,bf16,causal-bottom-right", "260");
  count("sdpa:h4,kv2,n8,m64,d512,f32,keys*:20", "4096");
}

TEST(MeasureCommand, WritesOneFileWithAPlot) {
  IOATTN_SKIP_WITHOUT_GNUPLOT();
  const TemporaryDirectory directory;
  const std::string path = directory / "measure.html";
  done(small + Arguments{"--simulate", "--sweep-M", "600,2400", "--html", path});
  const std::string html = read_file(path);
  for (const char* part : {"<svg", "</svg>", "lower bound", "closed formula", "OPT", "</html>"}) {
    EXPECT_TRUE(contains(html, part)) << part;
  }
  EXPECT_FALSE(contains(html, "<script"));
  EXPECT_FALSE(contains(html, "src="));
  const RunResult nowhere =
      run_ioattn(small + Arguments{"--html", directory / "none/measure.html"}, caches);
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_TRUE(is_one_error_line(nowhere.err)) << nowhere.err;
}

// Counted or not: the page has what the report has. Nanoseconds, which need no PMU, stand for
// lines.
TEST(MeasureCommand, WritesTheCountersIntoThePage) {
  IOATTN_SKIP_WITHOUT_GNUPLOT();
  const TemporaryDirectory directory;
  const std::string path = directory / "measure.html", events = directory / "events";
  write_file(events,
             "cpu: made up\nevent: A\nkernel: task-clock\n  Nanoseconds.\n"
             "quantity: L1 fills\nformula: A\nquantity: L2 fills\n  None.\n");
  const Json levels =
      done(small + Arguments{"--perf", "--events", events, "--html", path})["levels"];
  const std::string html = read_file(path);
  EXPECT_TRUE(contains(html, "\nhardware, events of made up")) << html;
  const std::string svg = html.substr(0, html.find("</svg>"));
  ASSERT_EQ(levels.size(), 2u);
  for (const Json& level : levels) {
    const bool counted = !level["hardware"]["fills"]["lines"].is_null();
    const std::string marker = "hardware, fills only, " + level["level"].get<std::string>();
    EXPECT_EQ(contains(svg, marker), counted) << level;
  }
}

TEST(MeasureCommand, SaysThatThereIsNoGnuplot) {
  const RunResult result =
      run_ioattn(small + Arguments{"--html", "x.html"}, {{"PATH", "/nowhere"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
  EXPECT_TRUE(contains(result.err, "gnuplot-nox")) << result.err;
}

TEST(MeasureCommand, RefusesWhatItCannotMeasure) {
  const Arguments wrong[] = {
      {"measure"},
      {"measure", "--n", "8"},
      {"measure", "--n", "8", "--d", "4", "--level", "L4"},
      {"measure", "--n", "8", "--d", "4", "--level", ""},
      {"measure", "--n", "8", "--d", "4", "--sweep-M", "0"},
      {"measure", "--n", "8", "--d", "4", "--sweep-M", "9:3:2"},
      {"measure", "--n", "8", "--d", "4", "--sweep-M", "3:9"},
      {"measure", "--n", "8", "--d", "4", "--sweep-M", "3"},  // too small for any schedule
      {"measure", "--problem", "sdpa:n8,d4,bias1x1"},
      {"measure", "--problem", "sdpa:n8,d4", "--schedule", "naive"},
      {"measure", "--problem", "layer:n8,d4,b2"},
      {"measure", "--A1", "nowhere.npy"},
  };
  for (const Arguments& arguments : wrong) {
    const RunResult result = run_ioattn(arguments, caches);
    EXPECT_EQ(result.exit_code, 2) << arguments.back() << result.err;
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
  }
}

}  // namespace
