#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/schedule.hpp"
#include "cli/support/layer_case.hpp"
#include "cli/support/npy_bytes.hpp"
#include "data_path.hpp"
#include "plan/plan.hpp"
#include "schedule_names.hpp"
#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"

// What `grad --json` reports.
namespace {

using namespace ioattn_test;
using namespace ioattn_cli_test;
using ioattn_reference::Ties;
using Json = nlohmann::json;

std::set<std::string> keys(const Json& object) {
  std::set<std::string> names;
  for (const auto& item : object.items()) names.insert(item.key());
  return names;
}

ioattn::plan::Plan plan_of(const Json& entry) {
  ioattn::plan::Plan plan;
  std::string error;
  EXPECT_TRUE(ioattn::plan::parse_plan(entry["plan"].get<std::string>(), &plan, &error)) << error;
  return plan;
}

ioattn::Pass pass_of(const Json& entry) {
  return entry["pass"] == "forward" ? ioattn::Pass::forward : ioattn::Pass::backward;
}

// An entry of io against theory, computed here from the plan's text; `bounded` is the shape whose
// bounds hold.
void expect_consistent(const Json& entry, const ioattn::LayerShape& shape,
                       const ioattn::LayerShape& bounded) {
  SCOPED_TRACE(entry["plan"].get<std::string>());
  const ioattn::plan::Plan plan = plan_of(entry);
  const ioattn::Pass pass = pass_of(entry);
  const ioattn::IoCost cost =
      ioattn::theory::io_cost(pass, plan.schedule, shape, plan.blocks).total();
  EXPECT_EQ(entry["reads"], cost.reads);
  EXPECT_EQ(entry["writes"], cost.writes);
  EXPECT_EQ(entry["created"], cost.created);
  EXPECT_EQ(entry["footprint"], cost.footprint);
  EXPECT_EQ(entry["formula"], cost.reads + cost.writes);
  EXPECT_EQ(entry["schedule"], name_of(plan.schedule));
  EXPECT_EQ(entry["level"], plan.level);

  long reads = 0, writes = 0, created = 0, footprint = 0;
  for (const Json& phase : entry["phases"]) {
    EXPECT_EQ(keys(phase),
              (std::set<std::string>{"name", "reads", "writes", "created", "footprint"}));
    reads += phase["reads"].get<long>();
    writes += phase["writes"].get<long>();
    created += phase["created"].get<long>();
    footprint = std::max(footprint, phase["footprint"].get<long>());
  }
  EXPECT_EQ(reads, cost.reads);
  EXPECT_EQ(writes, cost.writes);
  EXPECT_EQ(created, cost.created);
  EXPECT_EQ(footprint, cost.footprint);

  const long M = entry["M"].get<long>();
  EXPECT_EQ(entry["regime"], M >= shape.d * shape.d ? "large cache" : "small cache");
  // A run that keeps more words than M is compared with the bound for as many.
  const long bound_M = std::max(M, entry["footprint"].get<long>());
  EXPECT_EQ(entry["bound_M"], bound_M);
  const ioattn::theory::Bound bound = ioattn::theory::lower_bound(
      pass, ioattn::theory::class_of(pass, plan.schedule), bounded, bound_M);
  EXPECT_EQ(entry["assumption"], bound.assumption);
  EXPECT_EQ(entry["lower_bound"].get<double>(), bound.words);
  EXPECT_EQ(entry["bound"], bound.name);
  EXPECT_GT(bound.words, 0);
  EXPECT_LE(entry["lower_bound"].get<double>(), entry["formula"].get<double>());
}

void expect_consistent(const Json& entry, const ioattn::LayerShape& shape) {
  expect_consistent(entry, shape, shape);
}

TEST(GradJson, HasTheseKeys) {
  LayerCase layer;
  make_layer_case({6, 9, 5, 4}, Ties::none, "f32", 1, &layer);
  const Json json = run_ioattn(layer.grad() + Arguments{"--json"}).json();
  EXPECT_EQ(keys(json), (std::set<std::string>{"machine", "problem", "isa", "dtype", "threads",
                                               "io", "files"}));
  ASSERT_EQ(json["io"].size(), 2u);
  const std::set<std::string> entry_keys = {
      "pass",           "level",       "M",     "reads",        "writes", "created",    "footprint",
      "formula",        "lower_bound", "bound", "bound_M",      "regime", "phases",     "overflow",
      "runs",           "schedule",    "plan",  "seconds",      "gflops", "assumption", "overflows",
      "created_memory", "class",       "ratio", "peak_fraction"};
  for (const Json& entry : json["io"]) EXPECT_EQ(keys(entry), entry_keys);
  EXPECT_EQ(json["io"][0]["pass"], "backward");
  EXPECT_EQ(json["io"][1]["pass"], "forward");
  EXPECT_EQ(json["dtype"], "f32");
  EXPECT_EQ(json["problem"], "layer:n6,m9,d5,v4,f32");
  for (const Json& entry : json["io"]) {
    EXPECT_GT(entry["seconds"].get<double>(), 0);
    EXPECT_GT(entry["peak_fraction"].get<double>(), 0);
    EXPECT_EQ(entry["ratio"], entry["formula"].get<double>() / entry["lower_bound"].get<double>());
  }
  EXPECT_GE(json["threads"], 1);
}

// Without values there is still LSE, whose words are those of the formula.
TEST(GradIo, WithoutValuesMakesLse) {
  LayerCase layer;
  make_layer_case({6, 9, 5, 4}, Ties::none, "f32", 1, &layer);
  ASSERT_EQ(run_ioattn(layer.grad()).exit_code, 0);
  const std::string lse = layer.output("LSE");
  write_file(layer.directory / "Y.npy", npy_matrix<float>(5, 0, {}));
  write_file(layer.directory / "dO.npy", npy_matrix<float>(6, 0, {}));
  for (const char* M : {"100", "100000"}) {
    const RunResult result = run_ioattn(layer.grad() + Arguments{"--json", "--M", M});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(parse_npy(layer.output("LSE")).values.size(), 6u);
    const Json io = result.json()["io"];
    EXPECT_EQ(io[0]["formula"], 0);  // dX is 0
    EXPECT_GT(io[1]["formula"], 0);
    EXPECT_EQ(io[1]["lower_bound"], 0);
  }
  const auto before = parse_npy(lse).values, after = parse_npy(layer.output("LSE")).values;
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i], 1e-5) << i;
}

