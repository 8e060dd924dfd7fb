#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <regex>

#include "base/schedule.hpp"
#include "cli/support/command.hpp"
#include "cli/support/layer_case.hpp"
#include "cli/support/npy_bytes.hpp"
#include "cli/support/text.hpp"
#include "machine/machine.hpp"
#include "reference/sanitizer.hpp"
#include "schedule_names.hpp"
#include "tune/command_error.hpp"

namespace {

using namespace ioattn_test;
using namespace ioattn_cli_test;
using ioattn_reference::Ties;

// Nothing on stdout, one line on stderr that says `why`.
void expect_failure(const RunResult& result, int exit_code, const std::string& why) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
  EXPECT_TRUE(contains(result.err, why)) << result.err << "does not say: " << why;
}

TEST(ExitCode, HelpAndVersionAreZero) {
  for (const char* command : {"machine", "bounds", "plan", "regimes", "figure", "grad", "demo"}) {
    const RunResult result = run_ioattn({command, "--help"});
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_EQ(result.err, "");
    EXPECT_TRUE(contains(result.out, "--json")) << result.out;
    EXPECT_TRUE(contains(run_ioattn({"--help"}).out, command));
  }
  EXPECT_EQ(run_ioattn({"help"}).out, run_ioattn({"--help"}).out);
  EXPECT_EQ(run_ioattn({"help", "plan"}).out, run_ioattn({"plan", "--help"}).out);
  const Arguments export_help = {"wisdom", "export", "--help"};
  EXPECT_EQ(run_ioattn({"help", "wisdom", "export"}).out, run_ioattn(export_help).out);
  const RunResult version = run_ioattn({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(std::regex_search(version.out, std::regex("^ioattn [0-9]+\\.[0-9]+\\.[0-9]+\n$")));
}

TEST(ExitCode, HelpOfNoCommandIsAUsageError) {
  expect_failure(run_ioattn({"help", "plans"}), 2, "there is no subcommand \"plans\"");
}

// What the library says, as an exit code: memory and our own mistakes are no usage errors.
TEST(ExitCode, OfTheLibrarysStatuses) {
  using ioattn::Status;
  using ioattn::StatusCode;
  EXPECT_NO_THROW(ioattn::tune::require(Status::ok()));
  for (const StatusCode code :
       {StatusCode::invalid_argument, StatusCode::size_overflow, StatusCode::fast_memory_too_small,
        StatusCode::memory_limit, StatusCode::out_of_memory, StatusCode::unsupported,
        StatusCode::internal}) {
    const bool failed = code == StatusCode::out_of_memory || code == StatusCode::internal;
    try {
      ioattn::tune::require(Status::error(code, "why"));
      ADD_FAILURE() << static_cast<int>(code) << " is no error";
    } catch (const ioattn::tune::CommandError& error) {
      EXPECT_EQ(error.exit_code(), failed ? 1 : 2) << static_cast<int>(code);
      EXPECT_STREQ(error.what(), "why");
    }
  }
}

struct WrongLine {
  Arguments arguments;
  const char* says;
};

TEST(ExitCode, WrongCommandLinesAreTwo) {
  const Arguments bounds = {"bounds", "--n", "8", "--d", "4"};
  const Arguments plan = {"plan", "--problem", "layer:n64,d16"};
  const Arguments measure = {"measure", "--problem", "layer:n64,d16"};
  const WrongLine lines[] = {
      {{}, "subcommand"},
      {{"train"}, "no subcommand \"train\""},
      {{"--train"}, "no option \"--train\""},
      {{"wisdom"}, "subcommand"},
      {{"wisdom", "train"}, "no subcommand \"train\" of wisdom"},
      {{"wisdom", "--train"}, "no option \"--train\" of wisdom"},
      {{"machine", "--fast"}, "--fast"},
      {{"machine", "extra"}, "extra"},
      {bounds, "--M"},
      {{"bounds", "--d", "4", "--M", "100"}, "--n"},
      {bounds + Arguments{"--M", "0"}, "\"0\" is not an integer from 1"},
      {bounds + Arguments{"--M", "-5"}, "--M"},
      {bounds + Arguments{"--M", "1e3"}, "1e3"},
      {bounds + Arguments{"--M", "0x10"}, "0x10"},
      {bounds + Arguments{"--M", "99999999999999999999"}, "is not an integer"},
      {bounds + Arguments{"--M", ""}, "is not an integer"},
      {bounds + Arguments{"--M", "100", "--tie", "some"}, "none, kv or all"},
      {bounds + Arguments{"--M", "100", "--m", "9", "--tie", "all"}, "n = m"},
      {{"bounds", "--n", "2147483648", "--m", "2147483648", "--d", "2147483648", "--M", "100"},
       "64 bits"},
      {{"plan"}, "--problem"},
      {{"plan", "--n", "8"}, "--d"},
      {{"plan", "--problem", "layer:n8"}, "required"},
      {{"plan", "--problem", "sdap:n8,d8"}, "\"layer:\" or \"sdpa:\""},
      {{"plan", "--problem", "layer:n8,d8,q3"}, "unknown field \"q3\""},
      {{"plan", "--problem", "layer:n-8,d8"}, "the value of field \"n-8\" is not valid"},
      {{"plan", "--problm", "layer:n8,d8"},
       "no option \"--problm\" of plan (see ioattn plan --help)"},
      {{"sdpa", "--q", "Q.npy"}, "no option \"--q\" of sdpa"},
      {plan + Arguments{"more"}, "no argument \"more\" of plan (see ioattn plan --help)"},
      {{"--fast"}, "no option \"--fast\" (see ioattn --help)"},
      {{"wisdom", "print"}, "no subcommand \"print\" of wisdom (see ioattn wisdom --help)"},
      {{"plan", "--problem", "layer:n0,d8"}, "at least 1"},
      {plan + Arguments{"--n", "8"}, "--problem"},
      {plan + Arguments{"--level", "L4"}, "L1, L2 or L3"},
      {plan + Arguments{"--level", "L1", "--M", "500"}, "--M"},
      {plan + Arguments{"--pass", "sideways"}, "forward or backward"},
      {plan + Arguments{"--schedule", "fastest"}, "row_stream"},
      {plan + Arguments{"--schedule", "col_stream"}, "no schedule is called \"col_stream\""},
      {plan + Arguments{"--schedule", "naive", "--pass", "forward"}, "naive has no forward pass"},
      {plan + Arguments{"--literal"}, "paper_large"},
      {plan + Arguments{"--M", "3"}, "the least is"},
      {plan + Arguments{"--M", "100000", "--schedule", "paper_small", "--memory-limit", "1000"},
       "paper_small for M = 100000 words (backward pass) needs more than 1000 bytes"},
      {{"bounds", "--M", "64", "--sparse", "[s,e]"}, "[s,e]"},
      {{"tune", "--dry-run", "--problem", "[sdpa:n8]"}, "begins with"},
      {measure + Arguments{"--level", "L1,"}, "\"L1,\" is not a list"},
      {measure + Arguments{"--objective", "time,"}, "--objective"},
      {measure + Arguments{"--sweep-M", "600,"}, "\"600,\" is not a list"},
      {measure + Arguments{"--sweep-M", "600:1200:2:"}, "\"600:1200:2:\" is not a list"},
      {{"measure", "--event", "page-faults,", "--", "true"}, "event"},
      {{"demo"}, "directory"},
      {{"demo", "/nonexistent"}, "no such file"},
  };
  for (const WrongLine& line : lines) {
    SCOPED_TRACE(testing::PrintToString(line.arguments));
    expect_failure(run_ioattn(line.arguments), 2, line.says);
  }
}

class GradExitCode : public testing::Test {
 protected:
  void SetUp() override { make_layer_case({6, 7, 5, 4}, Ties::none, "f32", 1, &layer_); }

  RunResult run(const Arguments& more = {}) { return run_ioattn(layer_.grad() + more); }
  std::string path(const std::string& name) const { return layer_.directory / (name + ".npy"); }

  LayerCase layer_;
};

TEST_F(GradExitCode, WrongOptionsAreTwo) {
  const WrongLine lines[] = {
      {{"--schedule", "fastest"}, "no schedule is called \"fastest\""},
      {{"--dtype", "f8"}, "f32, f64, bf16 or f16"},
      {{"--outputs", "O,dZ"}, "O, LSE, dX, dY"},
      {{"--outputs", "O,O"}, "O, LSE, dX"},
      {{"--outputs", ""}, "O, LSE, dX"},
      {{"--outputs", "O,"}, "\"O,\" is not a list"},
      {{"--threads", "0"}, "--threads"},
      {{"--literal"}, "paper_large"},
      {{"--schedule", "row_stream", "--literal"}, "paper_large"},
      {{"--M", "some"}, "--M"},
  };
  for (const WrongLine& line : lines) {
    SCOPED_TRACE(testing::PrintToString(line.arguments));
    expect_failure(run(line.arguments), 2, line.says);
  }
  EXPECT_FALSE(std::filesystem::exists(layer_.out())) << "a refused run wrote something";
}

TEST_F(GradExitCode, MissingOptionsAreTwo) {
  const Arguments all = layer_.grad();
  for (const char* name : {"--A1", "--X", "--Y", "--dO", "--out"}) {
    Arguments arguments;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] == name) {
        ++i;
      } else {
        arguments.push_back(all[i]);
      }
    }
    expect_failure(run_ioattn(arguments), 2, name);
  }
}

