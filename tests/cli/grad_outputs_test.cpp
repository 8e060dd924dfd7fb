#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/support/layer_case.hpp"
#include "cli/support/npy_bytes.hpp"
#include "reference/oracle.hpp"

// Gradients other than dX: what `grad` writes, and what it tells of their phases.
namespace {

using namespace ioattn_cli_test;
namespace ref = ioattn_reference;
using ref::Ties;
using Json = nlohmann::json;

ref::Matrix<double> plus(ref::Matrix<double> a, const ref::Matrix<double>& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

class GradOutputs : public testing::Test {
 protected:
  void prepare(Ties ties) {
    make_layer_case({30, 30, 11, 8}, ties, "f64", 5, &layer_);
    w_q_ = ref::random_matrix(11, 4, 1);
    w_k_ = ref::random_matrix(11, 4, 2);
    write_matrix(layer_.directory / "W_Q.npy", w_q_, "f64");
    write_matrix(layer_.directory / "W_K.npy", w_k_, "f64");
    backward_ = ref::backward(layer_.inputs, ref::forward(layer_.inputs));
  }
  RunResult run(const Arguments& more) const {
    return run_ioattn(layer_.grad() +
                      Arguments{"--json", "--W_Q", layer_.directory / "W_Q.npy", "--W_K",
                                layer_.directory / "W_K.npy"} +
                      more);
  }
  void expect(const char* name, const ref::Matrix<double>& wanted) const {
    EXPECT_LE(relative_error(layer_.output(name), wanted), 1e-13) << name;
  }

  LayerCase layer_;
  ref::Matrix<double> w_q_, w_k_;
  ref::Backward<double> backward_;
};

TEST_F(GradOutputs, AreTheOraclesAndCountedByPhase) {
  prepare(Ties::none);
  const RunResult result =
      run({"--outputs", "O,dX,dY,dA1,dA2,dA3,dW_Q,dW_K", "--M", "1500", "--threads", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect("dX", backward_.dX);
  expect("dY", backward_.dY);
  expect("dA1", backward_.dA1);
  expect("dA2", backward_.dA2);
  expect("dA3", backward_.dA3);
  expect("dW_Q", ref::multiply(backward_.dX, w_k_));
  expect("dW_K", ref::multiply(ref::transpose(backward_.dX), w_q_));
  EXPECT_FALSE(std::filesystem::exists(layer_.out() + "/LSE.npy"));

  const Json json = Json::parse(result.out);
  ASSERT_EQ(json["files"].size(), 8u);
  for (const Json& file : json["files"]) EXPECT_TRUE(std::filesystem::exists(file)) << file;
  ASSERT_EQ(json["io"].size(), 2u);
  const Json& io = json["io"][0];
  std::vector<std::string> names;
  long words = 0;
  for (const Json& phase : io["phases"]) {
    names.push_back(phase["name"]);
    words += phase["reads"].get<long>() + phase["writes"].get<long>();
    EXPECT_LE(phase["footprint"].get<long>(), 1500);
  }
  // U on the way of dA2 and W
  const std::vector<std::string> wanted = {"delta", "S",  "h",   "col_stream", "dX",
                                           "dA3",   "dY", "dA1", "dW_Q",       "dW_K"};
  EXPECT_EQ(names, wanted);
  EXPECT_EQ(words, io["formula"].get<long>());
  EXPECT_GT(io["lower_bound"], 0);
  EXPECT_LE(io["lower_bound"].get<double>(), static_cast<double>(words));
  EXPECT_TRUE(io["bound"].is_string());
  const std::string plan = io["plan"];
  for (const char* part : {"M:row_stream(", " ; M:col_stream(", " ; dA3=", " ; dW_K="}) {
    EXPECT_NE(plan.find(part), std::string::npos) << plan;
  }
}

// One of W_Q and W_K is enough for the gradient by the other.
TEST_F(GradOutputs, OfOneWeightNeedTheOtherAlone) {
  prepare(Ties::none);
  const auto run_with = [&](const char* output, const char* option, const char* file) {
    const RunResult result =
        run_ioattn(layer_.grad() + Arguments{"--outputs", output, option, layer_.directory / file});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  };
  run_with("dW_Q", "--W_K", "W_K.npy");
  expect("dW_Q", ref::multiply(backward_.dX, w_k_));
  run_with("dW_K", "--W_Q", "W_Q.npy");
  expect("dW_K", ref::multiply(ref::transpose(backward_.dX), w_q_));
}

TEST_F(GradOutputs, SumOverOneFile) {
  prepare(Ties::all);
  const RunResult result = run({"--outputs", "dA"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect("dA", plus(plus(backward_.dA2, backward_.dA3), backward_.dA1));
  EXPECT_FALSE(std::filesystem::exists(layer_.out() + "/dX.npy"));
}

TEST_F(GradOutputs, WithoutWhatTheyNeedAreUsageErrors) {
  prepare(Ties::none);
  const auto refused = [&](const Arguments& arguments, const char* message) {
    const RunResult result = run_ioattn(layer_.grad() + arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_FALSE(std::filesystem::exists(layer_.out()));
  };
  refused({"--outputs", "dW_Q"}, "--W_K is required");
  refused({"--outputs", "dW_K"}, "--W_Q is required");
  refused({"--outputs", "dA"}, "it needs A2 = A3, or all three");
  refused({"--outputs", "dA1", "--schedule", "paper_small"}, "dX alone");
  refused({"--outputs", "dA1", "--M", "3"}, "the least is ");
  refused({"--outputs", "dW_Q", "--W_K", layer_.directory / "Y.npy", "--W_Q",
           layer_.directory / "W_Q.npy"},
          "W_K is 11 x 8, not 11 x 4");
}

}  // namespace
