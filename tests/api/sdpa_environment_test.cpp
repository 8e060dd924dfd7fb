// The floating-point environment of a caller of SDPA is the caller's, whatever the dtype: by calls,
// by plans, and of parts that are merged.

#include <cfenv>
#include <limits>
#include <type_traits>
#include <vector>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "api/half_call.hpp"
#include "api/sdpa_call.hpp"

namespace ioattn_test {
namespace {

template <class T>
struct OfDType {
  using Call = SdpaCall<T>;
  static Call call() { return Call({2, 4, 2, 70, 45, 20, 20}); }
};
template <>
struct OfDType<ioattn_bf16> {
  using Call = HalfCall<ioattn_bf16>;
  static Call call() { return Call({2, 4, 2, 70, 45, 20, 20}); }
};
template <>
struct OfDType<ioattn_f16> {
  using Call = HalfCall<ioattn_f16>;
  static Call call() { return Call({2, 4, 2, 70, 45, 20, 20}); }
};

template <class T>
void append(const T* values, std::size_t count, std::vector<char>* bytes) {
  const char* const first = reinterpret_cast<const char*>(values);
  bytes->insert(bytes->end(), first, first + count * sizeof(T));
}

// All results, in C order.
template <class Call>
void append_results(Call* call, std::vector<char>* bytes) {
  const ioattn_sdpa_problem& p = call->problem;
  const auto count = [&](std::int64_t heads, std::int64_t rows, std::int64_t cols) {
    return std::size_t(p.batch * heads * rows * cols);
  };
  append(call->o.data(), count(p.heads, p.n, p.dv), bytes);
  append(call->lse.data(), count(p.heads, p.n, 1), bytes);
  append(call->dq.data(), count(p.heads, p.n, p.d), bytes);
  append(call->dk.data(), count(p.kv_heads, p.m, p.d), bytes);
  append(call->dv.data(), count(p.kv_heads, p.m, p.dv), bytes);
}

template <class Call>
void run_by_plans(Call* call) {
  const ioattn_sdpa_problem& p = call->problem;
  ioattn_plan *forward = nullptr, *backward = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_create(IOATTN_FORWARD, &p, nullptr, nullptr, &forward), IOATTN_OK);
  EXPECT_EQ(ioattn_sdpa_plan_create(IOATTN_BACKWARD, &p, &call->gradients, nullptr, &backward),
            IOATTN_OK);
  EXPECT_EQ(ioattn_sdpa_execute_forward(forward, &p, call->o.data(), nullptr, call->lse.data(),
                                        nullptr, nullptr, 0),
            IOATTN_OK);
  EXPECT_EQ(
      ioattn_sdpa_execute_backward(backward, &p, call->d_o.data(), nullptr, call->o.data(), nullptr,
                                   call->lse.data(), nullptr, &call->gradients, nullptr, 0),
      IOATTN_OK);
  ioattn_plan_destroy(forward);
  ioattn_plan_destroy(backward);
}

// O and dO as parts with the same LSE: O in the place of dQ, LSE in that of dK, which are no
// smaller.
template <class Call>
void run_merge(Call* call) {
  const ioattn_sdpa_problem& p = call->problem;
  ioattn_partial parts[2] = {};
  parts[0].o = call->o.data();
  parts[1].o = call->d_o.data();
  parts[0].lse = parts[1].lse = call->lse.data();
  const ioattn_merge_shape shape = {sizeof shape, p.batch, p.heads, p.n, p.dv, p.dtype};
  EXPECT_EQ(
      ioattn_merge(&shape, nullptr, parts, 2, call->dq.data(), nullptr, call->dk.data(), nullptr),
      IOATTN_OK)
      << ioattn_last_error();
}

template <class Call>
std::vector<char> all_results(Call* call) {
  std::vector<char> all;
  EXPECT_EQ(call->forward(), IOATTN_OK);
  EXPECT_EQ(call->backward(), IOATTN_OK);
  append_results(call, &all);
  run_by_plans(call);
  append_results(call, &all);
  run_merge(call);
  append_results(call, &all);
  return all;
}

template <class T>
class SdpaEnvironment : public testing::Test {
 protected:
  void SetUp() override { std::fegetenv(&before_); }
  void TearDown() override { std::fesetenv(&before_); }

  typename OfDType<T>::Call call_ = OfDType<T>::call();

 private:
  std::fenv_t before_;
};
using DTypes = testing::Types<float, double, ioattn_bf16, ioattn_f16>;
TYPED_TEST_SUITE(SdpaEnvironment, DTypes);

TYPED_TEST(SdpaEnvironment, RoundingModeIsKeptAndIgnored) {
  const std::vector<char> expected = all_results(&this->call_);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const std::vector<char> got = all_results(&this->call_);
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(after, mode);
    EXPECT_TRUE(got == expected) << mode;
  }
}

TYPED_TEST(SdpaEnvironment, ExceptionFlagsAreKept) {
  all_results(&this->call_);  // finds the machine
  // AArch64 raises FE_INEXACT with FE_OVERFLOW, as C allows.
  for (const int flags : {0, FE_DIVBYZERO, FE_OVERFLOW | FE_INVALID | FE_INEXACT}) {
    std::feclearexcept(FE_ALL_EXCEPT);
    std::feraiseexcept(flags);
    all_results(&this->call_);
    EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), flags);
  }
}

// A caller that traps exceptions is not killed by the inexact numbers and underflow of others.
TYPED_TEST(SdpaEnvironment, TrapsAreKeptAndDoNotFire) {
  const std::vector<char> expected = all_results(&this->call_);
  const int traps = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT;
  std::feclearexcept(FE_ALL_EXCEPT);
  if (feenableexcept(traps) == -1) GTEST_SKIP() << "this CPU traps no floating-point exceptions";
  const std::vector<char> got = all_results(&this->call_);
  const int after = fegetexcept();
  fedisableexcept(FE_ALL_EXCEPT);
  EXPECT_EQ(after, traps);
  EXPECT_TRUE(got == expected);
}

#if defined(__SSE2__)
// To numbers below the smallest normal one.
template <class T>
void make_small(T* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      values[i] *= std::numeric_limits<T>::min() / 8;
    } else {
      const float least = std::is_same_v<T, ioattn_f16> ? 0x1p-14F : 0x1p-126F;
      values[i] = element<T>(number(values[i]) * least / 8);
    }
  }
}

TYPED_TEST(SdpaEnvironment, FlushToZeroIsKeptAndIgnored) {
  const ioattn_sdpa_problem& p = this->call_.problem;
  make_small(this->call_.v.data(), std::size_t(p.batch * p.kv_heads * p.m * p.dv));
  const std::vector<char> expected = all_results(&this->call_);
  constexpr unsigned flush_to_zero_and_denormals_are_zero = 0x8040;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | flush_to_zero_and_denormals_are_zero);
  const std::vector<char> got = all_results(&this->call_);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after, before | flush_to_zero_and_denormals_are_zero);
  EXPECT_TRUE(got == expected);
}
#endif

}  // namespace
}  // namespace ioattn_test