TEST_F(GradExitCode, WrongFilesAreTwoAndNamed) {
  struct Damage {
    const char* operand;
    std::string bytes;
    const char* says;
  };
  const auto matrix = [](std::size_t rows, std::size_t cols) {
    return npy_matrix<float>(rows, cols, std::vector<float>(rows * cols));
  };
  const std::string good = read_file(path("X"));
  const auto typed = [](const std::string& descr, const char* shape, std::size_t bytes) {
    return npy_header(npy_dictionary(descr, false, shape)) + std::string(bytes, '\0');
  };
  const Damage damages[] = {
      {"X", "", "not a .npy file"},
      {"X", "some text\n", "not a .npy file"},
      {"X", good.substr(0, good.size() - 1), "truncated"},
      {"X", good.substr(0, 40), "truncated"},
      {"X", good + "0", "too long"},
      {"X", typed("<i8", "(5, 5)", 200),
       "'<i8' is not supported; '<f4', '<f8', '<f2', '|V2' or '<u2'"},
      {"X", typed("<\x1b[2J\xff", "(5, 5)", 200), "'<\\x1b[2J\\xff' is not supported"},
      {"X", typed(">f4", "(5, 5)", 100), "big-endian"},
      {"X", typed(std::string("<f\0x", 4), "(5, 5)", 100), "'<f\\x00x' is not supported"},
      {"X", typed("<f4", "(25,)", 100), "rank 1"},
      {"X", typed("<f4", "(5, 5, 1)", 100), "rank 3"},
      {"X", typed("<f4", "(4611686018427387904, 4611686018427387904)", 0), "overflow"},
      {"A1", matrix(6, 6), "is 7 x 5, not 7 x 6"},
      {"A2", matrix(7, 4), "A2 is 7 x 4, not 7 x 5"},
      {"A3", matrix(6, 5), "A3.npy: A3 is 6 x 5, not 7 x 5"},
      {"X", matrix(5, 4), "X is 5 x 4, not 5 x 5"},
      {"Y", matrix(4, 4), "Y is 4 x 4, not 5 x 4"},
      {"dO", matrix(6, 5), "dO is 6 x 5, not 6 x 4"},
      {"dO", matrix(7, 4), "dO is 7 x 4, not 6 x 4"},
  };
  for (const Damage& damage : damages) {
    SCOPED_TRACE(std::string(damage.operand) + ": " + damage.says);
    const std::string file = path(damage.operand), before = read_file(file);
    write_file(file, damage.bytes);
    const RunResult result = run();
    expect_failure(result, 2, damage.says);
    EXPECT_TRUE(contains(result.err, layer_.directory.path())) << "names no file: " << result.err;
    write_file(file, before);
  }
  for (const char* operand : {"A1", "A2", "A3", "X", "Y", "dO"}) {
    const std::string file = path(operand), before = read_file(file);
    std::filesystem::remove(file);
    expect_failure(run(), 2, file + ": no such file");
    std::filesystem::create_directory(file);
    expect_failure(run(), 2, file + ": not a regular file");
    std::filesystem::remove(file);
    write_file(file, before);
  }
  EXPECT_EQ(run().exit_code, 0);
}

