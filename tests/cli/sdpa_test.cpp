#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/support/command.hpp"
#include "cli/support/npy_bytes.hpp"
#include "cli/support/temporary_directory.hpp"
#include "data_path.hpp"
#include "reference/sdpa_oracle.hpp"

// `ioattn sdpa`: what it writes is the oracle's and, on real data, PyTorch's; what it tells adds
// up.
namespace {

using namespace ioattn_cli_test;
namespace ref = ioattn_reference;
using Json = nlohmann::json;
using Tensor = ref::Tensor<double>;

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::string text = "(";
  for (const std::size_t size : shape) text += std::to_string(size) + ", ";
  return text + ")";
}

template <class T>
std::string npy_of(const std::vector<double>& values, const std::vector<std::size_t>& shape,
                   bool fortran_order = false) {
  const std::vector<T> rounded(values.begin(), values.end());
  return npy_header(
             npy_dictionary(sizeof(T) == 4 ? "<f4" : "<f8", fortran_order, shape_text(shape))) +
         std::string(reinterpret_cast<const char*>(rounded.data()), rounded.size() * sizeof(T));
}

double relative_error(const std::vector<double>& out, const std::vector<double>& expected) {
  if (out.size() != expected.size()) return HUGE_VAL;
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == expected[i]) continue;  // -inf
    const double error = std::fabs(out[i] - expected[i]);
    if (!(error <= worst)) worst = error;
    if (std::isnan(worst)) return worst;
  }
  for (const double value : expected)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  return worst == 0 ? 0 : worst / largest;
}

class SdpaCommand : public testing::Test {
 protected:
  Arguments with_files(const std::string& directory) const {
    return {"sdpa",
            "--Q",
            directory + "/Q.npy",
            "--K",
            directory + "/K.npy",
            "--V",
            directory + "/V.npy",
            "--dO",
            directory + "/dO.npy",
            "--out",
            out()};
  }
  std::string out() const { return directory_ / "out"; }
  NpyArray output(const std::string& name) const {
    return parse_npy(read_file(out() + "/" + name + ".npy"));
  }
  void write(const char* name, const Tensor& t, std::size_t rank) {
    std::vector<std::size_t> shape = {t.batch, t.heads, t.rows, t.cols};
    shape.erase(shape.begin(), shape.end() - std::ptrdiff_t(rank));
    write_file(directory_ / (std::string(name) + ".npy"), npy_of<double>(t.values, shape));
  }
  void write_inputs(const ref::SdpaInputs<double>& inputs, std::size_t rank) {
    write("Q", inputs.Q, rank);
    write("K", inputs.K, rank);
    write("V", inputs.V, rank);
    write("dO", inputs.dO, rank);
  }
  void expect(const char* name, const Tensor& wanted, double limit) const {
    EXPECT_LE(relative_error(output(name).values, wanted.values), limit) << name;
  }
  void expect_all(const ref::SdpaResults<double>& wanted, double limit) const {
    expect("O", wanted.O, limit);
    expect("LSE", wanted.L, limit);
    expect("dQ", wanted.dQ, limit);
    expect("dK", wanted.dK, limit);
    expect("dV", wanted.dV, limit);
  }

  TemporaryDirectory directory_;
};

TEST_F(SdpaCommand, RealDataIsPyTorchs) {
  const std::string data = ioattn_test::data_path("sdpa");
  for (const auto& [dtype, limit] : {std::pair("f32", 2e-6), std::pair("f64", 1e-13)}) {
    const RunResult result = run_ioattn(with_files(data) + Arguments{"--dtype", dtype});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const char* name : {"O", "LSE", "dQ", "dK", "dV"}) {
      const NpyArray golden = parse_npy(read_file(data + "/golden_" + name + ".npy"));
      EXPECT_EQ(output(name).shape, golden.shape);
      EXPECT_LE(relative_error(output(name).values, golden.values), limit) << name << " " << dtype;
    }
  }
}

