// What the caller's thread keeps (floating-point environment, streams) and what values out of the
// ordinary do.

#include <cfenv>
#include <cmath>
#include <functional>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "api/layer_call.hpp"

namespace ioattn_test {
namespace {

const CaseShape shape = {70, 45, 24, 20, Ties::none};

// The first test, so that finding the machine happens here.
TEST(Streams, NothingIsPrinted) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  LayerCall<float> call(shape, 0);
  const ioattn_status fine[] = {call.forward(), call.backward()};
  const ioattn_options wrong = with_schedule("no such schedule");
  const ioattn_status refused = call.forward(&wrong);
  call.a1.at(3, 3) = std::numeric_limits<float>::quiet_NaN();
  const ioattn_status with_nan[] = {call.forward(), call.whole_backward()};
  const char* name = nullptr;
  const ioattn_status isa = ioattn_selected_isa(&name);
  const std::string err = testing::internal::GetCapturedStderr();
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(out, "");
  EXPECT_EQ(err, "");
  for (const ioattn_status status : {fine[0], fine[1], with_nan[0], with_nan[1], isa})
    EXPECT_EQ(status, IOATTN_OK);
  EXPECT_EQ(refused, IOATTN_INVALID_ARGUMENT);
}

template <class T>
class Environment : public testing::Test {
 protected:
  void SetUp() override { std::fegetenv(&before_); }
  void TearDown() override { std::fesetenv(&before_); }

  // Results of every schedule; the environment is the caller's.
  static std::vector<T> all_results(LayerCall<T>* call) {
    std::vector<T> all;
    for (const char* schedule : backward_schedules) {
      const ioattn_options options = with_schedule(schedule);
      call->reset();
      const bool both = has_forward_pass(schedule);
      EXPECT_EQ(call->forward(both ? &options : nullptr), IOATTN_OK);
      EXPECT_EQ(call->backward(&options), IOATTN_OK);
      const std::vector<T> outputs = call->outputs();
      all.insert(all.end(), outputs.begin(), outputs.end());
    }
    // No key: the logarithm of nothing, and of m where d = 0.
    for (const CaseShape& empty :
         {CaseShape{4, 0, 3, 2, Ties::none}, CaseShape{4, 7, 0, 2, Ties::none}}) {
      LayerCall<T> other(empty, 0);
      EXPECT_EQ(other.forward(), IOATTN_OK);
      const std::vector<T> lse = other.lse.dense();
      all.insert(all.end(), lse.begin(), lse.end());
    }
    return all;
  }

 private:
  std::fenv_t before_;
};
TYPED_TEST_SUITE(Environment, BothTypes);

TYPED_TEST(Environment, RoundingModeIsKeptAndIgnored) {
  LayerCall<TypeParam> call(shape, 1);
  const auto expected = this->all_results(&call);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const auto got = this->all_results(&call);
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(after, mode);
    EXPECT_TRUE(same_bits(got, expected)) << mode;
  }
}

TYPED_TEST(Environment, ExceptionFlagsAreKept) {
  LayerCall<TypeParam> call(shape, 1);
  LayerCall<TypeParam> no_keys({4, 0, 3, 2, Ties::none}, 0);
  // AArch64 raises FE_INEXACT with FE_OVERFLOW, as C allows.
  for (const int flags : {0, FE_DIVBYZERO, FE_OVERFLOW | FE_INVALID | FE_INEXACT}) {
    const auto expect_flags = [&](const char* after) {
      EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), flags) << after;
      std::feclearexcept(FE_ALL_EXCEPT);
      std::feraiseexcept(flags);
    };
    for (const char* schedule : backward_schedules) {
      const ioattn_options options = with_schedule(schedule);
      std::feclearexcept(FE_ALL_EXCEPT);
      std::feraiseexcept(flags);
      call.forward(&options);  // a refusal where there is none
      expect_flags("forward");
      EXPECT_EQ(call.whole_backward(&options), IOATTN_OK);
      expect_flags("backward");
    }
    EXPECT_EQ(no_keys.forward(), IOATTN_OK);
    expect_flags("a problem without keys");
    double words = 0;
    EXPECT_EQ(ioattn_layer_bound(IOATTN_BACKWARD, IOATTN_CLASS_FMA, IOATTN_TIE_NONE, 70, 45, 24, 20,
                                 300, &words, nullptr),
              IOATTN_OK);
    expect_flags("a bound");
  }
}

// A caller that traps exceptions is not killed by the NaN and underflow of others.
TYPED_TEST(Environment, TrapsAreKeptAndDoNotFire) {
  const int traps = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT;
  for (const bool with_nan : {false, true}) {  // which all of dX is then
    reference::LayerInputs<double> inputs = reference::make_case(Kind::one_hot, shape, 3);
    if (with_nan) inputs.A1(2, 1) = std::numeric_limits<double>::quiet_NaN();
    LayerCall<TypeParam> call(shape, 1, inputs);
    EXPECT_EQ(call.forward(), IOATTN_OK);
    EXPECT_EQ(call.backward(), IOATTN_OK);
    const auto expected = call.outputs();
    std::feclearexcept(FE_ALL_EXCEPT);
    if (feenableexcept(traps) == -1) GTEST_SKIP() << "this CPU traps no floating-point exceptions";
    call.reset();
    const ioattn_status forward = call.forward();
    const ioattn_status backward = call.backward();
    const int after = fegetexcept();
    fedisableexcept(FE_ALL_EXCEPT);
    EXPECT_EQ(forward, IOATTN_OK);
    EXPECT_EQ(backward, IOATTN_OK);
    EXPECT_EQ(after, traps);
    EXPECT_TRUE(same_bits(call.outputs(), expected)) << with_nan;
  }
}