// A3 is A1 where it is not given, as help says, and the message.
TEST_F(GradExitCode, OfA2AloneTheSizesAreOne) {
  const RunResult result =
      run_ioattn({"grad", "--A1", path("A1"), "--A2", path("A2"), "--X", path("X"), "--Y",
                  path("Y"), "--dO", path("dO"), "--out", layer_.out()});
  expect_failure(result, 2, "A1.npy: A3 (no --A3: A1) is 6 x 5, not 7 x 5");
}

// The M that the message names works, and one word less does not.
TEST_F(GradExitCode, TooSmallMIsTwoAndNamesTheLeastThatWorks) {
  for (const char* schedule : and_auto(backward_schedules)) {
    for (const char* outputs : {"O", "dX", "O,LSE,dX"}) {
      SCOPED_TRACE(std::string(schedule) + " " + outputs);
      const auto at = [&](const std::string& M) {
        return run({"--schedule", schedule, "--outputs", outputs, "--M", M});
      };
      const RunResult tiny = at("1");
      if (outputs == std::string("O") && !has_forward_pass(schedule)) {
        expect_failure(tiny, 2, std::string(schedule) + " has no forward pass");
        continue;
      }
      expect_failure(tiny, 2, "M = 1 words is too small");
      std::smatch least;
      ASSERT_TRUE(std::regex_search(tiny.err, least, std::regex("the least is ([0-9]+)")));
      long M = std::stol(least[1]);
      // Of the other pass, if that needs more.
      const RunResult next = at(std::to_string(M));
      if (next.exit_code != 0) {
        ASSERT_TRUE(std::regex_search(next.err, least, std::regex("the least is ([0-9]+)")));
        EXPECT_GT(std::stol(least[1]), M);
        M = std::stol(least[1]);
      }
      EXPECT_EQ(at(std::to_string(M)).exit_code, 0) << at(std::to_string(M)).err;
      expect_failure(at(std::to_string(M - 1)), 2, "the least is " + std::to_string(M));
    }
  }
}

