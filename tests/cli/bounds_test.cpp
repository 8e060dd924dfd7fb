// `ioattn bounds --problem` and `--linear` against theory.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/support/command.hpp"
#include "theory/crossovers.hpp"
#include "theory/linear_attention.hpp"
#include "theory/sdpa_bounds.hpp"

namespace {

using namespace ioattn_cli_test;
using namespace ioattn;
using Json = nlohmann::json;

TEST(BoundsOfProblems, AreThoseOfTheory) {
  const auto computations = [](const std::string& problem) {
    const RunResult result = run_ioattn({"bounds", "--problem", problem, "--M", "900", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json json = Json::parse(result.out);
    EXPECT_EQ(json["problem"], problem);
    return json["computations"];
  };
  const auto expect = [](const Json& entry, const char* outputs, const theory::BoundSet& bounds) {
    EXPECT_EQ(entry["outputs"], outputs);
    ASSERT_EQ(entry["classes"].size(), 2u);
    EXPECT_EQ(entry["classes"][0]["lower_bound"], bounds.best(theory::AlgorithmClass::P).words);
    EXPECT_EQ(entry["classes"][1]["lower_bound"], bounds.best(theory::AlgorithmClass::F).words);
    EXPECT_EQ(entry["classes"][1]["bounds"]["b2"], bounds.b2);
    EXPECT_FALSE(entry["classes"][0]["bounds"].contains("b2"));
  };
  const Json layer = computations("layer:n300,m200,d20,v10,f32,causal,b3");
  const LayerShape shape = {300, 200, 20, 10, Tie::none, causal_top_left()};
  expect(layer[0], "dX", theory::layer_bounds(Pass::backward, shape, 900, 3));
  expect(layer[1], "O", theory::layer_bounds(Pass::forward, shape, 900, 3));

  const Json sdpa = computations("sdpa:b2,h4,kv2,n300,m200,d20,v10,f32,bias1x4");
  SdpaShape heads;
  heads.batch = 2, heads.heads = 4, heads.kv_heads = 2;
  heads.n = 300, heads.m = 200, heads.d = 20, heads.dv = 10;
  heads.bias_batch = 1, heads.bias_heads = 4;
  ASSERT_EQ(sdpa.size(), 5u);
  expect(sdpa[0], "O, LSE", theory::sdpa_forward_bounds(heads, 900));
  expect(sdpa[2], "dK, dV", theory::sdpa_backward_bounds(heads, {false, true, true}, 900));
  expect(sdpa[4], "dQ, dK, dV, dBias",
         theory::sdpa_backward_bounds(heads, {true, true, true, false, true}, 900));
}

TEST(BoundsOfProblems, WrongOnesAreNamed) {
  const std::pair<Arguments, const char*> wrong[] = {
      {{"--problem", "layer:n0,d4"}, "n"},
      {{"--problem", "sdpa:n4"}, "d"},
      {{"--problem", "layer:n2000000000,m2000000000,d2000000000"}, "does not fit in 64 bits"},
      {{"--problem", "sdpa:b1000000,h1000000,n2000000000,d64"}, "64 bits"},
      {{"--n", "2147483648", "--d", "2147483648"}, "does not fit in 64 bits"},
      {{"--problem", "layer:n9,d4", "--n", "4"}, "--n"},
      {{"--n", "4"}, "--d"},
      {{"--n", "4", "--d", "4", "--linear", "--M", "2"}, "the least is 3"},
      {{"--n", "4", "--d", "4", "--M", "0"}, "--M"}};
  for (const auto& [arguments, why] : wrong) {
    Arguments all = Arguments{"bounds"} + arguments;
    if (std::find(arguments.begin(), arguments.end(), "--M") == arguments.end()) {
      all = all + Arguments{"--M", "50"};
    }
    const RunResult result = run_ioattn(all);
    EXPECT_EQ(result.exit_code, 2) << why;
    EXPECT_NE(result.err.find(why), std::string::npos) << result.err;
  }
}

TEST(BoundsOfSchedules, AreTheLeastOfEither) {
  const LayerShape shape = {256, 256, 64, 64, Tie::none};
  for (const index_t M : {100, 2000, 50000}) {
    const RunResult result =
        run_ioattn({"bounds", "--n", "256", "--d", "64", "--M", std::to_string(M), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json passes = Json::parse(result.out)["passes"];
    const auto tile_fused = [](const Json& entry) { return entry["schedule"] == "tile_fused"; };
    const Json& schedules = passes[0]["schedules"];
    const auto found = std::find_if(schedules.begin(), schedules.end(), tile_fused);
    ASSERT_NE(found, schedules.end());
    const auto exact = theory::exact_cost(Pass::backward, Schedule::tile_fused, shape, M);
    EXPECT_LE((*found)["words"], exact->total()) << M;
  }
}

// A tile of one column is tried, too, where not all widths are.
TEST(BoundsLinear, NeedsThreeWordsWhateverTheWidth) {
  for (const char* d : {"600", "700", "1000", "5000"})
    EXPECT_EQ(run_ioattn({"bounds", "--n", "10", "--d", d, "--M", "3", "--linear"}).exit_code, 0)
        << d;
}

TEST(BoundsLinear, IsTheCostOfTheProducts) {
  const RunResult result =
      run_ioattn({"bounds", "--n", "500", "--d", "20", "--M", "300", "--linear", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  const LayerShape shape = {500, 500, 20, 20, Tie::none};
  EXPECT_EQ(json["n"], 500);
  EXPECT_EQ(json["dv"], 20);
  EXPECT_EQ(json["tie"], "none");
  EXPECT_EQ(json["M"], 300);
  for (const Json& entry : json["passes"]) {
    const Pass pass = entry["pass"] == "forward" ? Pass::forward : Pass::backward;
    const IoCost cost =
        theory::linear_cost(pass, shape, *theory::linear_blocks(pass, shape, 300)).total();
    EXPECT_EQ(entry["words"], cost.words());
    EXPECT_LE(entry["footprint"], 300);
    EXPECT_EQ(entry["softmax_lower_bound"],
              theory::lower_bound(pass, theory::AlgorithmClass::P, shape, 300).words);
    EXPECT_LT(entry["words"], entry["softmax_lower_bound"]);
  }
}

}  // namespace
