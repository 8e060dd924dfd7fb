// Estimates take the instruction set that the model says is the fastest.

#include "api/planning/sdpa_estimate.hpp"

#include <set>

#include "api/isa_variable.hpp"
#include "api/known/other_kernels.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/search/sdpa_search.hpp"
#include "api/wisdom_case.hpp"
#include "kernels/registry.hpp"
#include "machine/datapath.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

constexpr SdpaSizes small_sizes = {2, 4, 4, 200, 8, 16, 16};

// Of rates that the test gives, and with no IOATTN_ISA, whatever the tests run with. On CPUs with
// two vector lengths, of which the shorter wastes fewer lanes.
class SdpaEstimates : public WisdomTest {
 protected:
  SdpaEstimates() {
    unsetenv("IOATTN_ISA");
    problem.shape = small_of(all_gradients);
    EXPECT_OK(api::sdpa_request(problem, {}, &request));
    for (const kernels::Kernels* one : api::other_kernels(problem.dtype)) {
      const TileShape tile = one->tile(problem.dtype);
      if (tile.cols < request.tile.cols && tile.cols >= 8) shorter_ = tile;
    }
  }

  bool has_two() const { return shorter_.isa != Isa::scalar; }
  // Vectors that are taken by halves make no more columns of sums than shorter ones: they waste
  // lanes of keys alone, of which weights are made.
  bool wastes_columns() const {
    const int bits = machine::datapath_bits();
    const auto least = [&](Isa isa) {
      return kernels::find_kernels(isa, bits)->least_columns(problem.dtype);
    };
    return least(request.tile.isa) > least(shorter_.isa);
  }
  // Multiply-adds a second of the instruction set of calls, and of that with shorter vectors.
  void learn(double own, double shorter) const {
    api::change_wisdom([&](wisdom::Wisdom* wisdom) {
      const auto keep = [&](Isa isa, double multiply_adds) {
        wisdom->keep_rates(api::environment_of(isa), name_of(problem.dtype),
                           {multiply_adds, 1e-9, 1e-10, 1, "2026-01-01T00:00:00Z", ""});
      };
      keep(request.tile.isa, own);
      keep(shorter_.isa, shorter);
    });
  }
  plan::SdpaPlan estimate(const std::optional<SdpaSet>& set, const api::RunOptions& options = {},
                          api::IsaChoice* choice = nullptr) const {
    plan::SdpaRequest made;
    plan::SdpaPlan plan;
    EXPECT_OK(api::sdpa_request(problem, options, &made));
    EXPECT_OK(api::estimate_sdpa(made, set, options, &plan, nullptr, nullptr, choice));
    return plan;
  }

  // Queries are lanes forward, keys backward.
  static SdpaShape small_of(const std::optional<SdpaSet>& set) {
    return set ? SdpaShape{2, 4, 4, 200, 8, 16, 16, {}} : SdpaShape{2, 4, 4, 8, 200, 8, 8, {}};
  }
  TileShape shorter_;

 private:
  KeptIsaVariable kept_isa_;
};

TEST_F(SdpaEstimates, TakeShorterVectorsThatWasteLess) {
  if (!has_two()) GTEST_SKIP() << "one vector length alone";
  for (const auto& set : {forward_set, all_gradients}) {
    if (!set && !wastes_columns()) continue;
    problem.shape = small_of(set);
    api::IsaChoice choice;
    learn(50e9, 50e9);
    EXPECT_EQ(estimate(set, {}, &choice).tile.isa, shorter_.isa);
    EXPECT_EQ(choice.chosen, shorter_.isa);
    ASSERT_GE(choice.trials.size(), 2u);
    EXPECT_EQ(choice.trials[0].isa, request.tile.isa);
    EXPECT_EQ(choice.trials[0].time, 1);
    for (const api::IsaTrial& trial : choice.trials) {
      if (trial.isa != shorter_.isa) continue;
      EXPECT_LT(trial.time, 0.9);
      EXPECT_TRUE(trial.is_measured);
    }
    // A plan for it, and what calls take.
    EXPECT_EQ(quick_plan(set), to_text(estimate(set)));
    plan::SdpaRequest of_shorter = request;
    of_shorter.shape = problem.shape;
    of_shorter.tile = shorter_;
    of_shorter.price = api::price_of({}, shorter_.isa, problem.dtype);
    plan::SdpaPlan plan;
    ASSERT_OK(plan::make_plan_of(of_shorter, set, &plan, nullptr));
    EXPECT_EQ(estimate(set), plan);
    // At half the rate they gain nothing.
    learn(100e9, 50e9);
    EXPECT_EQ(estimate(set, {}, &choice).tile.isa, request.tile.isa);
    EXPECT_EQ(choice.chosen, request.tile.isa);
    EXPECT_EQ(quick_plan(set), to_text(estimate(set))) << "not from the cache";
    // Nor where no lane is wasted, however wrong a rate may be.
    learn(50e9, 80e9);
    problem.shape.n = problem.shape.m = 256;
    problem.shape.d = problem.shape.dv = 256;
    EXPECT_EQ(estimate(set).tile.isa, request.tile.isa);
  }
}