TEST(GradJson, ListsThePassesAskedFor) {
  LayerCase layer;
  make_layer_case({6, 9, 5, 4}, Ties::none, "f32", 1, &layer);
  const auto passes = [&](const char* outputs, const char* schedule) {
    std::string text;
    const Json json =
        run_ioattn(layer.grad() + Arguments{"--json", "--outputs", outputs, "--schedule", schedule})
            .json();
    for (const Json& entry : json["io"]) text += entry["pass"].get<std::string>() + " ";
    return text;
  };
  for (const char* schedule : and_auto(backward_schedules)) {
    EXPECT_EQ(passes("dX", schedule), "backward ");
    if (has_forward_pass(schedule)) {
      EXPECT_EQ(passes("O", schedule), "forward ");
    }
    EXPECT_EQ(passes("LSE,dX", schedule), "backward forward ");
  }
}

struct IoCase {
  CaseSizes sizes;
  Ties ties;
  const char* dtype;
};
void PrintTo(const IoCase& io, std::ostream* out) {
  *out << io.sizes.n << "x" << io.sizes.m << "x" << io.sizes.d << "x" << io.sizes.dv << " ties "
       << static_cast<int>(io.ties);
}

class GradIo : public testing::TestWithParam<IoCase> {};

TEST_P(GradIo, CountEqualsFormulaAndExceedsTheBound) {
  const CaseSizes& sizes = GetParam().sizes;
  LayerCase layer;
  make_layer_case(sizes, GetParam().ties, GetParam().dtype, 2, &layer);
  ioattn::LayerShape shape;
  shape.n = static_cast<long>(sizes.n);
  shape.m = static_cast<long>(sizes.m);
  shape.d = static_cast<long>(sizes.d);
  shape.dv = static_cast<long>(sizes.dv);
  // A2 and A3 are files of their own unless all are one.
  shape.tie = layer.self ? ioattn::Tie::all : ioattn::Tie::none;
  int runs = 0;
  for (const char* schedule : and_auto(backward_schedules)) {
    for (const int M : {7, 64, 200, 1000, 5000, 100000}) {
      SCOPED_TRACE(std::string(schedule) + " M = " + std::to_string(M));
      const RunResult result = run_ioattn(
          layer.grad() + Arguments{"--json", "--schedule", schedule, "--M", std::to_string(M)});
      if (result.exit_code == 2) {
        EXPECT_NE(result.err.find("too small"), std::string::npos) << result.err;
        continue;
      }
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const Json json = result.json();
      for (const Json& entry : json["io"]) {
        EXPECT_EQ(entry["M"], M);
        EXPECT_EQ(entry["level"], "M");
        EXPECT_EQ(entry["bound_M"], M);
        expect_consistent(entry, shape);
        ++runs;
      }
    }
  }
  EXPECT_GE(runs, 20);
}

