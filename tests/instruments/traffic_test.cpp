// What caches move, simulated from the lines that schedules really touch, beside what the schedules
// count: blocks are planned for a fraction of the capacity, the cache has all of it.

#include <gtest/gtest.h>

#include <cstdlib>

#include "instruments/created_memory.hpp"
#include "tune/traffic/traffic_simulation.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using tune::Traffic;

struct Case {
  const char* problem;
  Pass pass;
  index_t capacity_bytes;
  double fraction;  // of the capacity that M is
  const char* schedule = "";
  double most_in = 1.10, most_out = 1.25;
  double most_with_ways = 0;  // in, of 8 ways; 0: any
  bool least_words = false;   // the plan's objective; else time
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.problem << " " << name_of(c.pass) << " " << c.schedule << " " << c.capacity_bytes;
}

std::unique_ptr<tune::TrafficCase> make(const Case& c) {
  std::string error;
  SdpaProblem sdpa;
  if (parse_problem(c.problem, &sdpa, &error)) return tune::sdpa_case(c.pass, sdpa);
  LayerProblem layer;
  EXPECT_TRUE(parse_problem(c.problem, &layer, &error)) << error;
  return tune::layer_case(c.pass, layer);
}

Traffic measured(const Case& c) {
  const std::unique_ptr<tune::TrafficCase> problem = make(c);
  api::RunOptions options;
  options.M = static_cast<index_t>(static_cast<double>(c.capacity_bytes) * c.fraction) /
              size_of(problem->dtype());
  Schedule schedule{};
  if (parse_schedule(c.schedule, &schedule)) options.schedule = schedule;
  if (c.least_words) options.objective = api::Objective::words_l2;  // whatever level M is of
  Traffic traffic;
  traffic.plan = problem->plan(options);
  traffic.capacity_bytes = c.capacity_bytes;
  traffic.line_bytes = 64;
  traffic.ways = 8;
  instruments::IoCounter counter;
  instruments::CreatedMemory created(&counter);
  problem->run(&created, nullptr);
  EXPECT_EQ(counter.violation(), "");
  traffic.count = counter.total();
  traffic.created_memory = created.words();
  // OPT alone takes a logarithm an access.
  tune::simulate({c.capacity_bytes, 64, 8, nullptr}, {200'000'000, 4'000'000},
                 problem->result_bits(), problem.get(), &traffic);
  return traffic;
}

const tune::TrafficLine& line_of(const Traffic& traffic, const std::string& key) {
  for (const tune::TrafficLine& line : traffic.lines) {
    if (line.key == key) return line;
  }
  ADD_FAILURE() << "no " << key;
  return traffic.lines.front();
}

// Plans and traces are those of AVX2's register tiles, so that they are the same on every CPU.
class TrafficOfPlans : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    setenv("IOATTN_ISA", "avx2", 1);
    const kernels::Kernels* kernels = nullptr;
    const Status found = api::selected_kernels(&kernels);
    if (!found.is_ok()) GTEST_SKIP() << found.message();
  }
  void TearDown() override { unsetenv("IOATTN_ISA"); }
};

TEST_P(TrafficOfPlans, IsWhatTheyCount) {
  const Case& c = GetParam();
  const Traffic traffic = measured(c);
  const tune::TrafficLine& lru = line_of(traffic, "lru");
  ASSERT_EQ(lru.reason, "");
  RecordProperty("plan", traffic.plan.text);
  const double in = lru.in / tune::expected_in(traffic);
  const double out = *lru.out / tune::expected_out(traffic);
  const tune::TrafficLine& opt = line_of(traffic, "opt");
  const tune::TrafficLine& ways = line_of(traffic, "set_lru");
  ASSERT_EQ(ways.reason, "");
  const auto in_of = [&](const tune::TrafficLine& line) {  // OPT: of short traces
    return line.is_available() ? line.in / tune::expected_in(traffic) : 0;
  };
  std::printf("%-28s %-8s %7lld %5.3f %5.3f, OPT in %5.3f, 8 ways in %5.3f  %s\n", c.problem,
              name_of(c.pass), static_cast<long long>(c.capacity_bytes), in, out, in_of(opt),
              in_of(ways), traffic.plan.text.c_str());
  EXPECT_FALSE(!(in <= c.most_in)) << in << " " << traffic.plan.text;
  EXPECT_FALSE(!(out <= c.most_out)) << out << " " << traffic.plan.text;
  if (c.most_with_ways > 0) {
    EXPECT_LE(in_of(ways), c.most_with_ways) << traffic.plan.text;
  }
  // No cache moves less than every operand once, and none of this size less than OPT.
  EXPECT_GE(lru.moved(), traffic.plan.compulsory);
  if (opt.is_available()) {
    EXPECT_LE(opt.in, lru.in);
    EXPECT_GE(opt.moved(), traffic.plan.compulsory);
  } else {
    EXPECT_NE(opt.reason.find("accesses, the limit"), std::string::npos) << opt.reason;
  }
}

