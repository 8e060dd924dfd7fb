// What `grad` and `sdpa` leave behind: all of their files or none, and never their inputs changed.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/support/layer_case.hpp"
#include "data_path.hpp"
#include "tune/command_error.hpp"
#include "tune/files/npy_outputs.hpp"
#include "tune/files/output_files.hpp"

namespace {

using namespace ioattn_cli_test;
namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  return names;
}

Arguments sdpa(const std::string& data, const std::string& out) {
  return {"sdpa",
          "--Q",
          data + "/Q.npy",
          "--K",
          data + "/K.npy",
          "--V",
          data + "/V.npy",
          "--dO",
          data + "/dO.npy",
          "--out",
          out};
}

TEST(Outputs, AppearTogetherOrNotAtAll) {
  LayerCase layer;
  make_layer_case({6, 7, 5, 4}, ioattn_reference::Ties::none, "f32", 1, &layer);
  const std::pair<Arguments, std::string> lines[] = {
      {layer.grad(), "dX.npy"}, {sdpa(ioattn_test::data_path("sdpa"), layer.out()), "dV.npy"}};
  for (const auto& [arguments, taken] : lines) {
    fs::remove_all(layer.out());
    fs::create_directories(layer.out() + "/" + taken);
    const RunResult result = run_ioattn(arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
    EXPECT_NE(result.err.find(taken), std::string::npos) << result.err;
    EXPECT_EQ(names_in(layer.out()), std::vector<std::string>{taken});
  }
}

TEST(Outputs, AreNoInputs) {
  LayerCase layer;
  make_layer_case({5, 5, 5, 5}, ioattn_reference::Ties::none, "f32", 1, &layer);
  ASSERT_EQ(run_ioattn(layer.grad()).exit_code, 0);
  const std::string out = layer.out(), before = layer.output("O");
  const auto expect_refused = [&](const Arguments& arguments) {
    const RunResult result = run_ioattn(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
    EXPECT_NE(result.err.find("O.npy"), std::string::npos) << result.err;
    EXPECT_EQ(layer.output("O"), before);
  };
  Arguments grad = layer.grad();
  grad[2] = out + "/../out/O.npy";
  expect_refused(grad);
  EXPECT_EQ(run_ioattn(grad + Arguments{"--outputs", "dX"}).exit_code, 0);  // writes no O
  expect_refused({"sdpa", "--Q", layer.directory / "A1.npy", "--K", layer.directory / "A2.npy",
                  "--V", out + "/O.npy", "--out", out});
}

// Before the passes run, which may take long: this one says nothing of its results.
TEST(Outputs, HaveAPlaceBeforeAnythingRuns) {
  LayerCase layer;
  make_layer_case({6, 7, 5, 4}, ioattn_reference::Ties::none, "f32", 1, &layer);
  fs::create_directories(layer.out() + "/dX.npy");
  EXPECT_THROW(ioattn::tune::NpyOutputs(layer.out(), {"O", "dX"}, {}), ioattn::tune::RunError);
  EXPECT_EQ(names_in(layer.out()), std::vector<std::string>{"dX.npy"});
  EXPECT_NO_THROW(ioattn::tune::NpyOutputs(layer.out(), {"O", "LSE"}, {}));
  EXPECT_EQ(names_in(layer.out()), std::vector<std::string>{"dX.npy"});
}

// A rename would put a file in the place of both.
TEST(Outputs, FollowLinksAndLeaveDevicesAlone) {
  LayerCase layer;
  make_layer_case({6, 7, 5, 4}, ioattn_reference::Ties::none, "f32", 1, &layer);
  fs::create_directories(layer.out());
  const std::string elsewhere = layer.directory / "elsewhere.npy", o = layer.out() + "/O.npy";
  write_file(elsewhere, "old");
  fs::create_symlink(elsewhere, o);
  ASSERT_EQ(run_ioattn(layer.grad()).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(o));
  EXPECT_EQ(read_file(elsewhere), layer.output("O"));
  EXPECT_GT(read_file(elsewhere).size(), 100u);

  fs::remove(elsewhere);
  ASSERT_EQ(run_ioattn(layer.grad()).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(o));
  EXPECT_EQ(read_file(elsewhere), layer.output("O"));
  EXPECT_GT(read_file(elsewhere).size(), 100u);

  fs::remove(o);
  fs::create_symlink("/dev/null", o);
  const RunResult device = run_ioattn(layer.grad());
  EXPECT_EQ(device.exit_code, 1);
  EXPECT_NE(device.err.find("O.npy: it is no regular file"), std::string::npos) << device.err;
  fs::remove(o);
  ASSERT_EQ(mkfifo(o.c_str(), 0600), 0);
  EXPECT_EQ(run_ioattn(layer.grad()).exit_code, 1);
  EXPECT_TRUE(fs::is_fifo(o));
}

// An empty name is no option that was left out.
TEST(Outputs, NeedADirectoryWithAName) {
  LayerCase layer;
  make_layer_case({6, 7, 5, 4}, ioattn_reference::Ties::none, "f32", 1, &layer);
  Arguments grad = layer.grad();
  grad.back() = "";
  for (const Arguments& arguments : {grad,
                                     sdpa(ioattn_test::data_path("sdpa"), ""),
                                     {"figure", "--n", "64", "--d", "16", "--out", ""}}) {
    const RunResult result = run_ioattn(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find("\"\" is no directory"), std::string::npos) << result.err;
  }
  const Arguments taken = sdpa(ioattn_test::data_path("sdpa"), layer.out());
  for (const Arguments& arguments : {taken + Arguments{"--bias", ""},
                                     layer.grad() + Arguments{"--W_Q", ""},
                                     {"wisdom", "forget", "--all", "--file", ""},
                                     {"wisdom", "export", ""},
                                     {"tune", "--shapes", ""},
                                     {"measure", "--output", "", "--", "true"},
                                     {"bounds", "--M", "64", "--sparse", ""}}) {
    const RunResult result =
        run_ioattn(arguments, {{"IOATTN_WISDOM", layer.directory / "wisdom.json"}});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find("\"\" is no file"), std::string::npos) << result.err;
  }
}

// A signal may come at any time.
TEST(Outputs, OfReportsAreNotThereBeforeThereIsAnything) {
  const TemporaryDirectory directory;
  const std::string path = directory / "report";
  ioattn::tune::ReportFile file(path);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(names_in(directory.path()).empty());
  file.write("all of it");
  EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{"report"});
  ioattn::tune::ReportFile again(path);
  EXPECT_EQ(read_file(path), "all of it");
  again.write("more");
  EXPECT_EQ(read_file(path), "more");
  EXPECT_THROW(ioattn::tune::ReportFile(directory / "none/report"), ioattn::tune::RunError);
}

}  // namespace