#if defined(__SSE2__)
// Results include numbers below the smallest normal one, which FTZ and DAZ would flush to 0.
TYPED_TEST(Environment, FlushToZeroIsKeptAndIgnored) {
  reference::LayerInputs<double> inputs = reference::make_case(Kind::normal, shape, 5);
  const double tiny = static_cast<double>(std::numeric_limits<TypeParam>::min()) / 64;
  for (double& value : inputs.Y.values) value *= tiny;
  LayerCall<TypeParam> call(shape, 1, inputs);
  const auto expected = this->all_results(&call);
  int denormal = 0;
  for (const TypeParam value : call.o.dense())
    denormal += std::fpclassify(value) == FP_SUBNORMAL ? 1 : 0;
  EXPECT_GT(denormal, 1000);
  constexpr unsigned flush_to_zero_and_denormals_are_zero = 0x8040;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | flush_to_zero_and_denormals_are_zero);
  const auto got = this->all_results(&call);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after, before | flush_to_zero_and_denormals_are_zero);
  EXPECT_TRUE(same_bits(got, expected));
}
#endif

template <class T>
class Values : public testing::Test {};
TYPED_TEST_SUITE(Values, BothTypes);

// Whether it exists at 400 words for the shape below.
bool needs_few_words(const std::string& schedule) {
  return schedule == "row_stream" || schedule == "paper_small" || schedule == "naive";
}

// NaN comes out where the reference has it and nowhere else, whatever shares a block with it.
TYPED_TEST(Values, NanStaysInItsRow) {
  using Inputs = reference::LayerInputs<double>;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const struct {
    const char* name;
    std::function<void(Inputs*)> poison;
    std::size_t nan_rows;  // of O
    bool nan_lse;
  } cases[] = {{"A1", [&](Inputs* in) { in->A1(33, 5) = nan; }, 1, true},
               {"last row of A1", [&](Inputs* in) { in->A1(69, 23) = nan; }, 1, true},
               {"dO", [&](Inputs* in) { in->dO(33, 5) = nan; }, 0, false},
               {"A3", [&](Inputs* in) { in->A3(44, 0) = nan; }, 70, false},
               {"Y", [&](Inputs* in) { in->Y(3, 19) = nan; }, 0, false},
               {"A2", [&](Inputs* in) { in->A2(44, 0) = nan; }, 70, true}};
  for (const auto& c : cases) {
    Inputs inputs = reference::make_case(Kind::normal, shape, 7);
    c.poison(&inputs);
    LayerCall<TypeParam> call(shape, 1, inputs);
    for (const std::int64_t words : {0, 400}) {
      for (const char* schedule : backward_schedules) {
        SCOPED_TRACE(std::string("NaN in ") + c.name + ", " + schedule);
        ioattn_options options = with_schedule(schedule);
        if (needs_few_words(schedule)) options.fast_memory_words = words;
        call.reset();
        if (has_forward_pass(schedule)) {
          ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
          call.expect_forward();
        } else {
          ASSERT_EQ(call.forward(), IOATTN_OK);
        }
        std::size_t nan_rows = 0, nan_lse = 0;
        for (std::size_t i = 0; i < shape.n; ++i) {
          std::size_t in_row = 0;
          for (std::size_t k = 0; k < shape.dv; ++k) in_row += std::isnan(call.o.at(i, k)) ? 1 : 0;
          nan_rows += in_row == shape.dv ? 1 : 0;
          nan_lse += std::isnan(call.lse.at(0, i)) ? 1 : 0;
        }
        EXPECT_EQ(nan_rows, c.nan_rows);
        EXPECT_EQ(nan_lse, c.nan_lse ? c.nan_rows : 0);
        ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
        for (const TypeParam value : call.dx.dense()) ASSERT_TRUE(std::isnan(value));
      }
    }
  }
}

// exp of these scores is infinite, or 0 for whole rows, in double too.
TYPED_TEST(Values, LargeScoresStayFinite) {
  for (const Kind kind : {Kind::large_scores, Kind::one_hot}) {
    LayerCall<TypeParam> call(shape, 1, kind);
    for (const std::int64_t words : {0, 400}) {
      for (const char* schedule : backward_schedules) {
        SCOPED_TRACE(std::string(reference::name_of(kind)) + ", " + schedule);
        ioattn_options options = with_schedule(schedule);
        if (needs_few_words(schedule)) options.fast_memory_words = words;
        call.reset();
        const bool both = has_forward_pass(schedule);
        ASSERT_EQ(call.forward(both ? &options : nullptr), IOATTN_OK) << ioattn_last_error();
        call.expect_forward();
        ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
        call.expect_backward();
        for (const TypeParam value : call.outputs()) ASSERT_TRUE(std::isfinite(value));
        TypeParam largest = 0;
        for (const TypeParam value : call.lse.dense()) largest = std::max(largest, std::abs(value));
        EXPECT_GT(largest, 900);
      }
    }
  }
}

}  // namespace
}  // namespace ioattn_test
