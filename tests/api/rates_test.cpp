// Rates of the machine: what they are made of, what price estimates have by them, and where they
// have no say. Nothing is timed but in the last test, which does not look at the values.

#include "api/search/rates.hpp"

#include "api/kernels_in_use.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/planning/session.hpp"
#include "api/wisdom_case.hpp"
#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

constexpr const char* date = "2026-01-01T00:00:00Z";

// f32 32e9, f64 16e9, pairs 64e9 multiply-adds a second; 2e9 and 8e9 words of f32.
api::RateMeter meter_of_test() {
  api::RateMeter meter;
  meter.threads = 3;
  meter.multiply_add = [](DType dtype) {
    return dtype == DType::f32 ? 1 / 32e9 : dtype == DType::f64 ? 1 / 16e9 : 1 / 64e9;
  };
  meter.byte = [](bool from_L3) { return from_L3 ? 1 / 32e9 : 1 / 8e9; };
  return meter;
}

const kernels::Kernels& named(Isa isa) { return *kernels::find_kernels(isa); }

class RatesTest : public WisdomTest {
 protected:
  // Rates by which a word costs so many multiply-adds.
  wisdom::Wisdom with_price(double per_word, double per_inner_word,
                            const std::string& day = date) const {
    wisdom::Rates rates = {1e10, per_word / 1e10, per_inner_word / 1e10, 2, day, ""};
    wisdom::Wisdom made;
    made.keep_rates(api::environment_of(request.tile.isa), name_of(problem.dtype), rates);
    return made;
  }
  // Of f32 and f64.
  const plan::Price assumed = plan::assumed_price(machine::this_machine().vendor, false);
  plan::Price price(const api::RunOptions& options = {}) const {
    plan::SdpaRequest made;
    EXPECT_OK(api::sdpa_request(problem, options, &made));
    return made.price;
  }
};

TEST_F(RatesTest, AreOfEveryTypeAndItsKernels) {
  wisdom::Wisdom wisdom;
  const kernels::Kernels& scalar = named(Isa::scalar);
  api::learn_rates(scalar, meter_of_test(), date, &wisdom);
  const auto rates = [&](Isa isa, const char* dtype) {
    const wisdom::Rates* found = wisdom.rates_of(api::environment_of(isa), dtype);
    return found != nullptr ? *found : wisdom::Rates();
  };
  const wisdom::Rates f32 = rates(Isa::scalar, "f32"), f64 = rates(Isa::scalar, "f64"),
                      bf16 = rates(Isa::scalar, "bf16");
  EXPECT_DOUBLE_EQ(f32.multiply_adds, 32e9);
  EXPECT_DOUBLE_EQ(f32.word_seconds, 4 / 8e9);
  EXPECT_DOUBLE_EQ(f32.inner_word_seconds, 4 / 32e9);
  EXPECT_EQ(f32.threads, 3);
  EXPECT_EQ(f32.date, date);
  EXPECT_DOUBLE_EQ(f64.multiply_adds, 16e9);
  EXPECT_DOUBLE_EQ(f64.word_seconds, 8 / 8e9);
  // Products of f32; a word is one of f32 once it is in L2.
  EXPECT_DOUBLE_EQ(bf16.multiply_adds, 32e9);
  EXPECT_DOUBLE_EQ(bf16.word_seconds, 2 / 8e9);
  EXPECT_DOUBLE_EQ(bf16.inner_word_seconds, 4 / 32e9);
  EXPECT_EQ(rates(Isa::scalar, "f16"), bf16);
  // Pairs stay in 16 bits, and belong to another environment than the other types.
  const kernels::Kernels& pairs = named(Isa::emulated_bf16);
  api::learn_rates(pairs, meter_of_test(), date, &wisdom);
  const wisdom::Rates of_pairs = rates(pairs.tile(DType::bf16).isa, "bf16");
  EXPECT_DOUBLE_EQ(of_pairs.multiply_adds, 64e9);
  EXPECT_DOUBLE_EQ(of_pairs.inner_word_seconds, 2 / 32e9);
  EXPECT_EQ(rates(pairs.tile(DType::f64).isa, "f64"), f64);
  // Without memory for streams nothing is learned, nor from a clock that stands still.
  wisdom::Wisdom nothing;
  api::learn_rates(scalar, {}, date, &nothing);
  api::RateMeter still = meter_of_test();
  still.multiply_add = [](DType) { return 0; };
  api::learn_rates(scalar, still, date, &nothing);
  EXPECT_TRUE(nothing.known().empty());
}

TEST_F(RatesTest, AreThePriceOfEstimates) {
  EXPECT_EQ(price(), assumed);
  import(to_text(with_price(24, 6)));
  EXPECT_DOUBLE_EQ(price().per_word, 24);
  EXPECT_DOUBLE_EQ(price().per_inner_word, 6);
  EXPECT_EQ(price().objective, plan::Objective::time);
  // Where the caller decides it is what is assumed of any CPU, of other types what is of this.
  api::RunOptions options;
  options.reproducible = true;
  EXPECT_EQ(price(options), plan::Price());
  options = {};
  options.M = 20000;
  EXPECT_EQ(price(options), plan::Price());
  options = {};
  options.cache_level = 1;
  EXPECT_EQ(price(options), plan::Price());
  options = {};
  options.objective = api::Objective::words_l2;
  EXPECT_EQ(price(options), plan::price_of(plan::Objective::words));
  problem.dtype = DType::f64;
  EXPECT_EQ(price(), assumed);
  // The layer problem has the same.
  plan::LayerRequest layer;
  ASSERT_OK(
      api::plan_request(Pass::backward, {{64, 64, 16, 16, Tie::none, {}}, DType::f32}, {}, &layer));
  EXPECT_DOUBLE_EQ(layer.price.per_word, 24);
  EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
  problem.dtype = DType::f32;
  EXPECT_EQ(price(), assumed);
}

