#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/support/command.hpp"
#include "cli/support/temporary_directory.hpp"

// `ioattn tune`, `ioattn wisdom` and plans of SDPA: what is learned is saved, followed and told.
namespace {

using namespace ioattn_cli_test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

const std::string problem = "sdpa:b1,h2,n96,d32";

class WisdomCommand : public testing::Test {
 protected:
  std::string file() const { return directory_ / "wisdom.json"; }
  RunResult run(const Arguments& arguments, const std::string& setup = "true") const {
    return run_ioattn(arguments, {{"IOATTN_WISDOM", file()}}, setup);
  }
  Json json(const Arguments& arguments) const {
    const RunResult result = run(arguments + Arguments{"--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "") << "no progress where stderr is no terminal";
    return result.json();
  }
  // Long enough for a machine that is busy.
  Arguments tune(const Arguments& more = {}) const {
    return Arguments{"tune", "--problem", problem, "--rigor", "patient", "--time-limit", "2"} +
           more;
  }
  void expect_usage_error(const Arguments& arguments, const std::string& word) const {
    const RunResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << word;
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
  }

  TemporaryDirectory directory_;
};

// Of another library nothing is used, whatever else the file has.
TEST_F(WisdomCommand, ExplainsWhatIsOfAnotherEnvironment) {
  json(tune({"--pass", "forward"}));
  Json text = Json::parse(read_file(file()));
  Json other = text["environments"][0];
  other["library"] = "9.9.9";
  text["environments"].push_back(other);
  write_file(file(), text.dump());
  const Json known = json({"wisdom", "explain"});
  ASSERT_EQ(known["others"].size(), 1u) << known.dump(1);
  EXPECT_EQ(known["others"][0]["code"], "other_library");
  EXPECT_EQ(known["others"][0]["records"], other["records"].size());
  EXPECT_NE(run({"wisdom", "explain"}).out.find("not used, other_library: its version: 9.9.9"),
            std::string::npos);
}

// What another CPU has learned is kept, unless all is to go, and not taken for this one's.
TEST_F(WisdomCommand, LeavesWhatIsOfAnotherCpu) {
  json(tune({"--pass", "forward"}));
  Json text = Json::parse(read_file(file()));
  for (Json& environment : text["environments"]) environment["cpu"] = "Another CPU";
  const std::string of_another = directory_ / "another.json";
  write_file(of_another, text.dump());
  const std::string own = read_file(file());
  expect_usage_error({"wisdom", "import", of_another}, "other_cpu");
  EXPECT_EQ(read_file(file()), own);
  const auto environments = [&] {
    return Json::parse(read_file(of_another))["environments"].size();
  };
  const std::size_t known = environments();
  EXPECT_EQ(run({"wisdom", "forget", "--file", of_another}).exit_code, 0);
  EXPECT_EQ(environments(), known);
  EXPECT_EQ(run({"wisdom", "forget", "--all", "--file", of_another}).exit_code, 0);
  EXPECT_EQ(environments(), 0u);
}

TEST_F(WisdomCommand, ForgetsNothingWhereThereIsNothing) {
  EXPECT_EQ(run({"wisdom", "forget"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(file()));
  expect_usage_error({"wisdom", "forget", "--file", directory_ / "none.json"}, "not_found");
  EXPECT_FALSE(fs::exists(directory_ / "none.json"));
}

TEST_F(WisdomCommand, TunesSavesAndFollows) {
  const Json tuned = json(tune());
  EXPECT_EQ(tuned["file"], file());
  EXPECT_EQ(tuned["interrupted"], false);
  ASSERT_EQ(tuned["problems"].size(), 2u);
  EXPECT_EQ(tuned["problems"][0]["pass"], "forward");
  EXPECT_EQ(tuned["problems"][1]["pass"], "dQ+dK+dV");
  for (const Json& one : tuned["problems"]) {
    EXPECT_EQ(one["code"], "ok") << one["message"];
    EXPECT_EQ(one["candidates"][0]["made_from"], "estimate");
    EXPECT_GE(one["candidates"][0]["rounds"], 1);
    EXPECT_GT(one["median"], 0);
    EXPECT_EQ(one["kept"], true);
  }
  const Json plan = json({"plan", "--problem", problem, "--pass", "forward", "--explain"});
  EXPECT_EQ(plan["origin"], "wisdom");
  EXPECT_EQ(plan["plan"], tuned["problems"][0]["plan"]);
  EXPECT_EQ(json(tune())["problems"][1]["known"], true);
  EXPECT_EQ(json(tune({"--again", "--pass", "forward"}))["problems"][0]["known"], false);

  EXPECT_EQ(json({"wisdom", "show"})["records"].size(), 2u);
  EXPECT_NE(run({"wisdom", "show"}).out.find("dQ+dK+dV f32 d=32"), std::string::npos);
  EXPECT_NE(run({"wisdom", "explain"}).out.find(file() + ": ok, 2 records"), std::string::npos);
  // To another place and back.
  const std::string other = directory_ / "other.json";
  EXPECT_EQ(run({"wisdom", "export", other}).exit_code, 0);
  EXPECT_EQ(run({"wisdom", "export"}).out, read_file(other));
  EXPECT_EQ(run({"wisdom", "forget"}).exit_code, 0);
  EXPECT_TRUE(json({"wisdom", "show"})["records"].empty());
  EXPECT_EQ(json({"plan", "--problem", problem})["origin"], "estimate");
  EXPECT_EQ(run({"wisdom", "import", other}).exit_code, 0);
  EXPECT_EQ(read_file(file()), read_file(other));
}

// The layer problem, by the same search.
TEST_F(WisdomCommand, TunesLayerProblems) {
  const std::string layer = "layer:n64,d24,v12,tied";
  const Arguments tune = {"tune",         "--problem", layer,         "--rigor", "patient",
                          "--time-limit", "2",         "--gradients", "dX"};
  const Json tuned = json(tune);
  ASSERT_EQ(tuned["problems"].size(), 2u);
  EXPECT_EQ(tuned["problems"][0]["pass"], "forward");
  EXPECT_EQ(tuned["problems"][1]["pass"], "dX");
  for (const Json& one : tuned["problems"]) {
    EXPECT_EQ(one["code"], "ok") << one["message"];
    EXPECT_EQ(one["timed"], "layer:n64,m64,d24,v12,f32,tied");
    EXPECT_EQ(one["candidates"][0]["made_from"], "estimate");
    EXPECT_GE(one["candidates"][0]["rounds"], 1);
  }
  EXPECT_EQ(json(tune)["problems"][0]["known"], true);
  const Json plan = json({"plan", "--problem", layer, "--explain"});
  EXPECT_EQ(plan["origin"], "wisdom");
  EXPECT_EQ(plan["plan"], tuned["problems"][1]["plan"]);
  EXPECT_NE(plan["why"].get<std::string>().find("fastest"), std::string::npos);
  EXPECT_GE(plan["candidates"].size(), 2u);
  const std::string text = run({"plan", "--problem", layer, "--explain"}).out;
  EXPECT_NE(text.find("origin: wisdom\nwhy: "), std::string::npos) << text;
  EXPECT_NE(text.find("a search would compare"), std::string::npos) << text;
  // What the caller decides is not searched for, nor what is not alike.
  EXPECT_EQ(json({"plan", "--problem", layer, "--M", "4096"})["origin"], "estimate");
  EXPECT_EQ(json({"plan", "--problem", layer, "--schedule", "row_stream"})["origin"], "estimate");
  EXPECT_EQ(json({"plan", "--problem", layer + ",causal"})["wisdom"]["code"], "absent");
  EXPECT_NE(run({"wisdom", "show"}).out.find("layer:dX,tied f32 d=24 dv=12"), std::string::npos);
  EXPECT_NE(run({"wisdom", "explain"}).out.find("2 records are used here"), std::string::npos);
  // Both kinds from one list, of which nothing is timed.
  const std::string shapes = directory_ / "shapes";
  write_file(shapes, "sdpa:h2,n64,d16\nlayer:n300,d64,f64\n");
  const Json listed = json({"tune", "--shapes", shapes, "--pass", "backward", "--dry-run"});
  ASSERT_EQ(listed["problems"].size(), 2u);
  EXPECT_EQ(listed["problems"][0]["pass"], "dQ+dK+dV");
  EXPECT_EQ(listed["problems"][1]["pass"], "dX");
  EXPECT_GE(listed["problems"][1]["candidates"].size(), 2u);
}

// Parts of the predicted time, by level; in ms once rates are known.
TEST_F(WisdomCommand, ExplainsEveryLevel) {
  const auto explain = [&](const Arguments& arguments) {
    RunResult result =
        run_ioattn(Arguments{"plan", "--explain"} + arguments,
                   {{"IOATTN_WISDOM", file()}, {"IOATTN_L1", "16k"}, {"IOATTN_L2", "256k"}});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  };
  for (const std::string name : {"sdpa:h2,n300,d48", "layer:n300,d48,tied"}) {
    SCOPED_TRACE(name);
    const Json plan = explain({"--problem", name, "--json"}).json();
    const Json& told = plan["predicted"];
    ASSERT_GE(told["levels"].size(), 3u) << told;
    double sum = 0;
    for (const Json& level : told["levels"])
      sum += level["time"].is_null() ? 0 : level["time"].get<double>();
    EXPECT_NEAR(told["total"].get<double>(), sum, 1e-9 * sum);
    EXPECT_TRUE(told["multiply_adds_per_second"].is_null());
    const Json &kernels = told["levels"][0], &first = told["levels"][1],
               &second = told["levels"][2];
    EXPECT_EQ(kernels["level"], "kernels");
    EXPECT_GT(kernels["time"], sum / 2);
    EXPECT_EQ(first["level"], "L1");
    EXPECT_EQ(first["M"], 2048);
    EXPECT_EQ(first["regime"], "small cache");
    EXPECT_EQ(second["level"], "L2");
    EXPECT_EQ(second["M"], 49152);
    EXPECT_EQ(second["regime"], "large cache");
    // Words of delta alone count no time. What a word is assumed to cost depends on the vendor.
    const double price = plan["price"]["per_word"], words = second["words"];
    EXPECT_LE(second["time"], price * words);
    EXPECT_GT(second["time"], 0.75 * price * words);
    const std::string text = explain({"--problem", name}).out;
    EXPECT_NE(text.find("in the time of so many multiply-adds"), std::string::npos) << text;
  }
}

// What every instruction set would take; one is named, or the only one.
TEST_F(WisdomCommand, ExplainsTheInstructionSet) {
  const Arguments plan = {"plan", "--problem", "sdpa:n300,d8", "--pass", "forward", "--explain"};
  const auto told = [&](const Arguments& more) {
    const Json list = json(plan + more)["instruction_sets"];
    EXPECT_GE(list.size(), 1u);
    int taken = 0;
    for (const Json& one : list) {
      taken += one["estimate"] == true ? 1 : 0;
      EXPECT_GT(one["time"], 0);
      EXPECT_EQ(one["rate"], "assumed");
      if (one["estimate"] == true) {
        EXPECT_NE(json(plan + more)["plan"].get<std::string>().find(
                      "reg:" + one["isa"].get<std::string>() + "("),
                  std::string::npos);
      }
    }
    EXPECT_EQ(taken, 1);
    EXPECT_EQ(list[0]["time"], 1);
    return list.size();
  };
  told({});
  EXPECT_EQ(told({"--M", "20000"}), 1u);
  EXPECT_NE(run(plan).out.find("\ninstruction sets: "), std::string::npos) << run(plan).out;
}

TEST_F(WisdomCommand, MeasuresRatesOnce) {
  const Arguments explain = {"plan", "--problem", problem, "--explain"};
  EXPECT_EQ(json(explain)["price"]["origin"], "assumed");
  EXPECT_EQ(json(explain)["price"]["code"], "absent");
  const Json first = json({"tune"});
  EXPECT_EQ(first["rates_measured"], true);
  EXPECT_TRUE(first["problems"].empty());
  ASSERT_EQ(first["rates"].size(), 4u);
  for (const Json& one : first["rates"]) {
    EXPECT_EQ(one["code"], "ok") << one["message"];
    EXPECT_GT(one["multiply_adds_per_second"], 0);
    // A word of f16 is one of f32, twice as long, from L3 on.
    const double longer = one["dtype"] == "f16" ? 2 : 1;
    EXPECT_GE(longer * one["per_word"].get<double>(), one["per_inner_word"]);
  }
  const std::string saved = read_file(file());
  const Json second = json({"tune"});
  EXPECT_EQ(second["rates_measured"], false);
  EXPECT_EQ(second["rates"], first["rates"]);
  EXPECT_EQ(read_file(file()), saved);
  EXPECT_EQ(json({"tune", "--again"})["rates_measured"], true);
  // What they are for.
  const Json price = json(explain)["price"], rates = json({"wisdom", "show"})["rates"];
  EXPECT_EQ(price["origin"], "measured");
  EXPECT_EQ(price["code"], "ok");
  EXPECT_EQ(rates[0]["dtype"], "f32");
  EXPECT_EQ(price["per_word"], rates[0]["per_word"]);
  EXPECT_NE(run(explain).out.find("from L3 to L2, measured\n"), std::string::npos);
  EXPECT_EQ(json({"plan", "--n", "64", "--d", "16"})["price"], price);
  EXPECT_EQ(json({"plan", "--n", "64", "--d", "16", "--M", "4096"})["price"]["origin"], "assumed");
  const Json of_words =
      json({"plan", "--n", "64", "--d", "16", "--objective", "words@L2"})["price"];
  EXPECT_EQ(of_words["origin"], "words");
  EXPECT_TRUE(of_words["per_word"].is_null() && of_words["per_inner_word"].is_null());
  EXPECT_NE(run({"plan", "--n", "64", "--d", "16", "--objective", "words@L2"})
                .out.find("price: words decide\n"),
            std::string::npos);
  EXPECT_NE(run({"wisdom", "show"}).out.find("multiply-adds per ns"), std::string::npos);
  EXPECT_NE(run({"wisdom", "explain"}).out.find(": ok, 0 records"), std::string::npos);
  const RunResult off = run_ioattn(explain + Arguments{"--json"}, {{"IOATTN_WISDOM", "off"}});
  EXPECT_EQ(off.json()["price"]["origin"], "assumed");
  EXPECT_EQ(run({"wisdom", "forget"}).exit_code, 0);
  EXPECT_EQ(json(explain)["price"]["origin"], "assumed");
}

// Whether or not the process has read it by itself.
TEST_F(WisdomCommand, KnowsWhatTheNamedFileKnows) {
  const auto tuned = [&] {
    return run_ioattn(tune({"--pass", "forward", "--json", "--file", file()}),
                      {{"IOATTN_WISDOM", "off"}})
        .json();
  };
  const Json first = tuned();
  EXPECT_EQ(first["rates_measured"], true);
  EXPECT_EQ(first["problems"][0]["known"], false);
  const Json second = tuned();
  EXPECT_EQ(second["rates_measured"], false);
  EXPECT_EQ(second["problems"][0]["known"], true);
}

TEST_F(WisdomCommand, SaysWhyRatesAreNotUsed) {
  EXPECT_EQ(run({"tune"}).exit_code, 0);
  std::string text = read_file(file());
  const std::string name = "\"seconds_per_word\":";
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t value = at + name.size();
    text.replace(value, text.find_first_of(",}", value) - value, "3600");
  }
  write_file(file(), text);
  EXPECT_EQ(json({"plan", "--problem", problem, "--explain"})["price"]["code"], "bad_rates");
  const std::string told = run({"wisdom", "explain"}).out;
  EXPECT_NE(told.find("rates of f64: not used, bad_rates: seconds_per_word"), std::string::npos)
      << told;
  EXPECT_NE(run({"wisdom", "show"}).out.find("bad_rates"), std::string::npos);
  EXPECT_EQ(json({"tune"})["rates_measured"], true) << "those are not known";
}

TEST_F(WisdomCommand, ListsCandidatesOfShapesWithoutTiming) {
  const std::string shapes = directory_ / "shapes";
  write_file(shapes, "# two\n\nsdpa:h2,n64,d16  # small\r\n  sdpa:h4,n300,d64,f64\n");
  const Json listed = json({"tune", "--shapes", shapes, "--pass", "backward", "--dry-run"});
  ASSERT_EQ(listed["problems"].size(), 2u);
  for (const Json& one : listed["problems"]) {
    EXPECT_GE(one["candidates"].size(), 2u);
    EXPECT_LE(one["candidates"].size(), 200u);
    EXPECT_EQ(one["candidates"][0]["predicted"], 1);
    for (const Json& candidate : one["candidates"]) EXPECT_LE(candidate["predicted"], 3);
  }
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_EQ(json({"tune", "--problem", "layer:n64,d16", "--gradients", "dA1+dX", "--dry-run",
                  "--pass", "backward"})["problems"][0]["pass"],
            "dX+dA1");
  EXPECT_NE(run({"tune", "--problem", problem, "--dry-run"}).out.find("made from"),
            std::string::npos);
}

TEST_F(WisdomCommand, SaysWhyAPlanWon) {
  const Json plan = json({"plan", "--problem", problem, "--explain"});
  EXPECT_EQ(plan["origin"], "estimate");
  EXPECT_EQ(plan["wisdom"]["code"], "absent");
  EXPECT_NE(plan["why"].get<std::string>().find("absent"), std::string::npos);
  EXPECT_EQ(plan["candidates"][0]["plan"], plan["plan"]);
  const std::string text = run({"plan", "--problem", problem, "--explain"}).out;
  EXPECT_NE(text.find("origin: estimate\nwhy: "), std::string::npos) << text;
  EXPECT_EQ(run({"plan", "--problem", problem}).out.find("why"), std::string::npos);
}

TEST_F(WisdomCommand, KeepsWhatWasLearnedWhenInterrupted) {
  // The first search is short, the others would go on for minutes.
  const std::string shapes = directory_ / "shapes";
  write_file(shapes, "sdpa:n32,d8\nsdpa:n8192,d32\nsdpa:n8192,d48\nsdpa:n8192,d64\n");
  const pid_t tuner = fork();
  ASSERT_GE(tuner, 0);
  if (tuner == 0) {
    setenv("IOATTN_WISDOM", file().c_str(), 1);
    if (std::freopen((directory_ / "out").c_str(), "w", stdout) &&
        std::freopen((directory_ / "err").c_str(), "w", stderr)) {
      execl(ioattn_path(), ioattn_path(), "tune", "--rigor", "patient", "--shapes", shapes.c_str(),
            nullptr);
    }
    _exit(127);
  }
  // However slow the machine is: until something was learned.
  for (int i = 0; i < 600 && !fs::exists(file()); ++i) usleep(100000);
  kill(tuner, SIGINT);
  int status = -1;
  ASSERT_EQ(waitpid(tuner, &status, 0), tuner);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT) << status;
  const std::string error = read_file(directory_ / "err");
  EXPECT_TRUE(is_one_error_line(error)) << error;
  EXPECT_NE(error.find("interrupted"), std::string::npos) << error;
  EXPECT_GE(json({"wisdom", "show"})["records"].size(), 1u);
}

TEST_F(WisdomCommand, RefusesWithAReason) {
  expect_usage_error({"tune", "--dry-run"}, "--problem or --shapes");
  write_file(directory_ / "none", "# nothing\n");
  expect_usage_error({"tune", "--shapes", directory_ / "none"}, "none has no problem");
  expect_usage_error({"tune", "--shapes", "."}, "cannot read .");
  expect_usage_error({"tune", "--problem", "layer:n8"}, "required");
  expect_usage_error({"tune", "--problem", "head:n8,d8"}, "layer:");
  expect_usage_error({"tune", "--problem", "layer:n8,d8", "--gradients", "dQ"}, "dQ");
  expect_usage_error({"tune", "--problem", "layer:n8,d8", "--gradients", "dA"}, "share memory");
  expect_usage_error({"tune", "--problem", "layer:n8,d8", "--gradients", "dY+dX+dY"},
                     "dY is there twice");
  for (const char* empty : {"dX+", "+dX", "dX++dY", "dX,,dY"})
    expect_usage_error({"tune", "--problem", "layer:n8,d8", "--gradients", empty},
                       "\"\" is no gradient");
  expect_usage_error({"tune", "--shapes", "/nonexistent"}, "/nonexistent");
  expect_usage_error(tune({"--gradients", "dX"}), "dX");
  expect_usage_error(tune({"--rigor", "exhaustive"}), "rigor");
  for (const char* limit : {"-1", "0", "nan", "inf", "1s"})
    expect_usage_error({"tune", "--problem", problem, "--time-limit", limit},
                       "--time-limit: \"" + std::string(limit) + "\" is not a number above 0");
  expect_usage_error({"wisdom"}, "");
  expect_usage_error({"wisdom", "import", "/nonexistent"}, "not_found: ");
  write_file(directory_ / "bad", "{");
  expect_usage_error({"wisdom", "import", directory_ / "bad"}, "syntax: ");
  const RunResult off = run_ioattn(tune(), {{"IOATTN_WISDOM", "off"}});
  EXPECT_EQ(off.exit_code, 2);
  EXPECT_NE(off.err.find("--file"), std::string::npos);
  write_file(directory_ / "good", run({"wisdom", "export"}).out);
  const RunResult import =
      run_ioattn({"wisdom", "import", directory_ / "good"}, {{"IOATTN_WISDOM", "off"}});
  EXPECT_EQ(import.exit_code, 2);
  EXPECT_NE(import.err.find("no place for wisdom"), std::string::npos) << import.err;
  EXPECT_EQ(import.err.find("--file"), std::string::npos) << "import has none";
  // A file that cannot be read is told, and left alone.
  write_file(file(), "{");
  EXPECT_EQ(json({"wisdom", "explain"})["files"][0]["code"], "syntax");
  expect_usage_error(tune({"--pass", "forward"}), "syntax: ");
  expect_usage_error({"tune", "--file", directory_ / "bad"}, "syntax: ");
  EXPECT_EQ(read_file(file()), "{");
  EXPECT_EQ(run({"tune", "--file", "/proc/ioattn/wisdom.json"}).exit_code, 1);
}

}  // namespace