TEST_F(SdpaEstimates, AreOfTheIsaThatTheCallerAsksFor) {
  if (!has_two()) GTEST_SKIP() << "one vector length alone";
  learn(50e9, 50e9);
  ASSERT_EQ(estimate(all_gradients).tile.isa, shorter_.isa);
  api::RunOptions given;
  given.M = 20000;
  EXPECT_EQ(estimate(all_gradients, given).tile.isa, request.tile.isa);
  api::RunOptions words;
  words.objective = api::Objective::words_l2;
  EXPECT_EQ(estimate(all_gradients, words).tile.isa, request.tile.isa);
  setenv("IOATTN_ISA", name_of(request.tile.isa), 1);
  EXPECT_EQ(estimate(all_gradients).tile.isa, request.tile.isa);
  unsetenv("IOATTN_ISA");
  // Nor may it depend on the CPU where results are to be those of others.
  api::RunOptions reproducible;
  reproducible.reproducible = true;
  api::IsaChoice choice;
  EXPECT_EQ(estimate(all_gradients, reproducible, &choice).tile.isa, request.tile.isa);
  EXPECT_EQ(choice.trials.size(), 1u);
}

// Threads, heads, batch and mask have no part in it.
TEST_F(SdpaEstimates, AreTheSameForSlicesAndThreads) {
  if (!has_two()) GTEST_SKIP() << "one vector length alone";
  learn(50e9, 50e9);
  for (const auto& set : {forward_set, all_gradients}) {
    problem.shape = small_of(set);
    const std::string plan = quick_plan(set);
    for (const int threads : {1, 3, 16}) {
      api::RunOptions options;
      options.threads = threads;
      EXPECT_EQ(quick_plan(set, options), plan);
    }
    const SdpaShape shape = problem.shape;
    problem.shape.batch = 7;
    problem.shape.heads = problem.shape.kv_heads = 1;
    EXPECT_EQ(quick_plan(set), plan);
    problem.shape.mask = {-Mask::unbounded, 0};
    EXPECT_EQ(quick_plan(set), plan);
    problem.shape = shape;
  }
  SdpaCall<float> small(small_sizes);
  const ioattn_options one = with_threads(1), more = with_threads(4);
  ASSERT_EQ(small.forward(&one), IOATTN_OK);
  ASSERT_EQ(small.backward(&one), IOATTN_OK);
  small.expect_forward();
  small.expect_backward();
  const std::vector<float> values = small.values();
  small.poison();
  ASSERT_EQ(small.forward(&more), IOATTN_OK);
  ASSERT_EQ(small.backward(&more), IOATTN_OK);
  EXPECT_TRUE(same_bits(small.values(), values));
}

// A gradient's bits do not depend on what else is wanted.
TEST_F(SdpaEstimates, AreOfOneIsaWhateverIsWanted) {
  if (!has_two()) GTEST_SKIP() << "one vector length alone";
  learn(50e9, 50e9);
  SdpaSet bias;
  bias.dBias = true;
  for (const index_t m : {8, 200}) {
    problem.shape.m = m;
    const Isa isa = estimate(all_gradients).tile.isa;
    EXPECT_EQ(isa == shorter_.isa, m == 8);
    for (const SdpaSet& set :
         {SdpaSet{true}, SdpaSet{false, true}, SdpaSet{false, false, true}, bias})
      EXPECT_EQ(estimate(set).tile.isa, isa) << m;
  }
}

// A search begins with the estimate, has the instruction set of calls besides, and its record is
// found by calls.
TEST_F(SdpaEstimates, AreWhereSearchesBegin) {
  if (!has_two()) GTEST_SKIP() << "one vector length alone";
  learn(50e9, 50e9);
  const std::string estimated = quick_plan(all_gradients);
  plan::SdpaRequest made;
  api::SearchReport report;
  ASSERT_OK(api::list_ways<api::SdpaKind>(problem, all_gradients, {}, &made, &report));
  EXPECT_EQ(to_text(report.candidates[0].plan), estimated);
  std::set<Isa> isas;
  for (const plan::SdpaCandidate& one : report.candidates) isas.insert(one.plan.tile.isa);
  EXPECT_TRUE(isas.count(request.tile.isa) == 1 && isas.count(shorter_.isa) == 1);
  EXPECT_EQ(made.tile, request.tile) << "wisdom is kept where calls look for it";
  import(document(estimated, all_gradients));
  EXPECT_EQ(explained()["records"][0]["code"], "ok");
  EXPECT_EQ(quick_plan(all_gradients), estimated);
}

}  // namespace
}  // namespace ioattn_test