constexpr Pass forward = Pass::forward, backward = Pass::backward;
constexpr index_t KiB = 1024;

// L1 gives plans half of itself, L2 three quarters. Larger limits than those of Case: README.md of
// lib/instruments says why.
constexpr Case ci_cases[] = {
    {"layer:n256,d32", backward, 16 * KiB, 0.5},
    {"layer:n256,d32", forward, 16 * KiB, 0.5},
    {"layer:n384,d64", backward, 96 * KiB, 0.75},
    {"layer:n256,d128,v32,tied", backward, 64 * KiB, 0.75, "", 1.25, 1.45},
    {"sdpa:n384,d32", forward, 32 * KiB, 0.75, "", 1.05, 0.60},
    {"sdpa:h2,kv1,n256,d64", backward, 64 * KiB, 0.75},
    {"sdpa:n384,d64,causal", backward, 64 * KiB, 0.75},
    {"layer:n384,d64", backward, 512 * KiB, 0.75, "stationary"},
};
INSTANTIATE_TEST_SUITE_P(Small, TrafficOfPlans, testing::ValuesIn(ci_cases));

// Limits of the full tier are what was measured and a few hundredths; lib/instruments/README.md
// says why some are above those of Case.
constexpr Case l1_cases[] = {
    {"layer:n1024,d16", backward, 32 * KiB, 0.5},
    {"layer:n1024,d32", backward, 32 * KiB, 0.5, "", 1.10, 1.45},
    {"layer:n1024,d64", backward, 32 * KiB, 0.5},
    {"layer:n512,d128", backward, 32 * KiB, 0.5, "", 1.20, 1.65},
    {"layer:n512,d256", backward, 32 * KiB, 0.5},
    {"layer:n1024,d16", forward, 32 * KiB, 0.5},
    {"layer:n1024,d64", forward, 32 * KiB, 0.5},
    {"layer:n512,d128", forward, 32 * KiB, 0.5},
    {"sdpa:n1024,d64", backward, 32 * KiB, 0.5},
    {"sdpa:n1024,d16", backward, 32 * KiB, 0.5},
    {"sdpa:n1024,d64", forward, 32 * KiB, 0.5},
    {"sdpa:n256,d512", backward, 32 * KiB, 0.5},
    {"sdpa:n128,d2048", backward, 32 * KiB, 0.5},
    {"sdpa:n128,d2048", forward, 32 * KiB, 0.5},
};
INSTANTIATE_TEST_SUITE_P(L1, TrafficOfPlans, testing::ValuesIn(l1_cases));

constexpr Case layer_cases[] = {
    {"layer:n4096,d16", backward, 512 * KiB, 0.75},
    {"layer:n2048,d64", backward, 512 * KiB, 0.75},
    {"layer:n1024,d128", backward, 512 * KiB, 0.75},
    {"layer:n1024,d256", backward, 512 * KiB, 0.75},
    {"layer:n1024,d512", backward, 512 * KiB, 0.75, "", 1.20, 1.45, 1.60},
    {"layer:n2048,d64", forward, 512 * KiB, 0.75},
    {"layer:n1024,d256", forward, 512 * KiB, 0.75},
    {"layer:n1024,d385,v32,self", backward, 512 * KiB, 0.75, "", 1.20, 1.40},
    {"layer:n1024,d128,f64", backward, 512 * KiB, 0.75},
};
INSTANTIATE_TEST_SUITE_P(Layer, TrafficOfPlans, testing::ValuesIn(layer_cases));

constexpr Case deep_cases[] = {
    {"layer:n512,d1024", backward, 512 * KiB, 0.75, "", 1.10, 1.25, 1.60},
    {"layer:n512,d1024", forward, 512 * KiB, 0.75},
    {"layer:n256,d2048", backward, 512 * KiB, 0.75, "", 1.10, 1.25, 5.50},
};
INSTANTIATE_TEST_SUITE_P(Deep, TrafficOfPlans, testing::ValuesIn(deep_cases));

constexpr Case named_cases[] = {
    {"layer:n512,d128", backward, 32 * KiB, 0.5, "stationary", 1.20},
    {"layer:n512,d256", backward, 128 * KiB, 0.75, "q_stored", 1.45, 1.30},
    {"layer:n512,d256", backward, 64 * KiB, 0.75, "half_dim", 1.65, 1.80},
    {"layer:n1024,d32", backward, 64 * KiB, 0.75, "weight_resident"},
    {"layer:n512,d128", backward, 128 * KiB, 0.75, "paper_small"},
    {"layer:n512,d64", backward, 128 * KiB, 0.75, "paper_large", 2.20, 2.00},
};
INSTANTIATE_TEST_SUITE_P(Named, TrafficOfPlans, testing::ValuesIn(named_cases));

