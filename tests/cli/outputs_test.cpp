// What `grad` and `sdpa` leave behind: all of their files or none, and never their inputs changed.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/support/layer_case.hpp"
#include "data_path.hpp"

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
}

}  // namespace
