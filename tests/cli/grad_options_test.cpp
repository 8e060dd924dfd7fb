#include <gtest/gtest.h>

#include <filesystem>

#include "base/problem.hpp"
#include "cli/support/layer_case.hpp"
#include "cli/support/npy_bytes.hpp"
#include "cli/support/text.hpp"
#include "plan/plan.hpp"
#include "reference/oracle.hpp"
#include "schedule_names.hpp"

// Batch, scale and mask of `grad`, and of the problems that `plan` takes.
namespace {

using namespace ioattn_test;
using namespace ioattn_cli_test;
namespace ref = ioattn_reference;
using ref::Ties;
using Json = nlohmann::json;

constexpr long long unlimited = ref::LayerInputs<double>::unlimited;

// A mask as options, and what it means: first and last key relative to a query.
struct MaskLine {
  Arguments options;
  long long first, last;
  std::string text;  // in the report
};
std::vector<MaskLine> mask_lines(std::size_t n, std::size_t m) {
  const long long corner = static_cast<long long>(m) - static_cast<long long>(n);
  const auto keys = [](const std::string& first, long long last) {
    return "keys" + first + ":" + std::to_string(last);
  };
  const std::string bottom_right = corner == 0 ? "causal" : "causal-bottom-right";
  return {
      {{}, -unlimited, unlimited, "none"},
      {{"--causal", "top-left"}, -unlimited, 0, "causal"},
      {{"--causal", "bottom-right"}, -unlimited, corner, bottom_right},
      {{"--window", "3,2"}, -3, 2, "keys-3:2"},
      {{"--window", "-1,2"}, -unlimited, 2, "keys*:2"},
      {{"--window", "3,-1"}, -3, unlimited, "keys-3:*"},
      {{"--window", "-1,-1"}, -unlimited, unlimited, "none"},
      {{"--window", "0,0"}, 0, 0, "keys0:0"},
      {{"--window", "4,0", "--causal", "top-left"}, -4, 0, "keys-4:0"},
      {{"--causal", "top-left", "--window", "4,-1"}, -4, 0, "keys-4:0"},
      {{"--causal", "bottom-right", "--window", "4,0"},
       corner - 4,
       corner,
       keys(std::to_string(corner - 4), corner)},
      {{"--causal", "bottom-right", "--window", "-1,-1"}, -unlimited, corner, bottom_right},
  };
}

ioattn::LayerProblem problem_of(const Json& json) {
  ioattn::LayerProblem problem;
  std::string error;
  EXPECT_TRUE(ioattn::parse_problem(json["problem"].get<std::string>(), &problem, &error)) << error;
  return problem;
}

ref::Matrix<double> plus(ref::Matrix<double> a, const ref::Matrix<double>& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

TEST(GradOptions, MasksAndScalesAreTheOracles) {
  const struct {
    CaseSizes sizes;
    Ties ties;
    const char* dtype;
  } cases[] = {{{13, 22, 7, 5}, Ties::none, "f64"},
               {{26, 15, 9, 12}, Ties::keys_values, "f32"},
               {{21, 21, 8, 6}, Ties::all, "f64"}};
  for (const auto& c : cases) {
    LayerCase layer;
    make_layer_case(c.sizes, c.ties, c.dtype, 21, &layer);
    int round = 0;
    for (const MaskLine& line : mask_lines(c.sizes.n, c.sizes.m)) {
      const char* scale = round % 3 == 0 ? "0.3125" : round % 3 == 1 ? "-1.5" : "1";
      ++round;
      SCOPED_TRACE(testing::PrintToString(line.options) + " scale " + scale);
      layer.inputs.first_key = line.first;
      layer.inputs.last_key = line.last;
      layer.inputs.scale = std::stod(scale);
      const ref::Forward<double> forward = ref::forward(layer.inputs);
      const ref::Backward<double> backward = ref::backward(layer.inputs, forward);
      const RunResult result =
          run_ioattn(layer.grad() + line.options + Arguments{"--scale", scale, "--json"});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(result.err, "");
      const double limit = c.dtype == std::string("f32") ? 5e-6 : 1e-13;
      EXPECT_LE(relative_error(layer.output("O"), forward.O), limit);
      if (line.text == "keys0:0") {  // the softmax of one score is constant
        for (const double value : parse_npy(layer.output("dX")).values)
          EXPECT_NEAR(value, 0, 64 * limit);
      } else {
        EXPECT_LE(relative_error(layer.output("dX"), backward.dX), limit);
      }
      // LSE of a query without keys is -inf, which is no error.
      const NpyArray lse = parse_npy(layer.output("LSE"));
      ASSERT_EQ(lse.values.size(), c.sizes.n);
      for (std::size_t i = 0; i < c.sizes.n; ++i) {
        const double wanted = forward.L(i, 0);
        if (std::isinf(wanted)) {
          EXPECT_EQ(lse.values[i], wanted);
        } else {
          EXPECT_NEAR(lse.values[i], wanted, limit * (1 + std::abs(wanted)));
        }
      }
      const Json json = result.json();
      const ioattn::LayerProblem problem = problem_of(json);
      EXPECT_EQ(mask_text(problem.shape), line.text);
      EXPECT_EQ(problem.scale, std::stod(scale));
      EXPECT_EQ(problem.batch, 1);
      const Json schedule = json["io"][0]["schedule"];
      EXPECT_EQ(schedule, line.text == "none" ? schedule : "row_stream");
    }
  }
}

TEST(GradOptions, AScaleOfZeroGivesUniformWeights) {
  LayerCase layer;
  make_layer_case({6, 9, 5, 4}, Ties::none, "f64", 2, &layer);
  layer.inputs.scale = 0;
  const ref::Forward<double> forward = ref::forward(layer.inputs);
  ASSERT_EQ(run_ioattn(layer.grad() + Arguments{"--scale", "0"}).exit_code, 0);
  EXPECT_LE(relative_error(layer.output("O"), forward.O), 1e-13);
  EXPECT_EQ(parse_npy(layer.output("dX")).values, std::vector<double>(25, 0.0));
}

// A batch: files of rank 3 of the entries' matrices.
struct BatchCase {
  BatchCase(const CaseSizes& case_sizes, Ties ties, std::size_t batch) : sizes(case_sizes) {
    make_layer_case(sizes, ties, "f64", 31, &layer);
    for (std::size_t b = 0; b < batch; ++b) {
      entries.push_back(
          ref::make_case(ref::Kind::normal, {sizes.n, sizes.m, sizes.d, sizes.dv, ties}, 31 + b));
      entries[b].X = layer.inputs.X;
      entries[b].Y = layer.inputs.Y;
    }
    using Inputs = ref::LayerInputs<double>;
    write("A1", &Inputs::A1);
    write("A2", &Inputs::A2);
    write("A3", &Inputs::A3);
    write("dO", &Inputs::dO);
  }
  std::string path(const std::string& name) const { return layer.directory / (name + ".npy"); }
  // The array, or in Fortran order: the last index is the slowest.
  void write(const std::string& name, ref::Matrix<double> ref::LayerInputs<double>::*operand,
             bool fortran = false) {
    const std::size_t rows = (entries[0].*operand).rows, cols = (entries[0].*operand).cols;
    std::vector<double> values;
    if (fortran) {
      for (std::size_t j = 0; j < cols; ++j)
        for (std::size_t i = 0; i < rows; ++i)
          for (const auto& entry : entries) values.push_back((entry.*operand)(i, j));
    } else {
      for (const auto& entry : entries) {
        const auto& matrix = (entry.*operand).values;
        values.insert(values.end(), matrix.begin(), matrix.end());
      }
    }
    const std::string plain = npy_matrix<double>(values.size(), 1, values);
    const std::string shape = "(" + std::to_string(entries.size()) + ", " + std::to_string(rows) +
                              ", " + std::to_string(cols) + ")";
    write_file(path(name), npy_header(npy_dictionary("<f8", fortran, shape)) +
                               plain.substr(plain.size() - 8 * values.size()));
  }
  // The oracle's results: `get` of every entry, below each other or summed.
  template <class Get>
  void expect(const char* name, bool is_sum, const Get& get) const {
    ref::Matrix<double> wanted;
    for (const auto& entry : entries) {
      const ref::Matrix<double> one = get(entry);
      if (is_sum && !wanted.values.empty()) {
        wanted = plus(wanted, one);
      } else {
        wanted.rows += one.rows;
        wanted.cols = one.cols;
        wanted.values.insert(wanted.values.end(), one.values.begin(), one.values.end());
      }
    }
    EXPECT_LE(relative_error(layer.output(name), wanted), 1e-13) << name;
    const std::size_t rows = wanted.rows / (is_sum ? 1 : entries.size());
    std::vector<std::size_t> shape;
    if (!is_sum) shape.push_back(entries.size());
    shape.push_back(rows);
    if (std::string(name) != "LSE") shape.push_back(wanted.cols);
    EXPECT_EQ(parse_npy(layer.output(name)).shape, shape) << name;
  }

  CaseSizes sizes;
  LayerCase layer;
  std::vector<ref::LayerInputs<double>> entries;
};

ref::Backward<double> gradients_of(const ref::LayerInputs<double>& entry) {
  return ref::backward(entry, ref::forward(entry));
}

TEST(GradOptions, BatchesAreTheOracles) {
  for (const std::size_t batch : {1u, 3u}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(std::to_string(batch) + (causal ? " causal" : ""));
      BatchCase c({14, 19, 8, 5}, Ties::none, batch);
      const ref::Matrix<double> w_q = ref::random_matrix(8, 3, 1),
                                w_k = ref::random_matrix(8, 3, 2);
      write_matrix(c.path("W_Q"), w_q, "f64");
      write_matrix(c.path("W_K"), w_k, "f64");
      for (auto& entry : c.entries) {
        entry.scale = 0.5;
        if (causal) entry.last_key = 5;  // m - n
      }
      const Arguments options = causal ? Arguments{"--causal", "bottom-right"} : Arguments{};
      const RunResult result = run_ioattn(
          c.layer.grad() + options +
          Arguments{"--scale", "0.5", "--json", "--outputs", "O,LSE,dX,dY,dA1,dA2,dA3,dW_Q,dW_K",
                    "--W_Q", c.path("W_Q"), "--W_K", c.path("W_K"), "--M", "1200"});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      c.expect("O", false, [](const auto& entry) { return ref::forward(entry).O; });
      c.expect("LSE", false, [](const auto& entry) { return ref::forward(entry).L; });
      c.expect("dX", true, [](const auto& entry) { return gradients_of(entry).dX; });
      c.expect("dY", true, [](const auto& entry) { return gradients_of(entry).dY; });
      c.expect("dA1", false, [](const auto& entry) { return gradients_of(entry).dA1; });
      c.expect("dA2", false, [](const auto& entry) { return gradients_of(entry).dA2; });
      c.expect("dA3", false, [](const auto& entry) { return gradients_of(entry).dA3; });
      c.expect("dW_Q", true,
               [&](const auto& entry) { return ref::multiply(gradients_of(entry).dX, w_k); });
      c.expect("dW_K", true, [&](const auto& entry) {
        return ref::multiply(ref::transpose(gradients_of(entry).dX), w_q);
      });
      const Json json = result.json();
      const ioattn::LayerProblem problem = problem_of(json);
      EXPECT_EQ(problem.batch, batch);
      EXPECT_EQ(problem.scale, 0.5);
      EXPECT_EQ(mask_text(problem.shape), causal ? "causal-bottom-right" : "none");
      for (const Json& io : json["io"]) {
        long words = 0;
        for (const Json& phase : io["phases"])
          words += phase["reads"].get<long>() + phase["writes"].get<long>();
        EXPECT_EQ(io["formula"], words);
      }
    }
  }
}

TEST(GradOptions, OneFileOfABatchIsOneMemory) {
  BatchCase c({12, 12, 7, 5}, Ties::all, 3);
  const RunResult result =
      run_ioattn(c.layer.grad() + Arguments{"--outputs", "O,dA", "--causal", "top-left"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "self,causal,b3")) << result.out;
  for (auto& entry : c.entries) entry.last_key = 0;
  c.expect("O", false, [](const auto& entry) { return ref::forward(entry).O; });
  c.expect("dA", false, [](const auto& entry) {
    const ref::Backward<double> all = gradients_of(entry);
    return plus(plus(all.dA1, all.dA2), all.dA3);
  });
}

TEST(GradOptions, FortranOrderOfABatchGivesTheSameBits) {
  BatchCase c({6, 9, 5, 4}, Ties::none, 3);
  ASSERT_EQ(run_ioattn(c.layer.grad()).exit_code, 0);
  const std::string o = c.layer.output("O"), dx = c.layer.output("dX");
  using Inputs = ref::LayerInputs<double>;
  c.write("A1", &Inputs::A1, true);
  c.write("A3", &Inputs::A3, true);
  c.write("dO", &Inputs::dO, true);
  std::filesystem::remove_all(c.layer.out());
  ASSERT_EQ(run_ioattn(c.layer.grad()).exit_code, 0);
  EXPECT_EQ(c.layer.output("O"), o);
  EXPECT_EQ(c.layer.output("dX"), dx);
}

// Pairs of a query and a key that it sees, one by one.
long pairs_of(const ref::LayerInputs<double>& in) {
  long pairs = 0;
  for (std::size_t i = 0; i < in.A1.rows; ++i)
    for (std::size_t j = 0; j < in.A2.rows; ++j) pairs += in.sees(i, j) ? 1 : 0;
  return pairs;
}

// gflops x seconds is the nominal work of all entries; words and bounds count them too.
TEST(GradOptions, ReportCountsEntriesAndVisiblePairs) {
  const long n = 40, m = 50, d = 12, dv = 9;
  for (const std::size_t batch : {1u, 4u}) {
    for (const bool causal : {false, true}) {
      BatchCase c({40, 50, 12, 9}, Ties::none, batch);
      Arguments options = {"--json", "--M", "700", "--schedule", "row_stream"};
      if (causal) {
        options = options + Arguments{"--causal", "top-left"};
        c.entries[0].last_key = 0;
      }
      const RunResult result = run_ioattn(c.layer.grad() + options);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const long pairs = pairs_of(c.entries[0]);
      EXPECT_EQ(pairs == n * m, !causal);
      const Json json = result.json();
      ASSERT_EQ(json["io"].size(), 2u);
      for (const Json& io : json["io"]) {
        const bool forward = io["pass"] == "forward";
        SCOPED_TRACE(std::to_string(batch) + (causal ? " causal " : " ") +
                     io["plan"].get<std::string>());
        const bool g_form = contains(io["plan"], "form=g");
        const long values = g_form ? pairs * d + n * d * dv : pairs * dv + m * d * dv;
        const long fma = (forward ? 1 : 2) * (n * d * d + pairs * d) + values;
        const double flops = io["gflops"].get<double>() * io["seconds"].get<double>() * 1e9;
        EXPECT_NEAR(flops, 2.0 * static_cast<double>(batch) * static_cast<double>(fma),
                    1e-6 * flops);
        ASSERT_FALSE(io["lower_bound"].is_null());
        EXPECT_EQ(io["formula"].get<long>(), io["reads"].get<long>() + io["writes"].get<long>());
        if (batch > 1 || causal) {
          const long keys = causal ? n : m;  // that any query sees
          const long of_entry = (n + 2 * keys) * d + n * dv;
          const long words =
              static_cast<long>(batch) * of_entry + d * d + d * dv + (forward ? 0 : d * d);
          EXPECT_GE(io["lower_bound"].get<double>(), static_cast<double>(words));
          if (io["bound"] == "compulsory") {
            EXPECT_EQ(io["lower_bound"].get<double>(), static_cast<double>(words));
          }
        }
      }
    }
  }
}

// Gradients other than dX: the work that their entry tells, against one entry alone.
TEST(GradOptions, MoreGradientsCountEveryEntry) {
  const auto flops = [](std::size_t batch) {
    BatchCase c({30, 20, 8, 6}, Ties::none, batch);
    const RunResult result =
        run_ioattn(c.layer.grad() + Arguments{"--json", "--outputs", "dX,dA2,dA1,dY"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json io = result.json()["io"][0];
    return io["gflops"].get<double>() * io["seconds"].get<double>() * 1e9;
  };
  const double one = flops(1), three = flops(3);
  EXPECT_GT(one, 2.0 * 30 * 20 * 8);
  EXPECT_NEAR(three, 3 * one, 1e-6 * three);
}

// What `plan` tells of a problem is what `grad` counts.
TEST(GradOptions, PlanCountsWhatGradMoves) {
  for (const bool causal : {false, true}) {
    BatchCase c({24, 30, 8, 6}, Ties::none, 3);
    Arguments options = {"--json", "--M", "500", "--scale", "0.25"};
    if (causal) options = options + Arguments{"--causal", "bottom-right"};
    const RunResult result = run_ioattn(c.layer.grad() + options);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json entries = result.json()["io"];
    for (const Json& io : entries) {
      const std::string problem = std::string("layer:n24,m30,d8,v6,f64") +
                                  (causal ? ",causal-bottom-right" : "") + ",b3,s0.25";
      const RunResult planned = run_ioattn({"plan", "--problem", problem, "--M", "500", "--json",
                                            "--pass", io["pass"].get<std::string>()});
      ASSERT_EQ(planned.exit_code, 0) << planned.err;
      const Json plan = planned.json();
      EXPECT_EQ(plan["problem"], problem);
      ASSERT_EQ(plan["plan"], io["plan"]);
      ioattn::plan::Plan parsed;
      std::string error;
      ASSERT_TRUE(ioattn::plan::parse_plan(io["plan"].get<std::string>(), &parsed, &error));
      int found = 0;
      for (const Json& candidate : plan["schedules"]) {
        EXPECT_TRUE(!causal || candidate["schedule"] == "row_stream" ||
                    candidate["schedule"] == "tile_fused")
            << candidate;
        if (candidate["schedule"] != name_of(parsed.schedule) || !candidate["fits"] ||
            (!candidate["form"].is_null() &&
             candidate["form"] != ioattn::name_of(parsed.blocks.form)) ||
            candidate["products"] != ioattn::name_of(parsed.blocks.products)) {
          continue;
        }
        ++found;
        EXPECT_EQ(candidate["words"], io["formula"]);
        EXPECT_EQ(candidate["lower_bound"], io["lower_bound"]);
        const RunResult of_one = run_ioattn(
            {"plan", "--problem",
             std::string("layer:n24,m30,d8,v6,f64") + (causal ? ",causal-bottom-right" : ""), "--M",
             "500", "--json", "--pass", io["pass"].get<std::string>()});
        const Json singles = of_one.json()["schedules"];
        int compared = 0;
        for (const Json& one : singles) {
          if (one["schedule"] == candidate["schedule"] && one["form"] == candidate["form"] &&
              one["products"] == candidate["products"]) {
            EXPECT_EQ(candidate["fma"], 3 * one["fma"].get<long>());
            ++compared;
          }
        }
        EXPECT_EQ(compared, 1);
      }
      EXPECT_EQ(found, 1);
    }
  }
}

class GradOptionErrors : public testing::Test {
 protected:
  // One line that says `why`, exit code 2, and no output.
  void expect_usage_error(const RunResult& result, const std::string& why) const {
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
    EXPECT_TRUE(contains(result.err, why)) << result.err << "does not say: " << why;
    EXPECT_FALSE(std::filesystem::exists(c.layer.out()));
  }
  BatchCase c{{6, 8, 5, 4}, Ties::none, 3};
};

TEST_F(GradOptionErrors, Options) {
  const struct {
    Arguments options;
    const char* says;
  } lines[] = {
      {{"--scale", "nan"}, "--scale"},
      {{"--scale", "inf"}, "not a finite number"},
      {{"--scale", "1e999"}, "not a finite number"},
      {{"--scale", "0.5x"}, "not a finite number"},
      {{"--scale", ""}, "not a finite number"},
      {{"--causal", "left"}, "not top-left or bottom-right"},
      {{"--causal"}, "--causal"},
      {{"--window", "3"}, "L,R"},
      {{"--window", "3,"}, "L,R"},
      {{"--window", ",3"}, "L,R"},
      {{"--window", "3,2,1"}, "L,R"},
      {{"--window", "3;2"}, "L,R"},
      {{"--window", "-2,2"}, "L,R"},
      {{"--window", "2,-2"}, "L,R"},
      {{"--window", "a,b"}, "L,R"},
      {{"--window", "2147483649,0"}, "L,R"},
  };
  for (const auto& line : lines) {
    SCOPED_TRACE(testing::PrintToString(line.options));
    expect_usage_error(run_ioattn(c.layer.grad() + line.options), line.says);
  }
}

// A window shows what of it --causal does.
TEST_F(GradOptionErrors, NoneOfAWindowBehindTheDiagonal) {
  const RunResult result =
      run_ioattn(c.layer.grad() + Arguments{"--causal", "top-left", "--window", "3,1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "keys-3:0")) << result.out;
}

TEST_F(GradOptionErrors, SchedulesThatTakeNoMask) {
  for (const char* schedule : backward_schedules) {
    if (is_one_of(masked_schedules, schedule)) continue;
    SCOPED_TRACE(schedule);
    const Arguments options = {"--causal", "top-left", "--schedule", schedule};
    expect_usage_error(run_ioattn(c.layer.grad() + options),
                       std::string(schedule) + " takes no mask");
    expect_usage_error(run_ioattn({"plan", "--problem", "layer:n9,d4,causal", "--schedule",
                                   schedule, "--M", "1000"}),
                       std::string(schedule) + " takes no mask");
  }
}

TEST_F(GradOptionErrors, FilesOfAnotherRankOrBatchAreNamed) {
  const auto array = [](const std::vector<std::size_t>& sizes) {
    std::size_t count = 1;
    std::string shape = "(";
    for (const std::size_t size : sizes) {
      count *= size;
      shape += std::to_string(size) + ", ";
    }
    return npy_header(npy_dictionary("<f8", false, shape + ")")) + std::string(8 * count, '\0');
  };
  const struct {
    const char* operand;
    std::vector<std::size_t> sizes;
    const char* says;
  } damages[] = {
      {"A2", {8, 5}, "A2 is 8 x 5, not 3 x 8 x 5"},
      {"A2", {2, 8, 5}, "A2 is 2 x 8 x 5, not 3 x 8 x 5"},
      {"A2", {3, 8, 4}, "A2 is 3 x 8 x 4, not 3 x 8 x 5"},
      {"A3", {24, 5}, "A3 is 24 x 5, not 3 x 8 x 5"},
      {"A3", {4, 6, 5}, "A3 is 4 x 6 x 5, not 3 x 8 x 5"},
      {"A3", {1, 8, 5}, "A3 is 1 x 8 x 5, not 3 x 8 x 5"},
      {"dO", {6, 4}, "dO is 6 x 4, not 3 x 6 x 4"},
      {"dO", {18, 4}, "dO is 18 x 4, not 3 x 6 x 4"},
      {"dO", {4, 6, 4}, "dO is 4 x 6 x 4, not 3 x 6 x 4"},
      {"X", {1, 5, 5}, "rank 3; a matrix (rank 2) needed"},
      {"Y", {3, 5, 4}, "rank 3; a matrix (rank 2) needed"},
      {"A1", {1, 3, 6, 5}, "rank 4; a matrix (rank 2) or a batch of them (rank 3) needed"},
      {"A1", {30}, "rank 1; a matrix (rank 2) or a batch of them (rank 3) needed"},
      {"A1", {0, 6, 5}, "a batch without matrices"},
  };
  for (const auto& damage : damages) {
    SCOPED_TRACE(damage.says);
    const std::string file = c.path(damage.operand), before = read_file(file);
    write_file(file, array(damage.sizes));
    const RunResult result = run_ioattn(c.layer.grad());
    expect_usage_error(result, damage.says);
    EXPECT_TRUE(contains(result.err, file + ": ")) << result.err;
    write_file(file, before);
  }
  // A1 alone is a matrix: the first of the others is named.
  write_file(c.path("A1"), array({6, 5}));
  expect_usage_error(run_ioattn(c.layer.grad()), "A2 is 3 x 8 x 5, not 8 x 5");
}

TEST_F(GradOptionErrors, ProblemsOfPlan) {
  const struct {
    const char* problem;
    const char* says;
  } lines[] = {
      {"layer:n8,d4,b0", "batch"},
      {"layer:n8,d4,b-1", "b-1"},
      {"layer:n8,d4,snan", "snan"},
      {"layer:n8,d4,causal,keys-1:0", "repeats"},
      {"layer:n8,d4,keys3", "keys3"},
      {"layer:n8,d4,m3,keys5:7", "hides every key"},
      {"layer:n1000000,d1000,b9000000000000", "64 bits"},
  };
  for (const auto& line : lines) {
    SCOPED_TRACE(line.problem);
    expect_usage_error(run_ioattn({"plan", "--problem", line.problem, "--M", "1000"}), line.says);
  }
}

TEST(GradOptions, NoKeyThatIsSeenMovesNothing) {
  LayerCase layer;
  make_layer_case({4, 0, 3, 2}, Ties::none, "f64", 6, &layer);
  const RunResult result =
      run_ioattn(layer.grad() + Arguments{"--json", "--causal", "bottom-right"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(parse_npy(layer.output("O")).values, std::vector<double>(8, 0.0));
  EXPECT_EQ(parse_npy(layer.output("LSE")).values,
            std::vector<double>(4, -std::numeric_limits<double>::infinity()));
  EXPECT_EQ(parse_npy(layer.output("dX")).values, std::vector<double>(9, 0.0));
  const Json entries = result.json()["io"];
  ASSERT_EQ(entries.size(), 2u);
  for (const Json& io : entries) EXPECT_EQ(io["formula"], 0);
}

}  // namespace