constexpr Case sdpa_cases[] = {
    {"sdpa:n2048,d64", forward, 512 * KiB, 0.75, "", 1.10, 0.75},
    {"sdpa:n2048,d64", backward, 512 * KiB, 0.75},
    {"sdpa:n1024,d128", backward, 512 * KiB, 0.75},
    {"sdpa:n1024,d256", backward, 512 * KiB, 0.75},
    {"sdpa:h4,kv2,n1024,d64,causal", backward, 512 * KiB, 0.75},
    {"sdpa:h4,kv2,n1024,d64,causal", forward, 512 * KiB, 0.75, "", 1.10, 0.85},
};
INSTANTIATE_TEST_SUITE_P(Sdpa, TrafficOfPlans, testing::ValuesIn(sdpa_cases));

constexpr Case deep_sdpa_cases[] = {
    {"sdpa:n1024,d512", backward, 512 * KiB, 0.75},
    {"sdpa:n512,d1024", backward, 512 * KiB, 0.75, "", 1.25},
    {"sdpa:n512,d2048", forward, 512 * KiB, 0.75},
};
INSTANTIATE_TEST_SUITE_P(DeepSdpa, TrafficOfPlans, testing::ValuesIn(deep_sdpa_cases));

// Tiles of weights that wait in memory, which plans for the fewest words have.
constexpr Case parked_cases[] = {
    {"sdpa:n256,d512", backward, 32 * KiB, 0.5, "", 1.10, 1.25, 1.30, true},
    {"sdpa:n1024,d384", backward, 512 * KiB, 0.75, "", 1.20, 1.25, 1.55, true},
    {"layer:n512,d128", backward, 32 * KiB, 0.5, "tile_fused", 1.15, 1.25, 1.45, true},
    {"layer:n1024,d512", backward, 512 * KiB, 0.75, "tile_fused", 1.15, 1.25, 4.00, true},
};
INSTANTIATE_TEST_SUITE_P(Parked, TrafficOfPlans, testing::ValuesIn(parked_cases));

// Blocks of keys are one thread's each, whichever it is: together they touch what one does.
TEST(Traffic, OfThreadsIsThatOfOneDivided) {
  const Case c = {"sdpa:h2,n256,d64", backward, 64 * KiB, 0.75};
  const std::unique_ptr<tune::TrafficCase> problem = make(c);
  api::RunOptions options;
  options.M = 12288;
  problem->plan(options);
  problem->run(nullptr, nullptr);
  const auto simulated = [&](int threads) {
    Traffic traffic;
    tune::simulate({c.capacity_bytes, 64, 8, nullptr}, {200'000'000, 4'000'000},
                   problem->result_bits(), problem.get(), &traffic, threads);
    return traffic;
  };
  const Traffic one = simulated(1), three = simulated(3);
  EXPECT_TRUE(one.threads.empty());
  ASSERT_EQ(three.threads.size(), 3u);
  const auto near = [](double x, double y) { return x > 0.95 * y && x < 1.05 * y; };
  EXPECT_TRUE(near(static_cast<double>(three.accesses), static_cast<double>(one.accesses)))
      << three.accesses << " " << one.accesses;
  ASSERT_EQ(three.lines.size(), one.lines.size());
  for (std::size_t i = 0; i < one.lines.size(); ++i) {
    ASSERT_TRUE(three.lines[i].is_available());
    double in = 0, out = 0;
    for (const Traffic::OfThread& thread : three.threads) {
      EXPECT_LT(thread.lines[i].in, three.lines[i].in + 1);
      in += thread.lines[i].in;
      out += thread.lines[i].out.value();
    }
    EXPECT_EQ(in, three.lines[i].in);
    EXPECT_EQ(out, three.lines[i].out.value());
  }
  // Three caches hold no less than one.
  EXPECT_FALSE(three.lru.empty());
  for (std::size_t i = 1; i < three.lru.size(); ++i) EXPECT_LE(three.lru[i], three.lru[i - 1]);
}

// A trace is not cut: where it is too long there is a reason in place of numbers.
TEST(Traffic, OfALongTraceIsNotTold) {
  const Case c = {"layer:n64,d16", backward, 8 * KiB, 0.5};
  const std::unique_ptr<tune::TrafficCase> problem = make(c);
  api::RunOptions options;
  options.M = 1024;
  problem->plan(options);
  problem->run(nullptr, nullptr);
  Traffic traffic;
  tune::simulate({c.capacity_bytes, 64, 8, nullptr}, {1'000'000, 1000}, problem->result_bits(),
                 problem.get(), &traffic);
  EXPECT_EQ(line_of(traffic, "lru").reason, "");
  EXPECT_EQ(line_of(traffic, "opt").reason, "the trace has more than 1,000 accesses, the limit");
  traffic.lines.clear();
  tune::simulate({c.capacity_bytes, 64, 0, nullptr}, {1000, 1000}, problem->result_bits(),
                 problem.get(), &traffic);
  for (const tune::TrafficLine& line : traffic.lines) {
    EXPECT_EQ(line.reason, "the trace has more than 1,000 accesses, the limit") << line.name;
  }
}

}  // namespace
}  // namespace ioattn_test