TEST(Price, CountsMultiplyAddsOfVectors) {
  for (const auto& [isa, per_word] :
       {std::pair{Isa::emulated_bf16, 40.}, {Isa::emulated_amx, 10.}}) {
    const wisdom::Environment environment = api::environment_of(isa);
    wisdom::Wisdom wisdom;
    wisdom.keep_rates(environment, "bf16", {1e10, 40 / 1e10, 10 / 1e10, 2, date, ""});
    const api::KnownPrice known = api::price_from(wisdom, environment, DType::bf16);
    ASSERT_OK(known.wisdom);
    EXPECT_DOUBLE_EQ(known.price.per_word, per_word) << name_of(isa);
    EXPECT_DOUBLE_EQ(known.price.per_inner_word, per_word / 4) << name_of(isa);
  }
}

TEST_F(RatesTest, ChangePlansAndTheirCache) {
  api::RunOptions reproducible;
  reproducible.reproducible = true;
  int changed = 0;
  for (const index_t d : {16, 64, 128, 256, 512}) {  // whatever the caches are
    problem.shape = {1, 1, 1, 4096, 4096, d, d, {}};
    EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
    const std::string of_any_cpu = quick_plan(all_gradients, reproducible);
    import(to_text(with_price(4, 1, "2026-01-01T00:00:00Z")));
    const std::string cheap = quick_plan(all_gradients);
    EXPECT_EQ(quick_plan(all_gradients), cheap) << "from the cache";
    import(to_text(with_price(64, 16, "2026-01-02T00:00:00Z")));
    const std::string dear = quick_plan(all_gradients);
    EXPECT_EQ(quick_plan(all_gradients, reproducible), of_any_cpu);
    EXPECT_EQ(quick_plan(all_gradients), dear);
    changed += cheap != dear ? 1 : 0;
  }
  EXPECT_GT(changed, 0);
}

TEST_F(RatesTest, AreClampedOrNotUsedWithAReason) {
  import(to_text(with_price(1000, 2000, "2026-01-01T00:00:00Z")));
  EXPECT_EQ(price(), (plan::Price{plan::Objective::time, 64, 16, true}));
  import(to_text(with_price(1e-2, 1e-2, "2026-01-02T00:00:00Z")));
  EXPECT_EQ(price(), (plan::Price{plan::Objective::time, 4, 1, true}));
  // From L3 no dearer than from memory.
  import(to_text(with_price(8, 12, "2026-01-03T00:00:00Z")));
  EXPECT_EQ(price(), (plan::Price{plan::Objective::time, 8, 8, true}));
  EXPECT_EQ(explained()["rates"][0]["code"], "ok");
  import(to_text(with_price(0, 3, "2026-01-04T00:00:00Z")));
  EXPECT_EQ(price(), assumed);
  const Json told = explained()["rates"][0];
  EXPECT_EQ(told["dtype"], "f32");
  EXPECT_EQ(told["code"], "bad_rates");
  EXPECT_NE(told["message"].get<std::string>().find("seconds_per_word"), std::string::npos);
  EXPECT_EQ(told["per_word"], assumed.per_word);
  const api::KnownPrice known = api::known_price({}, request.tile.isa, DType::f32);
  EXPECT_EQ(known.wisdom.reason, wisdom::Reason::rates);
  EXPECT_STREQ(known.origin(), "assumed");
}

TEST_F(RatesTest, AreKnownOnceAllAreGood) {
  const kernels::Kernels* kernels = nullptr;
  ASSERT_OK(api::selected_kernels(&kernels));
  const auto known = [&] {
    const api::WisdomReading reading;
    return api::knows_rates(*kernels, *reading);
  };
  EXPECT_FALSE(known());
  import(to_text(with_price(16, 4)));
  EXPECT_FALSE(known()) << "of one type alone";
  wisdom::Wisdom all;
  api::learn_rates(*kernels, meter_of_test(), "2026-01-02T00:00:00Z", &all);
  import(to_text(all));
  EXPECT_TRUE(known());
  EXPECT_EQ(explained()["rates"].size(), 4u);
  EXPECT_EQ(text_of_wisdom(ioattn_wisdom_export_text), to_text(all));
  import(to_text(with_price(0, 0, "2026-01-03T00:00:00Z")));
  EXPECT_FALSE(known());
}

TEST_F(RatesTest, AreMeasuredOfEveryKernel) {
  std::vector<const kernels::Kernels*> all = {&named(Isa::emulated_bf16),
                                              &named(Isa::emulated_amx)};
  for (const kernels::Kernels* kernels : kernels::all_kernels())
    if (machine::this_machine().isa.has(kernels->isa)) all.push_back(kernels);
  for (const kernels::Kernels* kernels : all) {
    SCOPED_TRACE(name_of(kernels->isa));
    const api::RateMeter meter = api::meter_of(*kernels, 2);
    ASSERT_TRUE(meter.byte && meter.multiply_add);
    EXPECT_GT(meter.multiply_add(DType::f32), 0);
    EXPECT_GT(meter.multiply_add(DType::bf16), 0);
    EXPECT_GT(meter.multiply_add(DType::f64), 0);
    if (kernels->isa != Isa::scalar) continue;
    EXPECT_GT(meter.byte(true), 0);
    EXPECT_GT(meter.byte(false), 0);
  }
}

}  // namespace
}  // namespace ioattn_test
