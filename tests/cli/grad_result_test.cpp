#include <gtest/gtest.h>

#include <filesystem>

#include "cli/support/layer_case.hpp"
#include "cli/support/npy_bytes.hpp"
#include "data_path.hpp"
#include "reference/oracle.hpp"
#include "schedule_names.hpp"

// What `grad` writes.
namespace {

using namespace ioattn_test;
using namespace ioattn_cli_test;
using ioattn_reference::Ties;

struct Config {
  CaseSizes sizes;
  Ties ties;
  const char* dtype;
};
void PrintTo(const Config& config, std::ostream* out) {
  *out << config.sizes.n << "x" << config.sizes.m << "x" << config.sizes.d << "x" << config.sizes.dv
       << " " << config.dtype << " ties " << static_cast<int>(config.ties);
}

class GradResult : public testing::TestWithParam<Config> {
 protected:
  void SetUp() override {
    const Config& config = GetParam();
    make_layer_case(config.sizes, config.ties, config.dtype, 7, &layer_);
    forward_ = ioattn_reference::forward(layer_.inputs);
    backward_ = ioattn_reference::backward(layer_.inputs, forward_);
  }
  void expect_right() {
    const double limit = GetParam().dtype == std::string("f32") ? 5e-6 : 1e-13;
    EXPECT_LE(relative_error(layer_.output("O"), forward_.O), limit);
    EXPECT_LE(relative_error(layer_.output("LSE"), forward_.L), limit);
    EXPECT_LE(relative_error(layer_.output("dX"), backward_.dX), limit);
  }

