// ioattn grad in 16 bits: files of any type come in, results are bf16 or f16, or gradients in f32.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cli/support/layer_case.hpp"
#include "cli/support/npy_bytes.hpp"
#include "reference/oracle.hpp"
#include "tune/passes/measured_gradients.hpp"
#include "tune/passes/measured_pass.hpp"

namespace {

using namespace ioattn_cli_test;
using ioattn_reference::Ties;

struct HalfType {
  const char *dtype, *descr;
  double limit;  // of errors, against the largest entry: inputs are rounded, too
};
void PrintTo(const HalfType& type, std::ostream* out) { *out << type.dtype; }

class GradHalf : public testing::TestWithParam<HalfType> {};

TEST_P(GradHalf, WritesWhatTheReferenceHas) {
  const auto [dtype, descr, limit] = GetParam();
  LayerCase layer;
  make_layer_case({40, 30, 12, 7}, Ties::none, "f32", 11, &layer);
  const Arguments all = layer.grad() + Arguments{"--outputs", "O,LSE,dX,dY,dA1,dA2,dA3",
                                                 "--dtype",   dtype,
                                                 "--scale",   "0.25",
                                                 "--json"};
  ioattn_reference::LayerInputs<double> inputs = layer.inputs;
  inputs.scale = 0.25;
  const auto forward = ioattn_reference::forward(inputs);
  const auto backward = ioattn_reference::backward(inputs, forward);
  for (const bool in_f32 : {false, true}) {
    const RunResult result = run_ioattn(in_f32 ? all + Arguments{"--f32-gradients"} : all);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json json = result.json();
    EXPECT_EQ(json["dtype"], dtype);
    for (const auto& entry : json["io"]) {
      EXPECT_EQ(entry["formula"], entry["reads"].get<long>() + entry["writes"].get<long>());
      EXPECT_LE(entry["footprint"], entry["M"]);
      EXPECT_LE(entry["lower_bound"], entry["formula"]);
    }
    EXPECT_EQ(parse_npy(layer.output("O")).descr, descr);
    EXPECT_EQ(parse_npy(layer.output("LSE")).descr, "<f4");
    EXPECT_LE(relative_error(layer.output("O"), forward.O), limit);
    for (const auto& [name, wanted] :
         {std::pair("dX", &backward.dX), std::pair("dY", &backward.dY),
          std::pair("dA1", &backward.dA1), std::pair("dA2", &backward.dA2),
          std::pair("dA3", &backward.dA3)}) {
      EXPECT_EQ(parse_npy(layer.output(name)).descr, in_f32 ? "<f4" : descr) << name;
      EXPECT_LE(relative_error(layer.output(name), *wanted), limit) << name;
    }
  }
}

// Its own files, and dX alone; more threads change no bit.
TEST_P(GradHalf, ReadsWhatItWrites) {
  const auto [dtype, descr, limit] = GetParam();
  LayerCase layer;
  make_layer_case({30, 30, 8, 8}, Ties::all, "f32", 12, &layer);
  ASSERT_EQ(run_ioattn(layer.grad() + Arguments{"--dtype", dtype}).exit_code, 0);
  const std::string o = layer.output("O"), dx = layer.output("dX");
  write_file(layer.directory / "dO.npy", o);
  for (const char* threads : {"1", "3"}) {
    // The type is that of A1, unless one is asked for.
    ASSERT_EQ(
        run_ioattn(layer.grad() + Arguments{"--dtype", dtype, "--threads", threads}).exit_code, 0);
    EXPECT_EQ(layer.output("O"), o);
    EXPECT_NE(layer.output("dX"), dx);
  }
  write_file(layer.directory / "A1.npy", dx);
  write_file(layer.directory / "dO.npy", dx);
  ASSERT_EQ(run_ioattn(layer.grad()).exit_code, 0);
  EXPECT_EQ(parse_npy(layer.output("dX")).descr, descr);
}

TEST_P(GradHalf, IsPlannedAndMeasured) {
  const std::string dtype = GetParam().dtype;
  const RunResult plan = run_ioattn({"plan", "--problem", "layer:n300,d32," + dtype, "--json"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  const RunResult measured =
      run_ioattn({"measure", "--problem", "layer:n150,d16," + dtype, "--simulate", "--json"});
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
}

// As many as the same gradients in f32 have beyond the largest number.
TEST(GradHalfFiles, TellsWhatOverflows) {
  LayerCase layer;
  make_layer_case({40, 30, 12, 7}, Ties::none, "f32", 11, &layer);
  ioattn_reference::Matrix<double> large = layer.inputs.dO;
  for (double& x : large.values) x *= 8192;
  write_matrix(layer.directory / "dO.npy", large, "f32");
  for (const char* outputs : {"O,dX", "O,dX,dY,dA1,dW_Q"}) {
    SCOPED_TRACE(outputs);
    Arguments arguments =
        layer.grad() + Arguments{"--outputs", outputs, "--dtype", "f16", "--json"};
    if (std::string(outputs).find("dW_Q") != std::string::npos) {
      write_matrix(layer.directory / "W_K.npy", layer.inputs.X, "f32");
      arguments = arguments + Arguments{"--W_K", layer.directory / "W_K.npy"};
    }
    const RunResult wide = run_ioattn(arguments + Arguments{"--f32-gradients"});
    ASSERT_EQ(wide.exit_code, 0) << wide.err;
    EXPECT_TRUE(wide.json()["io"][0]["overflows"].is_null());
    nlohmann::json expected;
    for (const char* name : {"dX", "dY", "dA1", "dW_Q"}) {
      if (std::string(outputs).find(name) == std::string::npos) continue;
      long count = 0;
      for (const double x : parse_npy(layer.output(name)).values) count += std::fabs(x) >= 65520;
      expected[name] = count;
    }
    EXPECT_GT(expected["dX"], 0);
    const RunResult result = run_ioattn(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.json()["io"][0]["overflows"], expected);
    EXPECT_EQ(result.json()["io"][1]["overflows"], (nlohmann::json{{"O", 0}}));
    arguments.erase(std::find(arguments.begin(), arguments.end(), "--json"));
    const RunResult text = run_ioattn(arguments);
    EXPECT_NE(text.out.find("rounded to infinity: dX "), std::string::npos) << text.out;
  }
}

TEST(GradHalfFiles, SaysWhatItCannot) {
  LayerCase layer;
  make_layer_case({6, 9, 5, 4}, Ties::none, "f32", 4, &layer);
  const RunResult fused =
      run_ioattn(layer.grad() + Arguments{"--dtype", "bf16", "--schedule", "resident"});
  EXPECT_EQ(fused.exit_code, 2);
  EXPECT_NE(fused.err.find("16 bits"), std::string::npos) << fused.err;
  const RunResult wide = run_ioattn(layer.grad() + Arguments{"--dtype", "f64", "--f32-gradients"});
  EXPECT_EQ(wide.exit_code, 2);
  EXPECT_NE(wide.err.find("--f32-gradients"), std::string::npos) << wide.err;
}

// peak_fraction compares with multiply-adds of what the products multiply.
TEST(GradHalfPeak, IsOfTheFactorsOfTheProducts) {
  using ioattn::DType;
  using ioattn::Schedule;
  const auto factors = [](Schedule schedule, DType dtype) {
    ioattn::tune::PlannedPass planned;
    planned.problem.dtype = dtype;
    planned.plan.schedule = schedule;
    return ioattn::tune::report_of(planned).factors;
  };
  EXPECT_EQ(factors(Schedule::tile_fused, DType::bf16), DType::bf16);
  EXPECT_EQ(factors(Schedule::row_stream, DType::bf16), DType::f32);
  EXPECT_EQ(factors(Schedule::q_stored, DType::f16), DType::f32);
  EXPECT_EQ(factors(Schedule::tile_fused, DType::f32), DType::f32);
  EXPECT_EQ(factors(Schedule::row_stream, DType::f64), DType::f64);
}

// Of gradients whose only pass over scores is over the keys, that one is told and counts.
TEST(GradHalfPeak, IsOfThePassThatRuns) {
  ioattn::LayerProblem problem;
  problem.shape = {2048, 2048, 64, 128, ioattn::Tie::none, {}};
  problem.dtype = ioattn::DType::bf16;
  const ioattn::tune::PlannedGradients planned =
      ioattn::tune::plan_gradients(problem, {.dY = true}, {});
  const ioattn::tune::PassReport report = ioattn::tune::report_of(planned.pass);
  EXPECT_EQ(report.schedule, planned.plan.blocks.by_keys);
  const bool by_pairs = planned.plan.blocks.by_keys == ioattn::Schedule::tile_fused;
  EXPECT_EQ(report.factors, by_pairs ? ioattn::DType::bf16 : ioattn::DType::f32);
}

INSTANTIATE_TEST_SUITE_P(Types, GradHalf,
                         testing::Values(HalfType{"bf16", "|V2", 0.03},
                                         HalfType{"f16", "<f2", 0.004}));

}  // namespace