INSTANTIATE_TEST_SUITE_P(Cases, GradIo,
                         testing::Values(IoCase{{23, 31, 12, 7}, Ties::none, "f32"},
                                         IoCase{{30, 30, 9, 9}, Ties::all, "f64"},
                                         IoCase{{64, 16, 10, 14}, Ties::none, "f64"}));

Arguments minilm(const std::string& out) {
  const std::string data = ioattn_test::data_path("minilm/");
  return {"grad", "--A1",          data + "A.npy", "--X", data + "X.npy", "--Y", data + "Y.npy",
          "--dO", data + "dO.npy", "--out",        out,   "--json"};
}

TEST(GradIoOnModelData, CountEqualsFormulaAndExceedsTheBound) {
  const TemporaryDirectory directory;
  const ioattn::LayerShape shape = {512, 512, 385, 32, ioattn::Tie::all};
  const std::pair<const char*, const char*> runs[] = {
      {"auto", "4096"},       {"auto", "65536"},         {"auto", "300000"},
      {"row_stream", "2000"}, {"paper_small", "5000"},   {"paper_small", "98304"},
      {"naive", "2000000"},   {"paper_large", "200000"}, {"weight_resident", "400000"},
      {"resident", "900000"}};
  for (const auto& [schedule, M] : runs) {
    SCOPED_TRACE(std::string(schedule) + " M = " + M);
    const RunResult result =
        run_ioattn(minilm(directory / "out") + Arguments{"--schedule", schedule, "--M", M});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json json = result.json();
    ASSERT_EQ(json["io"].size(), 2u);
    for (const Json& entry : json["io"]) {
      EXPECT_EQ(entry["bound_M"], entry["M"]);
      expect_consistent(entry, shape);
    }
  }
}

TEST(GradIoOnModelData, LiteralFormAndNaiveReportTheirOverflow) {
  const TemporaryDirectory directory;
  const ioattn::LayerShape shape = {512, 512, 385, 32, ioattn::Tie::all};
  const RunResult literal =
      run_ioattn(minilm(directory / "out") +
                 Arguments{"--schedule", "paper_large", "--literal", "--M", "98304"});
  ASSERT_EQ(literal.exit_code, 0) << literal.err;
  const Json literal_json = literal.json();
  ASSERT_EQ(literal_json["io"].size(), 2u);
  for (const Json& entry : literal_json["io"]) {
    expect_consistent(entry, shape);
    const long excess = entry["footprint"].get<long>() - 98304;
    EXPECT_EQ(entry["overflow"], std::max(excess, 0L));
    EXPECT_EQ(entry["bound_M"], 98304 + std::max(excess, 0L));
  }
  EXPECT_GT(literal_json["io"][0]["overflow"], 0);

  const auto naive = [&](const std::string& M) {
    return run_ioattn(minilm(directory / "out") +
                      Arguments{"--schedule", "naive", "--outputs", "dX", "--M", M})
        .json()["io"][0];
  };
  const Json small = naive("98304");
  EXPECT_LE(small["footprint"], 98304);
  const Json exact = naive(std::to_string(98304 + small["overflow"].get<long>()));
  EXPECT_EQ(exact["overflow"], 0);
  EXPECT_EQ(exact["footprint"], exact["M"]);
  EXPECT_LT(exact["formula"], small["formula"]);
}