  LayerCase layer_;
  ioattn_reference::Forward<double> forward_;
  ioattn_reference::Backward<double> backward_;
};

TEST_P(GradResult, EqualsTheOracleByEverySchedule) {
  for (const char* schedule : and_auto(backward_schedules)) {
    SCOPED_TRACE(schedule);
    const RunResult result = run_ioattn(layer_.grad() + Arguments{"--schedule", schedule});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    expect_right();
    std::filesystem::remove_all(layer_.out());
  }
  const RunResult literal =
      run_ioattn(layer_.grad() + Arguments{"--schedule", "paper_large", "--literal"});
  ASSERT_EQ(literal.exit_code, 0) << literal.err;
  expect_right();
}

TEST_P(GradResult, HasTheSameBitsForEveryNumberOfThreads) {
  for (const char* schedule : and_auto(backward_schedules)) {
    // Small blocks, or all that the schedule keeps.
    const char* M = std::string(schedule).ends_with("resident") ? "20000" : "2000";
    std::string first[3];
    for (const char* threads : {"1", "2", "3", "5"}) {
      SCOPED_TRACE(std::string(schedule) + " on " + threads);
      std::filesystem::remove_all(layer_.out());
      const RunResult result = run_ioattn(
          layer_.grad() + Arguments{"--schedule", schedule, "--threads", threads, "--M", M});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      int i = 0;
      for (const char* name : {"O", "LSE", "dX"}) {
        const std::string bytes = layer_.output(name);
        std::string& expected = first[i++];
        if (expected.empty()) expected = bytes;
        EXPECT_EQ(bytes, expected) << name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GradResult,
                         testing::Values(Config{{13, 17, 11, 5}, Ties::none, "f32"},
                                         Config{{13, 17, 11, 5}, Ties::none, "f64"},
                                         Config{{40, 24, 16, 24}, Ties::keys_values, "f64"},
                                         Config{{33, 33, 20, 20}, Ties::all, "f32"},
                                         Config{{150, 70, 24, 8}, Ties::none, "f32"},
                                         Config{{1, 1, 1, 1}, Ties::none, "f64"}));

TEST(GradFiles, HaveTheShapeAndTypeOfTheRun) {
  LayerCase layer;
  make_layer_case({6, 9, 5, 4}, Ties::none, "f64", 3, &layer);
  // X alone in f32: the run's dtype is that of A1.
  write_matrix(layer.directory / "X.npy", layer.inputs.X, "f32");
  for (const std::string dtype : {"", "f32", "f64"}) {
    const Arguments more = dtype.empty() ? Arguments{} : Arguments{"--dtype", dtype};
    ASSERT_EQ(run_ioattn(layer.grad() + more).exit_code, 0);
    const std::string descr = dtype == "f32" ? "<f4" : "<f8";
    const NpyArray o = parse_npy(layer.output("O")), lse = parse_npy(layer.output("LSE")),
                   dx = parse_npy(layer.output("dX"));
    EXPECT_EQ(o.descr, descr);
    EXPECT_EQ(lse.descr, descr);
    EXPECT_EQ(dx.descr, descr);
    EXPECT_EQ(o.shape, (std::vector<std::size_t>{6, 4}));
    EXPECT_EQ(lse.shape, std::vector<std::size_t>{6});
    EXPECT_EQ(dx.shape, (std::vector<std::size_t>{5, 5}));
  }
}

TEST(GradFiles, AreOnlyThoseAskedFor) {
  LayerCase layer;
  make_layer_case({6, 9, 5, 4}, Ties::none, "f32", 4, &layer);
  ASSERT_EQ(run_ioattn(layer.grad()).exit_code, 0);
  const std::string o = layer.output("O"), lse = layer.output("LSE"), dx = layer.output("dX");
  for (const std::string outputs : {"O", "LSE", "dX", "O,LSE", "dX,O", "LSE,dX,O"}) {
    SCOPED_TRACE(outputs);
    std::filesystem::remove_all(layer.out());
    ASSERT_EQ(run_ioattn(layer.grad() + Arguments{"--outputs", outputs}).exit_code, 0);
    for (const auto& [name, bytes] : {std::pair<std::string, std::string>{"O", o},
                                      std::pair<std::string, std::string>{"LSE", lse},
                                      std::pair<std::string, std::string>{"dX", dx}}) {
      const bool asked = ("," + outputs + ",").find("," + name + ",") != std::string::npos;
      ASSERT_EQ(std::filesystem::exists(layer.out() + "/" + name + ".npy"), asked) << name;
      if (asked) {
        EXPECT_EQ(layer.output(name), bytes) << name;
      }
    }
  }
}

TEST(GradFiles, OfModelDataHaveTheSameBitsForEveryNumberOfThreads) {
  const std::string data = ioattn_test::data_path("minilm/");
  const TemporaryDirectory directory;
  std::string first_o, first_dx;
  for (const char* threads : {"1", "2", "3", "5"}) {
    const RunResult result =
        run_ioattn({"grad", "--A1", data + "A.npy", "--X", data + "X.npy", "--Y", data + "Y.npy",
                    "--dO", data + "dO.npy", "--out", directory.path(), "--threads", threads});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string o = read_file(directory / "O.npy"), dx = read_file(directory / "dX.npy");
    if (first_o.empty()) {
      first_o = o;
      first_dx = dx;
    }
    EXPECT_EQ(o, first_o) << threads;
    EXPECT_EQ(dx, first_dx) << threads;
  }
}

TEST(GradFiles, GradientIsNotNeededForTheForwardPass) {
  LayerCase layer;
  make_layer_case({6, 9, 5, 4}, Ties::none, "f32", 4, &layer);
  Arguments arguments;
  const Arguments all = layer.grad();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == "--dO") {
      ++i;
    } else {
      arguments.push_back(all[i]);
    }
  }
  EXPECT_EQ(run_ioattn(arguments + Arguments{"--outputs", "O,LSE"}).exit_code, 0);
  EXPECT_EQ(run_ioattn(arguments).exit_code, 2);
}

TEST(GradFiles, FortranOrderGivesTheSameBits) {
  LayerCase layer;
  make_layer_case({12, 15, 9, 7}, Ties::none, "f64", 5, &layer);
  ASSERT_EQ(run_ioattn(layer.grad()).exit_code, 0);
  const std::string o = layer.output("O"), dx = layer.output("dX");
  for (const char* name : {"A1", "A2", "A3", "X", "Y", "dO"}) {
    const std::string path = layer.directory / (std::string(name) + ".npy");
    const NpyArray array = parse_npy(read_file(path));
    const std::size_t rows = array.shape[0], cols = array.shape[1];
    std::vector<double> columns;
    for (std::size_t j = 0; j < cols; ++j) {
      for (std::size_t i = 0; i < rows; ++i) columns.push_back(array.values[i * cols + j]);
    }
    const std::string plain = npy_matrix<double>(rows, cols, columns);
    const std::string shape = "(" + std::to_string(rows) + ", " + std::to_string(cols) + ")";
    write_file(path, npy_header(npy_dictionary("<f8", true, shape)) +
                         plain.substr(plain.size() - 8 * columns.size()));
  }
  std::filesystem::remove_all(layer.out());
  ASSERT_EQ(run_ioattn(layer.grad()).exit_code, 0);
  EXPECT_EQ(layer.output("O"), o);
  EXPECT_EQ(layer.output("dX"), dx);
}

TEST(GradFiles, NoKeysGiveZerosAndMinusInfinity) {
  LayerCase layer;
  make_layer_case({4, 0, 3, 2}, Ties::none, "f32", 6, &layer);
  const RunResult result = run_ioattn(layer.grad() + Arguments{"--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(parse_npy(layer.output("O")).values, std::vector<double>(8, 0.0));
  EXPECT_EQ(parse_npy(layer.output("LSE")).values,
            std::vector<double>(4, -std::numeric_limits<double>::infinity()));
  EXPECT_EQ(parse_npy(layer.output("dX")).values, std::vector<double>(9, 0.0));
  const nlohmann::json json = result.json();
  ASSERT_EQ(json["io"].size(), 2u);
  for (const auto& entry : json["io"]) {
    EXPECT_EQ(entry["formula"], 0);
    EXPECT_EQ(entry["lower_bound"], 0);
    EXPECT_NE(entry["assumption"].get<std::string>().find("nothing moves"), std::string::npos);
  }
}

}  // namespace