// Both passes have a plan before the first one runs, and before anything is written.
TEST_F(SdpaCommand, PlansBothPassesFirst) {
  const TemporaryDirectory directory;
  for (const char* name : {"Q", "K", "V", "dO"})
    write_file(directory / (std::string(name) + ".npy"),
               npy_of<float>(std::vector<double>(40 * 8, 1), {40, 8}));
  write_file(directory / "bias.npy", npy_of<float>(std::vector<double>(40 * 40, 0), {40, 40}));
  const Arguments bias = {"--bias", directory / "bias.npy"};
  const Arguments both = with_files(directory.path()) + bias;
  Arguments forward = both;
  forward.erase(forward.begin() + 7, forward.begin() + 9);  // --dO
  const RunResult tiny = run_ioattn(forward + Arguments{"--M", "1"});
  std::smatch least;
  ASSERT_TRUE(std::regex_search(tiny.err, least, std::regex("the least is ([0-9]+)"))) << tiny.err;
  EXPECT_FALSE(std::filesystem::exists(out()));
  const RunResult refused = run_ioattn(both + Arguments{"--M", least[1]});
  EXPECT_EQ(refused.exit_code, 2) << refused.out;
  EXPECT_FALSE(std::filesystem::exists(out()));
  EXPECT_EQ(run_ioattn(forward + Arguments{"--M", least[1]}).exit_code, 0);
}

// Of inputs that were rounded, too.
TEST_F(SdpaCommand, SixteenBitsAreNearPyTorchs) {
  const std::string data = ioattn_test::data_path("sdpa");
  for (const auto& [dtype, descr, limit] :
       {std::tuple("bf16", "|V2", 4e-2), std::tuple("f16", "<f2", 5e-3)}) {
    for (const bool in_f32 : {false, true}) {
      Arguments arguments = with_files(data) + Arguments{"--dtype", dtype, "--json"};
      if (in_f32) arguments.push_back("--f32-gradients");
      const RunResult result = run_ioattn(arguments);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(Json::parse(result.out)["dtype"], dtype);
      for (const char* name : {"O", "LSE", "dQ", "dK", "dV"}) {
        const NpyArray golden = parse_npy(read_file(data + "/golden_" + name + ".npy"));
        const bool gradient = name[0] == 'd', lse = name[0] == 'L';
        EXPECT_EQ(output(name).descr, lse || (gradient && in_f32) ? "<f4" : descr) << name;
        EXPECT_EQ(output(name).shape, golden.shape);
        EXPECT_LE(relative_error(output(name).values, golden.values), limit)
            << name << " " << dtype;
      }
    }
  }
  // Its own outputs are read back, without a word about the dtype.
  const std::string again = directory_ / "again";
  const RunResult result = run_ioattn({"sdpa", "--Q", out() + "/dQ.npy", "--K", out() + "/dK.npy",
                                       "--V", out() + "/dV.npy", "--dtype", "f16", "--out", again});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const RunResult chained = run_ioattn({"sdpa", "--Q", again + "/O.npy", "--K", again + "/O.npy",
                                        "--V", again + "/O.npy", "--out", out(), "--json"});
  ASSERT_EQ(chained.exit_code, 0) << chained.err;
  EXPECT_EQ(Json::parse(chained.out)["dtype"], "f16");
}

