// Kernels of other instruction sets than calls use: what a search tries beside them, and plans that
// wisdom has for them.

#include "api/known/other_kernels.hpp"

#include <set>

#include "api/isa_variable.hpp"
#include "api/kernels_in_use.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/search/layer_search.hpp"
#include "api/search/sdpa_search.hpp"
#include "api/wisdom_case.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

constexpr DType all_types[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

// With no IOATTN_ISA, whatever the tests run with.
class OtherKernels : public WisdomTest {
 protected:
  OtherKernels() {
    unsetenv("IOATTN_ISA");
    EXPECT_OK(api::sdpa_request(problem, {}, &request));
  }

  // The plan that scalar code, which every CPU runs, has for the request.
  plan::SdpaPlan scalar_plan(const std::optional<SdpaSet>& set) const {
    plan::SdpaRequest scalar = request;
    scalar.tile = kernels::find_kernels(Isa::scalar)->tile(problem.dtype);
    plan::SdpaPlan plan;
    EXPECT_OK(plan::make_plan_of(scalar, set, &plan, nullptr));
    return plan;
  }

 private:
  KeptIsaVariable kept_isa_;
};

TEST_F(OtherKernels, AreThoseOfThisCpuThatComputeOtherwise) {
  const kernels::Kernels* own = nullptr;
  ASSERT_OK(api::selected_kernels(&own));
  for (const DType dtype : all_types) {
    const auto others = api::other_kernels(dtype);
    std::set<Isa> isas = {own->tile(dtype).isa};
    for (const kernels::Kernels* one : others) {
      const Isa isa = one->tile(dtype).isa;
      EXPECT_TRUE(machine::this_machine().isa.has(isa)) << name_of(isa);
      EXPECT_FALSE(isa == Isa::scalar || is_emulated(isa)) << name_of(isa);
      EXPECT_TRUE(isas.insert(isa).second) << name_of(isa) << " twice";
    }
    setenv("IOATTN_ISA", name_of(own->isa), 1);
    EXPECT_TRUE(api::other_kernels(dtype).empty());
    unsetenv("IOATTN_ISA");
  }
  // An AVX-512 CPU has AVX2, too; and pairs are another way to multiply bf16.
  const IsaSet cpu = machine::this_machine().isa;
  if (cpu.has(Isa::avx512)) {
    EXPECT_FALSE(api::other_kernels(DType::f32).empty());
  }
  if (cpu.has(Isa::avx512_bf16)) {
    EXPECT_GT(api::other_kernels(DType::bf16).size(), api::other_kernels(DType::f16).size());
    EXPECT_EQ(api::other_kernels(DType::f16).size(), api::other_kernels(DType::f32).size());
  }
}

TEST_F(OtherKernels, AreComparedByRatesOrLanes) {
  const TileShape own = {Isa::avx512, 8, 32}, other = {Isa::avx2, 6, 16};
  wisdom::Wisdom known;
  const auto slower = [&](int datapath_bits) {
    return api::slower_by(known, own, other, DType::f32, datapath_bits);
  };
  EXPECT_DOUBLE_EQ(slower(0), 2);
  EXPECT_DOUBLE_EQ(slower(512), 2);
  // Units that take 256 bits at a time.
  EXPECT_GT(slower(256), 1);
  EXPECT_LT(slower(256), 1.1);
  EXPECT_DOUBLE_EQ(api::slower_by(known, other, own, DType::f32, 256), 1 / slower(256));
  EXPECT_DOUBLE_EQ(api::slower_by(known, own, {Isa::scalar, 4, 4}, DType::f32, 256), 8);
  const auto learn = [&](Isa isa, const char* dtype, double multiply_adds) {
    known.keep_rates(api::environment_of(isa), dtype,
                     {multiply_adds, 1e-9, 1e-10, 1, "2026-01-01T00:00:00Z", ""});
  };
  learn(Isa::avx512, "f32", 60e9);
  EXPECT_DOUBLE_EQ(slower(0), 2) << "one alone says nothing";
  EXPECT_FALSE(api::are_measured(known, own, other, DType::f32));
  learn(Isa::avx2, "f32", 50e9);
  EXPECT_DOUBLE_EQ(slower(0), 1.2);
  EXPECT_DOUBLE_EQ(slower(256), 1.2);
  EXPECT_TRUE(api::are_measured(known, own, other, DType::f32));
  EXPECT_DOUBLE_EQ(api::slower_by(known, own, other, DType::f64, 0), 2) << "of another type";
  // Estimates know that pairs take half the time.
  const TileShape pairs = {Isa::avx512_bf16, 8, 32};
  learn(Isa::avx512_bf16, "bf16", 120e9);
  learn(Isa::avx512, "bf16", 50e9);
  EXPECT_DOUBLE_EQ(api::slower_by(known, pairs, own, DType::bf16), 1.2);
}

TEST_F(OtherKernels, AreSearchedWhereNobodyNamesOne) {
  api::RunOptions options;
  for (const DType dtype : all_types) {
    SdpaProblem one = problem;
    one.dtype = dtype;
    plan::SdpaRequest made;
    api::SearchReport report;
    const auto isas = [&] {
      EXPECT_OK(api::list_ways<api::SdpaKind>(one, all_gradients, options, &made, &report));
      std::set<Isa> set;
      for (const plan::SdpaCandidate& candidate : report.candidates) {
        set.insert(candidate.plan.tile.isa);
        EXPECT_EQ(candidate.plan.tile.isa != report.candidates[0].plan.tile.isa,
                  candidate.made_from.find(" on ") != std::string::npos);
      }
      EXPECT_LE(report.candidates.size(), plan::most_candidates);
      EXPECT_EQ(report.candidates[0].made_from, "estimate");
      plan::SdpaPlan estimate;
      EXPECT_OK(api::plan_sdpa(one, all_gradients, options, &estimate));
      EXPECT_EQ(report.candidates[0].plan.tile.isa, estimate.tile.isa);
      return set;
    };
    // Those of half the lanes are not hopeless; beside tiles all others may be.
    const std::size_t count = isas().size();
    if (api::other_kernels(dtype).empty()) {
      EXPECT_EQ(count, 1u);
    } else if (!multiplies_tiles(made.tile.isa)) {
      EXPECT_GT(count, 1u) << name_of(dtype);
    }
    options.reproducible = true;
    EXPECT_EQ(isas().size(), 1u);
    options.reproducible = false;
    setenv("IOATTN_ISA", name_of(made.tile.isa), 1);
    EXPECT_EQ(isas().size(), 1u);
    unsetenv("IOATTN_ISA");
  }
  plan::LayerRequest made;
  api::LayerSearchReport report;
  const LayerProblem layer = {{90, 110, 33, 18, Tie::kv, {}}, DType::f32};
  GradientSet dx;
  dx.dX = true;
  ASSERT_OK(api::list_ways<api::LayerKind>(layer, dx, options, &made, &report));
  std::set<Isa> isas;
  for (const plan::LayerCandidate& candidate : report.candidates)
    isas.insert(candidate.plan.tile.isa);
  EXPECT_EQ(isas.size() > 1, !api::other_kernels(DType::f32).empty());
}

// Whatever the instruction set, a plan of wisdom gives right results, the same for any threads.
TEST_F(OtherKernels, OfWisdomAreUsed) {
  if (request.tile.isa == Isa::scalar) GTEST_SKIP() << "there are no others";
  const std::string estimate = quick_plan();
  import(document(to_text(scalar_plan(forward_set))));
  import(document(to_text(scalar_plan(all_gradients)), all_gradients));
  for (const auto& set : {forward_set, all_gradients}) {
    const Json told = describe(set ? IOATTN_BACKWARD : IOATTN_FORWARD);
    EXPECT_EQ(told["origin"], "wisdom");
    EXPECT_EQ(told["plan"], to_text(scalar_plan(set)));
    EXPECT_EQ(quick_plan(set), to_text(scalar_plan(set)));
  }
  const Json records = explained()["records"];
  EXPECT_EQ(records.size(), 2u);
  for (const Json& record : records) EXPECT_EQ(record["code"], "ok");
  expect_results_of_any_threads();
  // Not where the caller wants the same bits whatever is known, nor an instruction set by name.
  api::RunOptions reproducible;
  reproducible.reproducible = true;
  EXPECT_EQ(quick_plan({}, reproducible), estimate);
  setenv("IOATTN_ISA", name_of(request.tile.isa), 1);
  EXPECT_EQ(quick_plan(), estimate) << "not from the cache, either";
  EXPECT_EQ(describe()["origin"], "estimate");
  const Json refused = explained()["records"][0];
  EXPECT_EQ(refused["code"], "other_kernel");
  EXPECT_NE(refused["message"].get<std::string>().find("IOATTN_ISA asks for"), std::string::npos);
}

TEST_F(OtherKernels, ThatAreNotHereAreRefusedWithAReason) {
  const auto verdict = [&](Isa isa, int rows, int cols) {
    return api::check_kernels(request.tile, false, {isa, rows, cols}, DType::f32);
  };
  EXPECT_OK(verdict(request.tile.isa, request.tile.rows, request.tile.cols));
  EXPECT_OK(verdict(Isa::scalar, 4, 4));
  for (const auto& refused :
       {verdict(machine::this_machine().isa.has(Isa::neon) ? Isa::avx2 : Isa::neon, 8, 8),
        verdict(Isa::scalar, 4, 8), verdict(Isa::emulated_bf16, 4, 4)}) {
    EXPECT_EQ(refused.reason, wisdom::Reason::kernel);
    EXPECT_NE(refused.message, "");
  }
  EXPECT_NE(verdict(Isa::neon, 8, 9).message, verdict(Isa::scalar, 8, 9).message);
}

}  // namespace
}  // namespace ioattn_test
