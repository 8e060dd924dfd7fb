// `ioattn measure` around a command, and with the hardware's counters: whether or not this system
// lets anybody count, everything else works and what is missing has a reason.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/support/command.hpp"
#include "cli/support/temporary_directory.hpp"

namespace {

using namespace ioattn_cli_test;
using nlohmann::json;
namespace fs = std::filesystem;

// A number if it was counted, else null and why.
void expect_honest(const json& item, const char* member) {
  const bool missing = item.at("validity") == "unavailable";
  EXPECT_EQ(item.at(member).is_null(), missing) << item;
  EXPECT_EQ(item.at(member).is_number(), !missing) << item;
  EXPECT_TRUE(item.at("validity") == "exact" || item.at("reason").is_string()) << item;
}

TEST(MeasuredCommand, CountsWhatTheCommandDoes) {
  const RunResult result = run_ioattn({"measure", "--event", "page-faults,task-clock", "--json",
                                       "--", "sh", "-c", "/bin/true; exit 0"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = result.json();
  EXPECT_EQ(report.at("command"), json({"sh", "-c", "/bin/true; exit 0"}));
  EXPECT_EQ(report.at("exit_status"), 0);
  EXPECT_GT(report.at("seconds"), 0.0);
  const json& events = report.at("events");
  ASSERT_GE(events.size(), 2u);
  for (const json& event : events) expect_honest(event, "count");
  ASSERT_EQ(report.at("traffic").size(), 4u);
  for (const json& quantity : report.at("traffic")) expect_honest(quantity, "lines");
  const json& faults = events.at(events.size() - 2);
  EXPECT_EQ(faults.at("event"), "page-faults");
  if (faults.at("count").is_null()) GTEST_SKIP() << faults.at("reason");
  EXPECT_TRUE(faults.at("text").is_null());
  EXPECT_NE(events.back().at("text").get<std::string>().find("in the kernel too"),
            std::string::npos);
  EXPECT_GT(faults.at("count"), 20);
  EXPECT_EQ(faults.at("validity"), "exact");
  EXPECT_EQ(faults.at("enabled_ns"), faults.at("running_ns"));
}

TEST(MeasuredCommand, ExitsLikeTheCommand) {
  EXPECT_EQ(run_ioattn({"measure", "--", "sh", "-c", "exit 3"}).exit_code, 3);
  const RunResult killed = run_ioattn({"measure", "--json", "--", "sh", "-c", "kill -9 $$"});
  EXPECT_EQ(killed.exit_code, 137);
  EXPECT_EQ(killed.json().at("exit_status"), 137);
  const RunResult missing = run_ioattn({"measure", "--", "/no/such/program", "x"});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(missing.out, "");
  EXPECT_TRUE(is_one_error_line(missing.err)) << missing.err;
  EXPECT_NE(missing.err.find("/no/such/program: No such file"), std::string::npos) << missing.err;
  EXPECT_EQ(run_ioattn({"measure", "--", "/"}).exit_code, 126);
}

// Nothing of the command line behind -- is ours, nor is its output.
TEST(MeasuredCommand, LeavesArgumentsAndOutputAlone) {
  const TemporaryDirectory directory;
  const std::string report = directory / "report.json";
  const RunResult result = run_ioattn(
      {"measure", "-o", report, "--json", "--", "printf", "%s|", "--json", "-x", "--", "plan"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "--json|-x|--|plan|");
  EXPECT_EQ(json::parse(read_file(report)).at("command").size(), 6u);
  EXPECT_EQ(
      run_ioattn({"measure", "-o", report, "--", "printf", "%s|", "[a,b]", "[]", "", "--"}).out,
      "[a,b]|[]||--|");
  const RunResult bare = run_ioattn({"measure", "touch", report});
  EXPECT_EQ(bare.exit_code, 2);
  EXPECT_NE(bare.err.find("behind --: ioattn measure -- touch"), std::string::npos) << bare.err;
}

// Nothing runs for a report that has no place; what was there stays until there is another.
TEST(MeasuredCommand, OpensItsFilesFirst) {
  const TemporaryDirectory directory;
  const std::string ran = directory / "ran", report = directory / "report";
  for (const char* option : {"--output", "--record"}) {
    const RunResult result =
        run_ioattn({"measure", option, directory / "no/where", "--", "touch", ran});
    EXPECT_EQ(result.exit_code, 1) << option;
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
    EXPECT_FALSE(fs::exists(ran)) << option;
  }
  write_file(report, std::string(100000, '-'));
  EXPECT_EQ(run_ioattn({"measure", "-o", report, "--", "/no/such/program"}).exit_code, 127);
  for (const char* option : {"--output", "--record"}) {
    const std::string fresh = directory / "fresh";
    EXPECT_EQ(run_ioattn({"measure", option, fresh, "--", "/no/such/program"}).exit_code, 127);
    EXPECT_FALSE(fs::exists(fresh)) << option;
  }
  EXPECT_EQ(read_file(report).size(), 100000u);
  EXPECT_EQ(run_ioattn({"measure", "-o", report, "--json", "--", "sh", "-c", "exit 3"}).exit_code,
            3);
  EXPECT_EQ(json::parse(read_file(report)).at("exit_status"), 3);
  EXPECT_EQ(run_ioattn({"measure", "-o", "/dev/null", "--", "true"}).exit_code, 0);
}

// An output that is an input, or another output.
TEST(MeasuredCommand, KeepsItsFilesApart) {
  const TemporaryDirectory directory;
  const std::string events = directory / "events", fresh = directory / "fresh",
                    again = directory / "../" + fs::path(directory.path()).filename().string() +
                            "/fresh";
  write_file(events, "cpu: made up\nevent: A\nkernel: page-faults\n  Pages.\n");
  const std::string before = read_file(events);
  for (const Arguments& arguments :
       {Arguments{"-o", events, "--events", events, "--", "true"},
        {"--record", events, "--events", events, "--", "true"},
        {"-o", fresh, "--record", again, "--", "true"},
        {"-o", fresh, "--html", fresh, "--problem", "sdpa:n8,d8"},
        {"--html", events, "--A1", events, "--X", events, "--Y", events}}) {
    const RunResult result = run_ioattn(Arguments{"measure"} + arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find(" are one file, "), std::string::npos) << result.err;
    EXPECT_EQ(read_file(events), before);
    EXPECT_FALSE(fs::exists(fresh));
  }
  EXPECT_EQ(
      run_ioattn({"measure", "-o", "/dev/null", "--record", "/dev/null", "--", "true"}).exit_code,
      0);
}

TEST(MeasuredCommand, SaysInTextWhatIsMissing) {
  const RunResult result = run_ioattn({"measure", "--event", "r1ffff", "--", "true"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"exit status 0", "L1 fills", "L2 fills", "L2 write-backs", "r1ffff"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << result.out;
  }
}

TEST(MeasuredCommand, IsRecorded) {
  const TemporaryDirectory directory;
  const std::string path = directory / "recording";
  const RunResult result =
      run_ioattn({"measure", "--record", path, "--event", "page-faults", "--", "true"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(read_file(path).find("\nopen 1 0x2 "), std::string::npos) << read_file(path);
  EXPECT_EQ(run_ioattn({"measure", "--record", directory / "no/where", "--", "true"}).exit_code, 1);
}

TEST(MeasuredEvents, OfAFile) {
  const TemporaryDirectory directory;
  const std::string path = directory / "events";
  write_file(path,
             "cpu: made up\nevent: A\nkernel: page-faults\n  Pages.\n"
             "quantity: L1 fills\nformula: A\nquantity: L2 fills\n  None.\n");
  RunResult result = run_ioattn({"measure", "--events", path, "--show-events", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json().at("cpu"), "made up");
  EXPECT_EQ(result.json().at("events").at(0).at("perf"), "page-faults:u");
  EXPECT_EQ(result.json().at("quantities").at(0).at("formula"), "A");
  EXPECT_TRUE(result.json().at("quantities").at(1).at("formula").is_null());
  result = run_ioattn({"measure", "--events", path, "--show-events"});
  EXPECT_EQ(result.out,
            "CPU: made up\nevent A page-faults:u\n  Pages.\nL1 fills = A\nL2 fills = unavailable\n"
            "  None.\n");

  // A quantity made of an event that needs no PMU.
  result = run_ioattn({"measure", "--events", path, "--json", "--", "true"});
  const json quantity = result.json().at("traffic").at(0);
  expect_honest(quantity, "lines");
  if (quantity.at("lines").is_number()) {
    EXPECT_EQ(quantity.at("lines"), result.json().at("events").at(0).at("count"));
    EXPECT_EQ(quantity.at("bytes"), 64 * quantity.at("lines").get<double>());
  }
  EXPECT_EQ(result.json().at("traffic").at(1).at("reason"), "None.");

  // And of a pass: one level has a count, the other says why not.
  result = run_ioattn({"measure", "--events", path, "--event", "page-faults", "--perf", "--json",
                       "--problem", "sdpa:n64,d16"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json levels = result.json().at("levels");
  ASSERT_EQ(levels.size(), 2u);
  const json l1 = levels.at(0).at("hardware").at("fills");
  expect_honest(l1, "words");
  EXPECT_EQ(l1.at("ratio").is_null(), l1.at("words").is_null());
  EXPECT_EQ(levels.at(1).at("hardware").at("fills").at("reason"), "None.");
  EXPECT_TRUE(levels.at(1).at("hardware").at("write_backs").at("lines").is_null());
  // With the event that was named beside those of the file.
  const json named = levels.at(0).at("hardware").at("events");
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named.at(0).at("event"), "page-faults");
  expect_honest(named.at(0), "count");

  write_file(path, "nonsense\n");
  result = run_ioattn({"measure", "--events", path, "--", "true"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
  EXPECT_NE(result.err.find(":1: not \"key: value\""), std::string::npos) << result.err;
}

TEST(MeasuredEvents, OfKernelsOfKnownTraffic) {
  const RunResult result = run_ioattn({"measure", "--proof", "--json"}, {{"IOATTN_L2", "64k"}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json kernels = result.json().at("kernels");
  ASSERT_GE(kernels.size(), 3u);
  for (const json& item : kernels) {
    EXPECT_GE(item.at("expected_lines"), 0);
    expect_honest(item.at("counted"), "lines");
    EXPECT_EQ(item.at("agrees").is_null(), item.at("counted").at("lines").is_null());
  }
}

// An array or an eviction of a smaller L2 than the machine has would stay in it.
TEST(MeasuredEvents, TakeNoSmallerCacheThanThereIs) {
  const auto lines = [](const Environment& environment) {
    const RunResult result = run_ioattn({"measure", "--proof", "--json"}, environment);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json().at("kernels").at(0).at("expected_lines");
  };
  EXPECT_EQ(lines({{"IOATTN_L2", "8k"}}), lines({}));
}

// A raw code counts something on every CPU.
TEST(MeasuredEvents, OfAnotherCpuSaySo) {
  const TemporaryDirectory directory;
  const std::string path = directory / "events";
  const std::string text =
      "event: A\nkernel: page-faults\n  Pages.\nquantity: L1 fills\nformula: A\n";
  const Arguments modes[] = {
      {"--show-events"}, {"--proof"}, {"--", "true"}, {"--perf", "--problem", "sdpa:n64,d16"}};
  for (const Arguments& mode : modes) {
    for (const bool other : {true, false}) {
      write_file(path, std::string("cpu: made up\n") + (other ? "match: Nobody 6 1\n" : "") + text);
      const Arguments measure = {"measure", "--events", path};
      const std::string note = "are of other CPUs than this one";
      const RunResult printed = run_ioattn(measure + mode);
      EXPECT_EQ(printed.exit_code, 0) << printed.err;
      EXPECT_EQ(printed.out.find(note) != std::string::npos, other) << printed.out;
      const json said = run_ioattn(measure + Arguments{"--json"} + mode).json().at("events_note");
      EXPECT_EQ(said.is_string(), other) << said;
    }
  }
}

// Caches that hold nothing of a pass cannot have taken in nothing.
TEST(MeasuredEvents, TakeNoZeroForFills) {
  const TemporaryDirectory directory;
  const std::string path = directory / "events";
  write_file(path,
             "cpu: made up\nevent: A\nkernel: page-faults\n  Pages.\n"
             "quantity: L1 fills\nformula: A - A\nquantity: L1 write-backs\nformula: A - A\n");
  const RunResult result = run_ioattn({"measure", "--events", path, "--perf", "--json", "--problem",
                                       "sdpa:n64,d16", "--level", "L1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json hardware = result.json().at("levels").at(0).at("hardware");
  if (!hardware.at("fills").at("errno").is_null()) GTEST_SKIP() << hardware.at("fills");
  EXPECT_TRUE(hardware.at("fills").at("lines").is_null());
  EXPECT_EQ(hardware.at("fills").at("reason"),
            "counted 0, which cannot be: a hypervisor may filter this event");
  EXPECT_EQ(hardware.at("write_backs").at("lines"), 0);
}

// Beside the counts, with --perf and of a command: what a name means on this CPU.
TEST(MeasuredEvents, SayWhatAGenericNameIs) {
  for (const Arguments& mode :
       {Arguments{"--", "true"}, {"--perf", "--problem", "sdpa:n64,d16", "--level", "L1"}}) {
    const Arguments measure = {"measure", "--event", "cache-misses"};
    const std::string text = "A generic id";
    EXPECT_NE(run_ioattn(measure + mode).out.find("cache-misses: " + text), std::string::npos);
    const json report = run_ioattn(measure + Arguments{"--json"} + mode).json();
    const json& events = report.contains("events")
                             ? report.at("events")
                             : report.at("levels").at(0).at("hardware").at("events");
    EXPECT_EQ(events.back().at("text").get<std::string>().find(text), 0u) << events.back();
  }
}

TEST(MeasuredEvents, OfThisMachine) {
  const RunResult result = run_ioattn({"measure", "--show-events", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json().at("quantities").size(), 4u);
  EXPECT_FALSE(result.json().at("events").empty());
}

TEST(MeasuredEvents, OneThingAtATime) {
  const std::string problem = "sdpa:n8,d8";
  for (const Arguments& arguments : {Arguments{"measure", "--proof", "--", "true"},
                                     {"measure", "--proof", "--show-events"},
                                     {"measure", "--problem", problem, "--", "true"},
                                     {"measure", "--perf", "--", "true"},
                                     {"measure", "--event", "no such event", "--", "true"},
                                     {"measure"}}) {
    const RunResult result = run_ioattn(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
  }
}

}  // namespace