TEST_F(GradExitCode, UnknownOrMissingIsaIsTwo) {
  EXPECT_EQ(run_ioattn(layer_.grad(), {{"IOATTN_ISA", "scalar"}}).exit_code, 0);
  expect_failure(run_ioattn(layer_.grad(), {{"IOATTN_ISA", "sse9"}}), 2, "sse9");
  expect_failure(run_ioattn({"machine"}, {{"IOATTN_ISA", "sse9"}}), 2, "sse9");
  expect_failure(run_ioattn({"plan", "--n", "8", "--d", "8"}, {{"IOATTN_ISA", "sse9"}}), 2, "sse9");
  if (!ioattn::machine::this_machine().isa.has(ioattn::Isa::avx512)) {
    expect_failure(run_ioattn({"machine"}, {{"IOATTN_ISA", "avx512"}}), 2, "avx512");
  }
  const RunResult tiles = run_ioattn({"machine"}, {{"IOATTN_ISA", "avx512_amx"}});
  if (tiles.exit_code == 0) {
    EXPECT_NE(tiles.out.find("kernels: avx512_amx"), std::string::npos) << tiles.out;
  } else {  // and why
    expect_failure(tiles, 2, "avx512_amx is not available on this CPU (");
  }
}

TEST_F(GradExitCode, OutputThatCannotBeWrittenIsOne) {
  // A file in place of the directory, one that nobody can create, and a directory in place of a
  // file.
  write_file(layer_.out(), "a file");
  expect_failure(run(), 1, layer_.out());
  EXPECT_EQ(read_file(layer_.out()), "a file");
  Arguments below_proc = layer_.grad();
  below_proc.back() = "/proc/ioattn/out";
  expect_failure(run_ioattn(below_proc), 1, "/proc/ioattn/out: No such file or directory");
  below_proc.back() = "/proc";
  expect_failure(run_ioattn(below_proc), 1, "/proc/");

  std::filesystem::remove(layer_.out());
  std::filesystem::create_directories(layer_.out() + "/dX.npy");
  expect_failure(run(), 1, "dX.npy");
  for (const auto& entry : std::filesystem::directory_iterator(layer_.out())) {
    EXPECT_FALSE(contains(entry.path().filename().string(), "tmp")) << entry.path();
  }
}