// Equal weights: a row of dV is half of the sum of the rows of dO.
TEST_F(SdpaCommand, TellsWhatOverflows) {
  const auto write = [&](const char* name, const std::vector<double>& values, std::size_t cols) {
    write_file(directory_ / (std::string(name) + ".npy"),
               npy_of<float>(values, {values.size() / cols, cols}));
  };
  write("Q", {0, 0, 0, 0}, 1);
  write("K", {1, 1}, 1);
  write("V", {1, 2, 3, 1, 2, 3}, 3);
  write("dO", {6e4, 1, -6e4, 6e4, 1, -6e4, 6e4, 1, 6e4, 6e4, 1, 6e4}, 3);
  const Arguments arguments = with_files(directory_.path());
  const RunResult result = run_ioattn(arguments + Arguments{"--dtype", "f16", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json io = Json::parse(result.out)["io"];
  EXPECT_EQ(io[0]["overflows"], (Json{{"O", 0}}));
  EXPECT_EQ(io[1]["overflows"], (Json{{"dQ", 0}, {"dK", 0}, {"dV", 2}}));
  const RunResult text = run_ioattn(arguments + Arguments{"--dtype", "f16"});
  EXPECT_NE(text.out.find("rounded to infinity: O 0\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("rounded to infinity: dQ 0, dK 0, dV 2\n"), std::string::npos);

  const RunResult wide =
      run_ioattn(arguments + Arguments{"--dtype", "f16", "--f32-gradients", "--json"});
  ASSERT_EQ(wide.exit_code, 0) << wide.err;
  EXPECT_TRUE(Json::parse(wide.out)["io"][1]["overflows"].is_null());
  const RunResult f32 = run_ioattn(arguments);
  EXPECT_EQ(f32.exit_code, 0) << f32.err;
  EXPECT_EQ(f32.out.find("infinity"), std::string::npos) << f32.out;
}

TEST_F(SdpaCommand, IntegersAreBf16IfAsked) {
  const std::string zeros(2 * 4, '\0');
  for (const char* name : {"Q", "K", "V"}) {
    write_file(directory_ / (std::string(name) + ".npy"),
               npy_header(npy_dictionary("<u2", false, "(2, 2)")) + zeros);
  }
  const std::string in = directory_.path();
  const Arguments arguments = {"sdpa", "--Q",         in + "/Q.npy", "--K", in + "/K.npy",
                               "--V",  in + "/V.npy", "--out",       out()};
  const RunResult refused = run_ioattn(arguments);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(is_one_error_line(refused.err)) << refused.err;
  EXPECT_NE(refused.err.find("--dtype bf16"), std::string::npos) << refused.err;
  EXPECT_EQ(run_ioattn(arguments + Arguments{"--dtype", "bf16"}).exit_code, 0);
  EXPECT_EQ(run_ioattn(arguments + Arguments{"--dtype", "f32"}).exit_code, 2);
  EXPECT_EQ(run_ioattn(arguments + Arguments{"--dtype", "f64", "--f32-gradients"}).exit_code, 2);
}

TEST_F(SdpaCommand, GroupsMasksAndScale) {
  ref::SdpaInputs<double> inputs = ref::random_sdpa(2, 4, 2, 20, 30, 9, 6, 3);
  write_inputs(inputs, 4);
  inputs.scale = 0.3;
  inputs.last_key = 10;  // bottom-right
  inputs.first_key = 10 - 7;
  const RunResult result =
      run_ioattn(with_files(directory_.path()) +
                 Arguments{"--scale", "0.3", "--causal", "bottom-right", "--window", "7,0",
                           "--threads", "2", "--M", "2000", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_all(ref::sdpa(inputs, 0), 1e-13);
  EXPECT_EQ(output("LSE").shape, (std::vector<std::size_t>{2, 4, 20}));
  EXPECT_EQ(output("dK").shape, (std::vector<std::size_t>{2, 2, 30, 9}));

  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["problem"], "sdpa:b2,h4,kv2,n20,m30,d9,v6,f64,keys3:10,s0.3");
  ASSERT_EQ(json["files"].size(), 5u);
  for (const Json& file : json["files"]) EXPECT_TRUE(std::filesystem::exists(file)) << file;
  ASSERT_EQ(json["io"].size(), 2u);
  for (const Json& io : json["io"]) {
    long words = 0;
    for (const Json& phase : io["phases"]) {
      words += phase["reads"].get<long>() + phase["writes"].get<long>();
      EXPECT_LE(phase["footprint"].get<long>(), 2000);
    }
    EXPECT_EQ(words, io["formula"].get<long>());
    EXPECT_EQ(io["M"].get<long>(), 2000);
    EXPECT_EQ(io["bound_M"].get<long>(), 2000);
    EXPECT_EQ(io["class"], "F");
    EXPECT_GT(io["lower_bound"].get<double>(), 20 * 2 * 4 * 15);  // rows of Q and O, dO or dQ
    EXPECT_EQ(io["ratio"], static_cast<double>(words) / io["lower_bound"].get<double>());
    EXPECT_GE(io["ratio"], 1);
  }
  EXPECT_EQ(json["io"][0]["pass"], "forward");
  // delta, and dQ on the way of dK and dV
  EXPECT_EQ(json["io"][1]["phases"].size(), 2u);
}

TEST_F(SdpaCommand, EveryMask) {
  ref::SdpaInputs<double> inputs = ref::random_sdpa(1, 2, 1, 20, 30, 9, 6, 5);
  write_inputs(inputs, 4);
  const long long all = ref::LayerInputs<double>::unlimited;
  const struct {
    Arguments options;
    long long first_key, last_key;
  } cases[] = {{{"--causal", "top-left"}, -all, 0},
               {{"--causal", "bottom-right"}, -all, 10},
               {{"--causal", "top-left", "--window", "4,0"}, -4, 0},
               {{"--window", "4,2"}, -4, 2},
               {{"--window", "3,-1"}, -3, all},
               {{"--window", "-1,5"}, -all, 5},
               {{"--window", "-1,-1"}, -all, all}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.options[0] + " " + c.options[1]);
    inputs.first_key = c.first_key;
    inputs.last_key = c.last_key;
    const RunResult result = run_ioattn(with_files(directory_.path()) + c.options);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    expect_all(ref::sdpa(inputs, 0), 1e-13);
  }
}

TEST_F(SdpaCommand, Bias) {
  ref::SdpaInputs<double> inputs = ref::random_sdpa(2, 4, 2, 20, 30, 9, 6, 3);
  write_inputs(inputs, 4);
  inputs.bias = ref::random_sdpa(1, 4, 1, 20, 1, 30, 1, 8).Q;
  inputs.bias(0, 2, 5, 7) = -HUGE_VAL;
  write("bias", inputs.bias, 3);
  const Arguments files = with_files(directory_.path());
  const RunResult result =
      run_ioattn(files + Arguments{"--bias", directory_ / "bias.npy", "--M", "3000"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const ref::SdpaResults<double> expected = ref::sdpa(inputs, 0);
  expect("O", expected.O, 1e-13);
  expect("LSE", expected.L, 1e-13);
  expect("dQ", expected.dQ, 1e-13);
  expect("dBias", expected.dBias, 1e-13);
  EXPECT_EQ(output("dBias").shape, (std::vector<std::size_t>{4, 20, 30}));

  write("bias", Tensor(1, 3, 20, 30), 3);
  const RunResult refused = run_ioattn(files + Arguments{"--bias", directory_ / "bias.npy"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("the bias is [1, 3, 20, 30], not [1, 4, 20, 30]"), std::string::npos)
      << refused.err;
}

// Heads or a matrix alone, rows in Fortran order, no gradients.
TEST_F(SdpaCommand, LowerRanks) {
  const ref::SdpaInputs<double> inputs = ref::random_sdpa(1, 1, 1, 7, 8, 5, 3, 4);
  const ref::SdpaResults<double> expected = ref::sdpa(inputs, 0);
  for (const std::size_t rank : {2u, 3u}) {
    write_inputs(inputs, rank);
    std::vector<double> columns;
    for (std::size_t j = 0; j < 5; ++j)
      for (std::size_t i = 0; i < 8; ++i) columns.push_back(inputs.K(0, 0, i, j));
    const std::vector<std::size_t> shape =
        rank == 2 ? std::vector<std::size_t>{8, 5} : std::vector<std::size_t>{1, 8, 5};
    write_file(directory_ / "K.npy", npy_of<double>(columns, shape, true));
    const RunResult result =
        run_ioattn({"sdpa", "--Q", directory_ / "Q.npy", "--K", directory_ / "K.npy", "--V",
                    directory_ / "V.npy", "--out", out()});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    expect("O", expected.O, 1e-13);
    expect("LSE", expected.L, 1e-13);
    EXPECT_EQ(output("O").shape.size(), rank);
    EXPECT_EQ(output("LSE").shape.size(), rank - 1);
    EXPECT_FALSE(std::filesystem::exists(out() + "/dQ.npy"));
  }
}

TEST_F(SdpaCommand, WrongInputsAreUsageErrors) {
  write_inputs(ref::random_sdpa(2, 4, 2, 6, 7, 5, 3, 4), 4);
  const Arguments files = with_files(directory_.path());
  const auto refused = [&](const Arguments& arguments, const char* message) {
    const RunResult result = run_ioattn(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_FALSE(std::filesystem::exists(out()));
  };
  refused(files + Arguments{"--scale", "0"}, "--scale 0");
  refused(files + Arguments{"--scale", "nan"}, "not a finite number");
  refused(files + Arguments{"--causal", "middle"}, "top-left or bottom-right");
  refused(files + Arguments{"--window", "3"}, "not L,R");
  refused({"sdpa", "--Q", directory_ / "Q.npy"}, "--K");
  write("V", Tensor(2, 2, 8, 3), 4);
  refused(files, "V is [2, 2, 8, 3], not [2, 2, 7, 3]");
  write("V", Tensor(2, 2, 7, 3), 4);
  write("K", Tensor(2, 3, 7, 5), 4);
  refused(files, "V is [2, 2, 7, 3], not [2, 3, 7, 3]");
  write("V", Tensor(2, 3, 7, 3), 4);
  refused(files, "4 query heads are no multiple of 3");
  write("K", Tensor(1, 1, 5, 1), 2);
  refused(files, "K is [1, 1, 5, 1], not [2, 1, 5, 5]");
  write_file(directory_ / "Q.npy", npy_of<double>({1, 2}, {2}));
  refused(files, "rank 1; rank 2 to 4 needed");
}

// As the library defines it: without keys O is 0 and LSE -inf, and gradients are 0.
TEST_F(SdpaCommand, SizesOfZero) {
  const struct {
    const char* what;
    std::size_t batch, heads, kv_heads, n, m, d, dv;
  } cases[] = {{"queries", 2, 4, 2, 0, 7, 5, 3},   {"keys", 2, 4, 2, 6, 0, 5, 3},
               {"columns", 2, 4, 2, 6, 7, 0, 3},   {"columns of values", 2, 4, 2, 6, 7, 5, 0},
               {"heads", 2, 0, 0, 6, 7, 5, 3},     {"entries", 0, 4, 2, 6, 7, 5, 3},
               {"everything", 0, 0, 0, 0, 0, 0, 0}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    ref::SdpaInputs<double> inputs =
        ref::random_sdpa(c.batch, c.heads, c.kv_heads, c.n, c.m, c.d, c.dv, 4);
    write_inputs(inputs, 4);
    inputs.bias = Tensor(1, 1, c.n, c.m);
    for (std::size_t i = 0; i < inputs.bias.values.size(); ++i)
      inputs.bias.values[i] = static_cast<double>(i % 5) / 4;
    write("bias", inputs.bias, 4);
    for (const bool biased : {false, true}) {
      std::filesystem::remove_all(out());
      Arguments arguments = with_files(directory_.path()) + Arguments{"--json"};
      if (biased) arguments = arguments + Arguments{"--bias", directory_ / "bias.npy"};
      const RunResult result = run_ioattn(arguments);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(result.err, "");
      ref::SdpaInputs<double> given = inputs;
      if (!biased) given.bias = {};
      expect_all(ref::sdpa(given, 0), 1e-13);
      EXPECT_EQ(output("O").shape, (std::vector<std::size_t>{c.batch, c.heads, c.n, c.dv}));
      EXPECT_EQ(output("LSE").shape, (std::vector<std::size_t>{c.batch, c.heads, c.n}));
      EXPECT_EQ(output("dK").shape, (std::vector<std::size_t>{c.batch, c.kv_heads, c.m, c.d}));
      if (biased) expect("dBias", ref::sdpa(given, 0).dBias, 1e-13);
      for (const Json& io : result.json()["io"]) {
        EXPECT_GE(io["formula"].get<double>(), io["lower_bound"].get<double>());
        EXPECT_EQ(io["ratio"].is_null(), io["lower_bound"] == 0) << io;
      }
    }
  }
  const ref::SdpaInputs<double> keyless = ref::random_sdpa(1, 1, 1, 2, 0, 3, 3, 4);
  write_inputs(keyless, 2);
  ASSERT_EQ(run_ioattn(with_files(directory_.path())).exit_code, 0);
  EXPECT_EQ(output("O").values, std::vector<double>(6, 0));
  EXPECT_EQ(output("LSE").values, std::vector<double>(2, -HUGE_VAL));
  EXPECT_EQ(output("dQ").values, std::vector<double>(6, 0));
}

}  // namespace
