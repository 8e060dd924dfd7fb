#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/schedule.hpp"
#include "cli/support/layer_case.hpp"
#include "cli/support/npy_bytes.hpp"
#include "data_path.hpp"
#include "reference/oracle.hpp"

namespace {

using namespace ioattn_cli_test;
using ioattn_reference::Ties;
using Json = nlohmann::json;

// The files of a demo: A, X, Y, dO in f32 and golden_dX from the oracle.
void make_demo_directory(const TemporaryDirectory& directory, double golden_change) {
  const ioattn_reference::LayerInputs<double> in =
      ioattn_reference::make_case(ioattn_reference::Kind::normal, {24, 24, 18, 6, Ties::all}, 11);
  ioattn_reference::Backward<double> gradients =
      ioattn_reference::backward(in, ioattn_reference::forward(in));
  gradients.dX(3, 4) += golden_change;
  write_matrix(directory / "A.npy", in.A1, "f32");
  write_matrix(directory / "X.npy", in.X, "f32");
  write_matrix(directory / "Y.npy", in.Y, "f32");
  write_matrix(directory / "dO.npy", in.dO, "f32");
  write_matrix(directory / "golden_dX.npy", gradients.dX, "f64");
}

// Every run within its error bound, above its lower bound, and counted.
int check_rows(const Json& rows) {
  int runs = 0;
  for (const Json& row : rows) {
    if (!row["fits"].get<bool>()) {
      EXPECT_GT(row["least_M"], 0);
      continue;
    }
    ++runs;
    const Json& io = row["io"];
    EXPECT_LE(row["error"].get<double>(), row["dtype"] == "f32" ? 5e-6 : 1e-13) << row;
    EXPECT_EQ(io["formula"], io["reads"].get<long>() + io["writes"].get<long>());
    EXPECT_LE(io["lower_bound"].get<double>(), io["formula"].get<double>()) << row;
    EXPECT_TRUE(io["bound_M"] == io["M"] || row["literal"].get<bool>()) << row;
  }
  return runs;
}

std::set<std::string> schedules(const Json& rows) {
  std::set<std::string> names;
  for (const Json& row : rows) {
    std::string name = row["schedule"];
    ioattn::Schedule schedule;
    EXPECT_TRUE(ioattn::parse_schedule(name, &schedule)) << name;
    // Named where there are two.
    if (!row["form"].is_null() && ioattn::has_form(schedule, ioattn::Form::g))
      name += " " + row["form"].get<std::string>();
    if (row["products"] == "stored") name += " stored";
    if (row["literal"].get<bool>()) name += " literal";
    names.insert(name + " " + row["dtype"].get<std::string>());
  }
  return names;
}

TEST(Demo, RunsEveryScheduleOnModelData) {
  const RunResult result = run_ioattn({"demo", ioattn_test::data_path("minilm"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const Json json = result.json();
  for (const ioattn::Pass pass : {ioattn::Pass::forward, ioattn::Pass::backward}) {
    std::set<std::string> expected;
    for (const char* dtype : {" f32", " f64"}) {
      expected.insert(std::string("paper_large literal") + dtype);
      for (const ioattn::Variant& v : ioattn::variants()) {
        if (v.pass == pass) expected.insert(to_text(v) + dtype);
      }
    }
    EXPECT_EQ(schedules(json[name_of(pass)]), expected);
  }
  EXPECT_GE(check_rows(json["backward"]), 10);
  EXPECT_GE(check_rows(json["forward"]), 10);
  ASSERT_GE(json["sweep"].size(), 5u);
  EXPECT_EQ(json["sweep"][0]["M"], 200);
  for (const Json& point : json["sweep"]) {
    EXPECT_GE(check_rows(point["rows"]), 2);
    for (const Json& row : point["rows"]) {
      if (row["fits"].get<bool>()) {
        EXPECT_EQ(row["io"]["M"], point["M"]);
      }
    }
  }
  EXPECT_NE(json["learned"].get<std::string>().find("every count equals its formula"),
            std::string::npos);
}

TEST(Demo, PrintsTheStepsInOrder) {
  const TemporaryDirectory directory;
  make_demo_directory(directory, 0);
  const RunResult result = run_ioattn({"demo", directory.path()}, {{"IOATTN_L2", "16k"}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::size_t at = 0;
  for (const char* part :
       {"machine: ", "L1: M = ", "L2: M = 3,072 words", "backward at L2", "naive", "paper_small",
        "paper_large", "row_stream g-form", "row_stream h-form", "paper_large literal",
        "forward at L2", "by M", "\nlearned: at L2 (M = 3,072 words) resident "}) {
    const std::size_t found = result.out.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << " after " << result.out.substr(at);
    at = found;
  }
  EXPECT_EQ(result.out.find('\n', at + 1), result.out.size() - 1) << "the last line is not last";
}

TEST(Demo, AWrongResultIsOne) {
  const TemporaryDirectory directory;
  make_demo_directory(directory, 0);
  EXPECT_EQ(run_ioattn({"demo", directory.path()}).exit_code, 0);
  // Too little for f32, too much for f64.
  make_demo_directory(directory, 1e-8);
  const RunResult subtle = run_ioattn({"demo", directory.path()});
  EXPECT_EQ(subtle.exit_code, 1);
  EXPECT_TRUE(is_one_error_line(subtle.err)) << subtle.err;
  EXPECT_NE(subtle.err.find("exceed the error bounds"), std::string::npos);
  EXPECT_NE(subtle.out.find(" !"), std::string::npos);
  make_demo_directory(directory, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(run_ioattn({"demo", directory.path()}).exit_code, 1);
}

TEST(Demo, WrongFilesAreTwo) {
  const TemporaryDirectory directory;
  make_demo_directory(directory, 0);
  for (const char* name : {"A", "X", "Y", "dO", "golden_dX"}) {
    const std::string path = directory / (std::string(name) + ".npy"), before = read_file(path);
    std::filesystem::remove(path);
    const RunResult missing = run_ioattn({"demo", directory.path()});
    EXPECT_EQ(missing.exit_code, 2);
    EXPECT_NE(missing.err.find(path + ": no such file"), std::string::npos) << missing.err;
    write_file(path, npy_matrix<double>(2, 3, std::vector<double>(6)));
    const RunResult other = run_ioattn({"demo", directory.path()});
    EXPECT_EQ(other.exit_code, 2) << name;
    EXPECT_TRUE(is_one_error_line(other.err)) << other.err;
    write_file(path, before);
  }
  // Errors in f64 are held to it.
  write_file(directory / "golden_dX.npy", npy_matrix<float>(18, 18, std::vector<float>(18 * 18)));
  const RunResult rounded = run_ioattn({"demo", directory.path()});
  EXPECT_EQ(rounded.exit_code, 2);
  EXPECT_NE(rounded.err.find("golden_dX is not float64"), std::string::npos) << rounded.err;
}

}  // namespace