TEST(GradText, ListsPhasesAndWhatExceedsM) {
  LayerCase layer;
  make_layer_case({40, 30, 8, 6}, Ties::none, "f64", 3, &layer);
  const auto text = [&](const Arguments& more) {
    const RunResult result = run_ioattn(layer.grad() + more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string gradients = text({"--outputs", "dX,dY,dA2", "--M", "600"});
  for (const char* phase : {"  phase delta ", "  phase h ", "  phase col_stream "})
    EXPECT_NE(gradients.find(phase), std::string::npos) << gradients;
  EXPECT_EQ(gradients.find("exceeds M"), std::string::npos) << gradients;
  const std::string naive = text({"--schedule", "naive", "--outputs", "dX", "--M", "600"});
  EXPECT_NE(naive.find("naive as printed in the paper exceeds M by "), std::string::npos) << naive;
}

TEST(GradIoTies, AreFoundByFile) {
  LayerCase layer;
  make_layer_case({24, 24, 10, 10}, Ties::all, "f32", 3, &layer);
  const std::string a1 = layer.directory / "A1.npy", a2 = layer.directory / "A2.npy",
                    a3 = layer.directory / "A3.npy", link = layer.directory / "link.npy";
  std::filesystem::create_symlink(a1, link);
  const auto entry = [&](const Arguments& more) {
    const Json json = run_ioattn(layer.grad() + more +
                                 Arguments{"--json", "--M", "400", "--schedule", "row_stream"})
                          .json();
    return json["io"][0];
  };
  ioattn::LayerShape shape = {24, 24, 10, 10, ioattn::Tie::all};
  const Json self = entry({});
  expect_consistent(self, shape);
  EXPECT_EQ(entry({"--A2", a1})["formula"], self["formula"]);
  EXPECT_EQ(entry({"--A2", link, "--A3", link})["formula"], self["formula"]);

  shape.tie = ioattn::Tie::kv;
  const Json keys_values = entry({"--A2", a2, "--A3", a2});
  expect_consistent(keys_values, shape);

  shape.tie = ioattn::Tie::none;
  const Json separate = entry({"--A2", a2, "--A3", a3});
  expect_consistent(separate, shape);
  EXPECT_GT(separate["formula"], self["formula"]);

  for (const Arguments& partly : {Arguments{"--A3", a3}, Arguments{"--A2", a2}}) {
    const Json shared = entry(partly);
    // An algorithm for that is one for A1 = A2 = A3 too.
    ioattn::LayerShape bounded = shape;
    bounded.tie = ioattn::Tie::all;
    expect_consistent(shared, shape, bounded);
  }
}

TEST(GradMachine, DecidesMUnlessItIsGiven) {
  LayerCase layer;
  make_layer_case({24, 24, 10, 10}, Ties::all, "f64", 3, &layer);
  const Json json = run_ioattn(layer.grad() + Arguments{"--json"}).json();
  EXPECT_EQ(json["machine"]["caches"][1]["level"], "L2");
  for (const Json& entry : json["io"]) {
    EXPECT_EQ(entry["level"], "L2");
    EXPECT_EQ(entry["M"], json["machine"]["caches"][1]["M"]["f64"]);
  }
  // 64 KiB x 0.75 / 8 bytes.
  const Json smaller =
      run_ioattn(layer.grad() + Arguments{"--json"}, {{"IOATTN_L2", "65536"}}).json();
  EXPECT_EQ(smaller["io"][0]["M"], 6144);
}

TEST(GradMachine, IsaOverrideTakesEffect) {
  LayerCase layer;
  make_layer_case({24, 24, 10, 10}, Ties::all, "f32", 3, &layer);
  const RunResult result =
      run_ioattn(layer.grad() + Arguments{"--json"}, {{"IOATTN_ISA", "scalar"}});
  EXPECT_EQ(result.json()["isa"], "scalar");
  EXPECT_NE(result.json()["io"][0]["plan"].get<std::string>().find("reg:scalar("),
            std::string::npos);
  EXPECT_NE(run_ioattn(layer.grad(), {{"IOATTN_ISA", "scalar"}}).out.find("scalar"),
            std::string::npos);
}

TEST(GradFlops, AreThoseOfTheForm) {
  LayerCase layer;
  make_layer_case({40, 30, 12, 12}, Ties::none, "f64", 3, &layer);
  const double n = 40, m = 30, d = 12, dv = 12;
  for (const char* schedule : backward_schedules) {
    const Json json = run_ioattn(layer.grad() + Arguments{"--json", "--schedule", schedule}).json();
    for (const Json& entry : json["io"]) {
      const ioattn::plan::Plan plan = plan_of(entry);
      const bool g_form =
          ioattn::has_form(plan.schedule, ioattn::Form::h) && plan.blocks.form == ioattn::Form::g;
      const double thin = g_form ? n * d * dv : m * d * dv;
      const double wide = n * m * d;
      const double fma = entry["pass"] == "backward" ? 3 * wide + 2 * n * d * d + thin
                                                     : 2 * wide + n * d * d + thin;
      EXPECT_NEAR(entry["gflops"].get<double>() * entry["seconds"].get<double>() * 1e9, 2 * fma,
                  1e-6 * fma)
          << entry["plan"];
    }
  }
}

}  // namespace