TEST(IgnoredOverride, IsTold) {
  const Arguments plan = {"plan", "--n", "64", "--d", "16"};
  const RunResult ignored = run_ioattn(plan, {{"IOATTN_L2", "much"}});
  EXPECT_EQ(ignored.exit_code, 0);
  EXPECT_TRUE(is_one_error_line(ignored.err)) << ignored.err;
  EXPECT_TRUE(contains(ignored.err, "note: IOATTN_L2 is ignored")) << ignored.err;
  EXPECT_EQ(run_ioattn(plan, {{"IOATTN_L2", "1M"}}).err, "");
  EXPECT_EQ(run_ioattn({"machine"}, {{"IOATTN_L2", "much"}}).err, "");  // a note of its own
}

TEST_F(GradExitCode, FullStdoutIsOne) {
  for (const char* json : {"--json", "--dtype=f32"}) {
    const RunResult result = run_ioattn_to("/dev/full", layer_.grad() + Arguments{json});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.err, "ioattn: cannot write to stdout: No space left on device\n");
  }
  // More than a buffer of stdout holds, so that printing itself fails.
  EXPECT_EQ(run_ioattn_to("/dev/full", {"regimes", "--json"}).err,
            "ioattn: cannot write to stdout: No space left on device\n");
  for (const char* option : {"--version", "--help"})
    EXPECT_EQ(run_ioattn_to("/dev/full", {option}).exit_code, 1) << option;
}

#if !IOATTN_SANITIZER_OWNS_MALLOC
TEST_F(GradExitCode, TooLittleMemoryIsOne) {
  // 8 GiB of zeros that take no room on disk.
  write_file(path("A1"), npy_header(npy_dictionary("<f4", false, "(65536, 32768)")));
  const auto size = std::filesystem::file_size(path("A1")) + (std::uintmax_t{8} << 30);
  std::error_code error;
  std::filesystem::resize_file(path("A1"), size, error);
  if (error) GTEST_SKIP() << "no sparse files in " << layer_.directory.path();
  expect_failure(run_ioattn(layer_.grad(), {}, "ulimit -v 4000000"), 1, "out of memory");
}
#endif

TEST_F(GradExitCode, NanAndInfAreOneWarning) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(25, 0.25f);
    x[7] = value;
    write_file(path("X"), npy_matrix<float>(5, 5, x));
    const RunResult result = run({"--json"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
    EXPECT_TRUE(contains(result.err, "warning: NaN or Inf in X")) << result.err;
    EXPECT_TRUE(result.json().contains("io"));
    const NpyArray dx = parse_npy(layer_.output("dX"));
    EXPECT_TRUE(
        std::any_of(dx.values.begin(), dx.values.end(), [](double v) { return std::isnan(v); }));
  }
  write_file(path("dO"), npy_matrix<float>(6, 4, std::vector<float>(24, NAN)));
  EXPECT_TRUE(contains(run().err, "in X, dO, as f32\n"));
}

TEST_F(GradExitCode, DoublesBeyondFloatAreWarnedAbout) {
  std::vector<double> y(20, 1.0);
  y[3] = 1e300;
  write_file(path("Y"), npy_matrix<double>(5, 4, y));
  EXPECT_TRUE(contains(run({"--dtype", "f32"}).err, "warning: NaN or Inf in Y"));
  EXPECT_EQ(run({"--dtype", "f64"}).err, "");
}

}  // namespace
