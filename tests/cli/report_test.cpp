#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cli/support/layer_case.hpp"
#include "cli/support/text.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"
#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"
#include "tune/text/table.hpp"

// `machine`, `bounds` and `plan`.
namespace {

using namespace ioattn_cli_test;
using Json = nlohmann::json;

RunResult done(const Arguments& arguments, const Environment& environment = {}) {
  RunResult result = run_ioattn(arguments, environment);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result;
}

// Those of whoever runs the tests have no part in what the command does.
TEST(Variables, OfTheTestAloneReachTheCommand) {
  const std::pair<const char*, const char*> foreign[] = {{"IOATTN_WISDOM", "/nowhere/wisdom"},
                                                         {"IOATTN_L1", "1k"},
                                                         {"OMP_NUM_THREADS", "1"},
                                                         {"OMP_PROC_BIND", "true"},
                                                         {"HWLOC_COMPONENTS", "-x86,-linux"}};
  const Json machine = done({"machine", "--json"}).json();
  std::map<std::string, std::optional<std::string>> before;
  for (const auto& [name, value] : foreign) {
    const char* const old = std::getenv(name);
    before[name] = old == nullptr ? std::nullopt : std::optional<std::string>(old);
    setenv(name, value, 1);
  }
  const Json same_machine = done({"machine", "--json"}).json();
  const Json wisdom = done({"wisdom", "explain", "--json"}).json();
  const Json given =
      done({"wisdom", "explain", "--json"}, {{"IOATTN_WISDOM", "/elsewhere"}}).json();
  for (const auto& [name, value] : before) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
  EXPECT_EQ(same_machine, machine);
  EXPECT_EQ(wisdom["off"], true);
  EXPECT_EQ(given["file"], "/elsewhere");
}

TEST(MachineCommand, SaysWhatWasFound) {
  const Environment environment = {{"IOATTN_L1", "16384"}, {"IOATTN_L2", "1m"}};
  const Json json = done({"machine", "--json"}, environment).json();
  const Json& l1 = json["caches"][0];
  EXPECT_EQ(l1["level"], "L1");
  EXPECT_EQ(l1["size_bytes"], 16384);
  EXPECT_EQ(l1["source"], "override");
  EXPECT_EQ(l1["M"]["f32"], 2048);  // x 0.5 / 4
  EXPECT_EQ(l1["M"]["f64"], 1024);
  const Json& l2 = json["caches"][1];
  EXPECT_EQ(l2["M"]["f32"], 196608);  // x 0.75 / 4
  EXPECT_EQ(l2["fraction"], 0.75);
  EXPECT_GE(json["usable_threads"], 1);
  EXPECT_NE(std::find(json["isa"].begin(), json["isa"].end(), "scalar"), json["isa"].end());
  EXPECT_NE(std::find(json["isa"].begin(), json["isa"].end(), json["selected_isa"]),
            json["isa"].end());
  for (const char* key : {"vendor", "model", "virtual_machine", "allowed_cpus", "cpus_source",
                          "cpu_quota", "quota_source", "notes"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }

  const std::string text = done({"machine"}, environment).out;
  EXPECT_TRUE(contains(text, "196,608")) << text;
  EXPECT_TRUE(contains(text, "override"));
  for (const Json& note : json["notes"]) EXPECT_TRUE(contains(text, note.get<std::string>()));
}

TEST(MachineCommand, ObeysTheIsaOverride) {
  const Environment environment = {{"IOATTN_ISA", "scalar"}};
  EXPECT_EQ(done({"machine", "--json"}, environment).json()["selected_isa"], "scalar");
  EXPECT_TRUE(contains(done({"machine"}, environment).out, "kernels: scalar"));
}

// Granted, and then used, or none, and why.
TEST(MachineCommand, TellsOfTiles) {
  const Json json = done({"machine", "--json"}).json();
  const std::string text = done({"machine"}).out;
  if (json["no_tiles"].is_null()) {
    EXPECT_EQ(json["selected_isa"], "avx512_amx");
    EXPECT_TRUE(contains(text, "AMX tiles: granted by the kernel\n")) << text;
  } else {
    EXPECT_NE(json["selected_isa"], "avx512_amx");
    EXPECT_TRUE(contains(text, "AMX tiles: none, " + json["no_tiles"].get<std::string>() + "\n"))
        << text;
  }
  const Environment scalar = {{"IOATTN_ISA", "scalar"}};
  EXPECT_FALSE(done({"machine", "--json"}, scalar).json()["no_tiles"].is_null());
  EXPECT_TRUE(contains(done({"machine"}, scalar).out, "AMX tiles: none, "));
}

struct BoundsCase {
  const char* n;
  const char* m;
  const char* d;
  const char* dv;
  const char* tie;
  const char* M;
};

TEST(BoundsCommand, ReportsTheBestBoundOfEachClass) {
  int fewer = 0;  // schedules whose blocks move more than single words would
  const BoundsCase cases[] = {
      {"4096", "4096", "64", "64", "none", "1000"},    {"4096", "4096", "64", "64", "all", "1000"},
      {"4096", "2048", "64", "64", "kv", "40000"},     {"512", "512", "385", "32", "all", "98304"},
      {"4096", "4096", "64", "128", "none", "100000"}, {"3", "5", "2", "1", "none", "9"}};
  for (const BoundsCase& c : cases) {
    SCOPED_TRACE(std::string(c.n) + " " + c.m + " " + c.d + " " + c.dv + " " + c.tie + " " + c.M);
    const Arguments arguments = {"bounds", "--n", c.n,     "--m", c.m,   "--d", c.d,
                                 "--dv",   c.dv,  "--tie", c.tie, "--M", c.M};
    const Json json = done(arguments + Arguments{"--json"}).json();
    const std::string text = done(arguments).out;
    ioattn::LayerShape shape = {std::stol(c.n), std::stol(c.m), std::stol(c.d), std::stol(c.dv),
                                ioattn::Tie::none};
    if (std::string(c.tie) == "kv") shape.tie = ioattn::Tie::kv;
    if (std::string(c.tie) == "all") shape.tie = ioattn::Tie::all;
    const long M = std::stol(c.M);
    EXPECT_EQ(json["tie"], c.tie);
    EXPECT_EQ(json["paper_formula"], ioattn::theory::paper_formula(shape, M));
    EXPECT_EQ(json["regime"], M >= shape.d * shape.d ? "large cache" : "small cache");
    ASSERT_EQ(json["passes"].size(), 2u);
    for (const Json& pass : json["passes"]) {
      const ioattn::Pass which =
          pass["pass"] == "forward" ? ioattn::Pass::forward : ioattn::Pass::backward;
      ASSERT_EQ(pass["classes"].size(), 2u);
      for (const Json& entry : pass["classes"]) {
        const auto algorithms = entry["class"] == "P" ? ioattn::theory::AlgorithmClass::P
                                                      : ioattn::theory::AlgorithmClass::F;
        double best = 0;
        for (const Json& bound : entry["bounds"]) best = std::max(best, bound.get<double>());
        EXPECT_EQ(entry["lower_bound"], best);
        EXPECT_EQ(entry["bounds"][entry["bound"].get<std::string>()], best);
        EXPECT_EQ(entry["lower_bound"],
                  ioattn::theory::lower_bound(which, algorithms, shape, M).words);
        EXPECT_FALSE(entry["assumption"].get<std::string>().empty());
        EXPECT_TRUE(contains(text, ioattn::tune::grouped(best)));
      }
      EXPECT_GE(pass["classes"][1]["lower_bound"], pass["classes"][0]["lower_bound"]);
      int compared = 0;
      std::set<std::string> names;
      for (const Json& schedule : pass["schedules"]) {
        EXPECT_TRUE(names.insert(schedule["schedule"].get<std::string>()).second)
            << schedule << " twice";
        if (schedule["words"].is_null()) continue;
        ++compared;
        const double words = schedule["words"].get<double>();
        EXPECT_GE(words, schedule["lower_bound"].get<double>()) << schedule;
        EXPECT_EQ(schedule["ratio"], words / schedule["lower_bound"].get<double>());
        if (!schedule["planned_words"].is_null()) {
          EXPECT_LE(schedule["words"], schedule["planned_words"]) << schedule;
          fewer += schedule["words"] < schedule["planned_words"] ? 1 : 0;
        }
        EXPECT_TRUE(contains(text, ioattn::tune::grouped(schedule["words"].get<long>())));
      }
      EXPECT_GE(compared, 1);
    }
  }
  EXPECT_GT(fewer, 0);
}

// Figures of the planner for what it chose, from theory.
TEST(PlanCommand, ShowsThePlanAmongItsCandidates) {
  for (const char* pass : {"forward", "backward"}) {
    for (const char* problem : {"layer:n512,d385,v32,f32,self", "layer:n300,m200,d64,f64",
                                "layer:n300,m200,d64,v128,f32,tied"}) {
      for (const char* M : {"3000", "98304", "1000000"}) {
        SCOPED_TRACE(std::string(problem) + " " + pass + " M = " + M);
        const Arguments arguments = {"plan", "--problem", problem, "--pass", pass, "--M", M};
        const Json json = done(arguments + Arguments{"--json"}).json();
        EXPECT_EQ(json["pass"], pass);
        EXPECT_EQ(json["level"], "M");
        EXPECT_EQ(std::to_string(json["M"].get<long>()), M);
        ioattn::plan::Plan plan;
        ioattn::LayerProblem parsed;
        std::string error;
        ASSERT_TRUE(ioattn::parse_problem(problem, &parsed, &error));
        ASSERT_TRUE(ioattn::plan::parse_plan(json["plan"].get<std::string>(), &plan, &error));
        const auto which =
            pass == std::string("forward") ? ioattn::Pass::forward : ioattn::Pass::backward;
        const ioattn::IoCost cost =
            ioattn::theory::io_cost(which, plan.schedule, parsed.shape, plan.blocks).total();
        const ioattn::index_t fma =
            ioattn::theory::fma_count(which, plan.schedule, parsed.shape, plan.blocks);
        EXPECT_EQ(json["words"], cost.words());
        EXPECT_EQ(json["footprint"], cost.footprint);
        EXPECT_EQ(json["fma"], fma);
        int found = 0;
        for (const Json& candidate : json["schedules"]) {
          if (!candidate["fits"].get<bool>()) {
            EXPECT_GT(candidate["least_M"], json["M"]);
            EXPECT_TRUE(candidate["words"].is_null() && candidate["ratio"].is_null()) << candidate;
            EXPECT_EQ(candidate["planned"], false);
            continue;
          }
          EXPECT_LE(candidate["footprint"], json["M"]);
          EXPECT_LE(candidate["lower_bound"].get<double>(), candidate["words"].get<double>());
          const bool is_planned =
              candidate["schedule"] == name_of(plan.schedule) &&
              (candidate["form"].is_null() || candidate["form"] == name_of(plan.blocks.form)) &&
              candidate["products"] == name_of(plan.blocks.products);
          EXPECT_EQ(candidate["planned"], is_planned) << candidate;
          if (is_planned) {
            ++found;
            EXPECT_EQ(candidate["words"], cost.words());
            EXPECT_EQ(candidate["footprint"], cost.footprint);
            EXPECT_EQ(candidate["fma"], fma);
          }
        }
        EXPECT_EQ(found, 1);
        const std::string text = done(arguments).out;
        EXPECT_TRUE(contains(text, json["plan"].get<std::string>())) << text;
        EXPECT_TRUE(contains(text, ioattn::tune::grouped(cost.words())));
        const std::string row = "\n  > " + json["level"].get<std::string>();
        EXPECT_EQ(text.find(row), text.rfind(row)) << text;
        EXPECT_TRUE(contains(text, row)) << text;
      }
    }
  }
}

std::string levels_of(const Json& json) {
  std::string levels = json["level"].get<std::string>();
  for (const Json& level : json["levels"]) levels += " " + level["level"].get<std::string>();
  return levels;
}

TEST(PlanCommand, ReportsTheOtherLevelsAndL3OnlyWhenAsked) {
  const Arguments plan = {"plan", "--n", "300", "--d", "64", "--json"};
  const Environment environment = {
      {"IOATTN_L1", "32k"}, {"IOATTN_L2", "512k"}, {"IOATTN_L3", "4m"}};
  EXPECT_EQ(levels_of(done(plan, environment).json()), "L2 L1");
  EXPECT_EQ(levels_of(done(plan + Arguments{"--level", "L1"}, environment).json()), "L1 L2");
  EXPECT_EQ(levels_of(done(plan + Arguments{"--level", "L3"}, environment).json()), "L3 L1 L2");
  EXPECT_EQ(levels_of(done(plan + Arguments{"--M", "9999"}, environment).json()), "M L1 L2");
  const Json l3 = done(plan + Arguments{"--level", "L3"}, environment).json();
  EXPECT_EQ(l3["M"], 786432);
  EXPECT_EQ(l3["plan"].get<std::string>().rfind("L3:", 0), 0u);
  EXPECT_EQ(l3["levels"][0]["M"], 4096);
  EXPECT_EQ(l3["levels"][0]["regime"], "large cache");  // 64^2
  EXPECT_EQ(l3["regime"], "large cache");
  // A level that is too small for any plan, as in 16 bits for rows, says so and fails nothing.
  const Json tiny = done({"plan", "--problem", "layer:n300,d64,f16", "--pass", "forward", "--json"},
                         {{"IOATTN_L1", "64"}})
                        .json();
  EXPECT_TRUE(tiny["levels"][0]["plan"].is_null());
  EXPECT_TRUE(contains(tiny["levels"][0]["reason"], "the least is"));
}

// The plan that calls take, whose blocks L3 holds here, by the price of a word from it: on Intel's
// CPUs in one pass of the two. A level that is named holds them itself.
TEST(PlanCommand, IsThePlanThatRuns) {
  const Environment caches = {
      {"IOATTN_L1", "16k"}, {"IOATTN_L2", "64k"}, {"IOATTN_L3", "8m"}, {"IOATTN_ISA", "scalar"}};
  LayerCase layer;
  make_layer_case({128, 128, 64, 64}, ioattn_reference::Ties::all, "f32", 1, &layer);
  const Json io = done(layer.grad() + Arguments{"--json"}, caches).json()["io"];
  ASSERT_EQ(io.size(), 2u);
  int in_l3 = 0;
  for (const Json& report : io) {
    const std::string text = report["plan"];
    SCOPED_TRACE(text);
    const Arguments plan = {"plan",   "--problem",    "layer:n128,d64,self",
                            "--pass", report["pass"], "--explain"};
    const Json json = done(plan + Arguments{"--json"}, caches).json();
    const std::string level = json["level"];
    in_l3 += level == "L3";
    for (const char* key : {"plan", "level", "M", "schedule", "regime"}) {
      EXPECT_EQ(json[key], report[key]) << key;
    }
    EXPECT_EQ(json["candidates"][0]["plan"], text);
    EXPECT_EQ(levels_of(json), level == "L3" ? "L3 L1 L2" : "L2 L1");
    EXPECT_EQ(std::count_if(json["schedules"].begin(), json["schedules"].end(),
                            [&](const Json& candidate) {
                              return candidate["planned"] == true && candidate["level"] == level &&
                                     candidate["words"] == report["formula"];
                            }),
              1);
    const std::string printed = done(plan, caches).out;
    EXPECT_TRUE(contains(printed, "plan: " + text + "\n")) << printed;
    EXPECT_TRUE(contains(printed, "words, " + report["regime"].get<std::string>() + "; "));

    const Json named = done(plan + Arguments{"--level", "L2", "--json"}, caches).json();
    EXPECT_EQ(levels_of(named), "L2 L1");
    EXPECT_EQ(named["origin"], "estimate");
    EXPECT_EQ(named["M"], 12288);
    for (const Json& candidate : named["schedules"]) EXPECT_EQ(candidate["level"], "L2");
    EXPECT_EQ(named["candidates"][0]["plan"], named["plan"]);
    for (const Json& candidate : named["candidates"])
      EXPECT_EQ(candidate["plan"].get<std::string>().rfind("L2:", 0), 0u) << candidate;
  }
  EXPECT_GE(in_l3, 1);
}

std::set<std::string> members(const Json& json) {
  std::set<std::string> names;
  for (const auto& [name, value] : json.items()) names.insert(name);
  return names;
}

// What either problem has has one name; a layer has its schedules and levels besides, and SDPA is
// asked on every instruction set.
TEST(PlanCommand, HasTheSameMembersForBothProblems) {
  for (const char* pass : {"forward", "backward"}) {
    for (const Arguments& more : {Arguments{}, Arguments{"--explain"}}) {
      const Arguments plan = Arguments{"plan", "--pass", pass, "--json"} + more;
      const Json layer = done(plan + Arguments{"--problem", "layer:n64,d16"}).json();
      const Json sdpa = done(plan + Arguments{"--problem", "sdpa:n64,d16"}).json();
      EXPECT_EQ(sdpa["pass"], pass);
      std::set<std::string> of_layer = members(layer), of_sdpa = members(sdpa);
      EXPECT_EQ(of_layer.erase("schedules") + of_layer.erase("levels"), 2u);
      EXPECT_EQ(of_sdpa.erase("instruction_sets"), more.empty() ? 0u : 1u);
      EXPECT_EQ(of_layer, of_sdpa);
      EXPECT_EQ(of_layer.count("candidates"), more.empty() ? 0u : 1u);
      if (more.empty()) continue;
      EXPECT_EQ(members(layer["candidates"][0]), members(sdpa["candidates"][0]));
      EXPECT_EQ(members(layer["predicted"]), members(sdpa["predicted"]));
    }
  }
}

TEST(RegimesCommand, IsOneObject) {
  const Json json = done({"regimes", "--n", "64", "--json"}).json();
  ASSERT_TRUE(json.is_object());
  ASSERT_GT(json["cells"].size(), 100u);
  for (const Json& cell : json["cells"]) EXPECT_GT(cell["M"], 0);
}

TEST(PlanCommand, OptionsSayWhatTheProblemTextSays) {
  const Json text = done({"plan", "--problem", "layer:n96,m48,d24,v12,f64,tied", "--json"}).json();
  const Json options = done({"plan", "--n", "96", "--m", "48", "--d", "24", "--dv", "12", "--dtype",
                             "f64", "--tie", "kv", "--json"})
                           .json();
  EXPECT_EQ(text, options);
  EXPECT_EQ(text["problem"], "layer:n96,m48,d24,v12,f64,tied");
}

// The candidates that were not asked for are shown beside the one that was.
TEST(PlanCommand, ShowsEveryCandidateOfAGivenSchedule) {
  const Arguments plan = {"plan", "--n", "64", "--d", "16", "--M", "2000", "--json"};
  const Json any = done(plan).json(), given = done(plan + Arguments{"--schedule", "naive"}).json();
  EXPECT_EQ(given["schedule"], "naive");
  EXPECT_GT(any["schedules"].size(), 5u);
  EXPECT_EQ(given["schedules"].size(), any["schedules"].size());
}

TEST(PlanCommand, StoresScoresOnlyIfTheMemoryLimitAllows) {
  // M is below what row_stream needs forward for this d.
  const Arguments plan = {"plan", "--n", "64",     "--d",     "64",
                          "--M",  "150", "--pass", "forward", "--json"};
  EXPECT_EQ(done(plan).json()["schedule"], "tile_fused");
  const Json json = done(plan + Arguments{"--memory-limit", "1000000"}).json();
  EXPECT_EQ(json["schedule"], "stationary");
  EXPECT_EQ(done(plan + Arguments{"--schedule", "paper_small"}).json()["schedule"], "paper_small");
}

}  // namespace
