// The numbers that the header names for SDPA: what holds on either side of each.

#include <cmath>
#include <limits>

#include "api/half_call.hpp"
#include "api/isa_variable.hpp"
#include "api/sdpa_call.hpp"

namespace ioattn_test {
namespace {

template <class T>
class Thresholds : public IsaVariable {};
TYPED_TEST_SUITE(Thresholds, BothTypes);

// Scores are those of the keys: of one column, which is 1 in every query.
template <class T, class Score>
reference::SdpaInputs<double> with_scores(const SdpaSizes& sizes, Score&& score) {
  reference::SdpaInputs<double> inputs = reference::random_sdpa(
      sizes.batch, sizes.heads, sizes.kv_heads, sizes.n, sizes.m, sizes.d, sizes.dv, 3);
  for (auto* values : {&inputs.Q.values, &inputs.K.values})
    std::fill(values->begin(), values->end(), 0);
  for (std::size_t i = 0; i < sizes.n; ++i) inputs.Q(0, 0, i, 0) = 1;
  for (std::size_t j = 0; j < sizes.m; ++j) inputs.K(0, 0, j, 0) = score(j);
  inputs.scale = 1;
  return inputs;
}

// Sums of weights up to 2^47: values below 2^-47 of the largest number over m have finite ones,
// however scores rise, and those of larger values are right or infinite.
TYPED_TEST(Thresholds, OfValuesWhoseSumsAreFinite) {
  using T = TypeParam;
  const double largest = static_cast<double>(std::numeric_limits<T>::max());
  int infinite = 0;
  const auto check = [&] {
    for (const std::size_t n : {1u, 5u, 70u})
      for (const double rise : {0.0, 20.0, 31.9, 33.0, 60.0})
        for (const double exponent : {-47.0, -30.0}) {
          SCOPED_TRACE(testing::Message() << "n " << n << " rise " << rise << " 2^" << exponent);
          const SdpaSizes sizes = {1, 1, 1, n, 1000, 16, 24};
          auto inputs = with_scores<T>(sizes, [&](std::size_t j) { return j < 400 ? 0 : rise; });
          const double value = 0.999 * std::exp2(exponent) * largest / 1000;
          std::fill(inputs.V.values.begin(), inputs.V.values.end(), value);
          SdpaCall<T> call(inputs, Layout::bhsd);
          call.problem.scale = 1;
          ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
          for (const T o : call.o.dense().values) {
            if (exponent > -47 && std::isinf(o)) {
              ++infinite;
              continue;
            }
            ASSERT_NEAR(static_cast<double>(o) / value, 1,
                        1e3 * static_cast<double>(std::numeric_limits<T>::epsilon()));
          }
        }
  };
  for_each_isa(check);
  unsetenv("IOATTN_ISA");  // as plans choose
  check();
  EXPECT_GT(infinite, 0);  // there is a reason for the threshold
}

// Weights are exp(s - LSE), and LSE is rounded: its log m is lost where a bias is as large as the
// inverse of the type's epsilon. O is divided by the sum, and right.
TYPED_TEST(Thresholds, OfABiasThatTheSumIsLostBeside) {
  using T = TypeParam;
  constexpr std::size_t n = 12, m = 30;
  const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  const double inverse = 1 / epsilon;
  for (const double size : {1.0, 1e3, inverse / 1e3, 20 * inverse, 1e9 * inverse}) {
    SCOPED_TRACE(size);
    SdpaCall<T> call(with_scores<T>({1, 1, 1, n, m, 8, 9}, [](std::size_t) { return 0; }),
                     Layout::bhsd);
    const std::vector<T> bias(n * m, static_cast<T>(-size));
    call.problem.bias = bias.data();
    call.problem.bias_batch = call.problem.bias_heads = 1;
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    const bool lost = size > inverse;
    const double weight = lost ? 1 : 1.0 / m;
    const double allowed = weight * epsilon * (lost ? 100 : size + 100);
    for (std::size_t k = 0; k < 9; ++k) {
      double d_v = 0, terms = 0, o = 0;
      for (std::size_t i = 0; i < n; ++i) {
        d_v += weight * call.inputs.dO(0, 0, i, k);
        terms += std::abs(call.inputs.dO(0, 0, i, k));
      }
      for (std::size_t j = 0; j < m; ++j) {
        EXPECT_NEAR(static_cast<double>(call.dv(0, 0, j, k)), d_v, terms * allowed);
        o += call.inputs.V(0, 0, j, k) / m;
      }
      for (std::size_t i = 0; i < n; ++i)
        EXPECT_NEAR(static_cast<double>(call.o(0, 0, i, k)), o, 100 * epsilon);
    }
  }
}

// A bias of -inf hides a key, but not a NaN in it; a mask hides both.
TYPED_TEST(Thresholds, OfWhatHidesAKey) {
  using T = TypeParam;
  constexpr std::size_t n = 20, m = 33, hidden = m - 1, e = 9;
  for (const bool by_mask : {false, true})
    for (const bool with_nan : {false, true}) {
      SCOPED_TRACE(testing::Message() << "mask " << by_mask << " NaN " << with_nan);
      reference::SdpaInputs<double> inputs = reference::random_sdpa(1, 1, 1, n, m, 8, e, 4);
      for (std::size_t k = 0; k < 8; ++k) inputs.K(0, 0, hidden, k) = with_nan ? std::nan("") : 1e4;
      SdpaCall<T> call(inputs, Layout::bhsd);
      std::vector<T> bias(n * m, T(0));
      if (by_mask) {  // queries 0 to n - 1, keys up to i + m - 1 - n
        call.problem.mask = IOATTN_MASK_WINDOW_TOP_LEFT;
        call.problem.window_left = -1;
        call.problem.window_right = m - 1 - n;
      } else {
        for (std::size_t i = 0; i < n; ++i) bias[i * m + hidden] = -HUGE_VALF;
        call.problem.bias = bias.data();
        call.problem.bias_batch = call.problem.bias_heads = 1;
      }
      ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
      ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
      const bool leaks = with_nan && !by_mask;
      for (auto* out : {&call.o, &call.lse, &call.dq})
        for (const T x : out->dense().values) EXPECT_EQ(std::isnan(x), leaks);
      if (leaks) continue;
      for (std::size_t k = 0; k < e; ++k) EXPECT_EQ(call.dv(0, 0, hidden, k), 0);
      for (auto* out : {&call.dk, &call.dv})
        for (const T x : out->dense().values) EXPECT_TRUE(std::isfinite(x));
    }
}

// Gradients over a slice of keys in bf16, of scores and values that are 0, so that all of dQ is
// what the other slices are worth: they count where they have weights, or the query more than 64
// keys here, and else as nothing or as what they are.
class SdpaThresholds : public IsaVariable {};
TEST_F(SdpaThresholds, OfTheWeightsOfOtherSlices) {
  constexpr std::int64_t n = 20, d = 32, e = 16;
  constexpr double o = 8, delta = o * e;
  int nothing = 0, by_pairs = 0;
  for_each_isa([&] {
    const std::string isa = std::getenv("IOATTN_ISA");
    for (const std::int64_t m : {10, 64, 65, 200})
      for (const double factor : {0.25, 4.0, 100.0}) {
        SCOPED_TRACE(testing::Message() << "m " << m << " times " << factor);
        HalfCall<ioattn_bf16, float> call({1, 1, 1, n, m, d, e});
        std::fill(call.q.begin(), call.q.end(), element<ioattn_bf16>(0));
        std::fill(call.v.begin(), call.v.end(), element<ioattn_bf16>(0));
        std::fill(call.d_o.begin(), call.d_o.end(), element<ioattn_bf16>(1));
        std::fill(call.o.begin(), call.o.end(), element<ioattn_bf16>(float(o)));
        const double here = std::log(double(m));
        const double weight = factor * (std::exp2(-19) + std::exp2(-22) * here);
        const auto lse = static_cast<float>(here - std::log1p(-weight));
        std::fill(call.lse.begin(), call.lse.end(), lse);
        ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
        for (std::int64_t l = 0; l < d; ++l) {
          double sum = 0, terms = 0;
          for (std::int64_t j = 0; j < m; ++j) {
            const double k = double(number(call.k[std::size_t(j * d + l)]));
            sum += k;
            terms += std::abs(k);
          }
          const double unit = delta / std::sqrt(double(d)) / double(m);
          for (std::int64_t i = 0; i < n; ++i) {
            const double got = double(call.dq[std::size_t(i * d + l)]);
            const bool counted = std::abs(got + unit * sum) <= unit * terms / 64;
            const bool may_be_nothing = factor < 1 && m <= 64;
            EXPECT_TRUE(counted || (may_be_nothing && got == 0)) << got << " " << -unit * sum;
            nothing += may_be_nothing && got == 0;
            by_pairs += may_be_nothing && isa == "avx512_bf16";
          }
        }
      }
  });
  if (by_pairs > 0) {
    EXPECT_GT(nothing, 0);  // there is a reason for the threshold
  }
}

// Offsets from -2^59 to 2^59 and windows of up to 2^60 are taken, the next numbers are not.
TEST_F(SdpaThresholds, OfOffsetsAndWindows) {
  constexpr std::int64_t offset = std::int64_t{1} << 59, window = std::int64_t{1} << 60;
  const auto status_of = [](std::int64_t q, std::int64_t k, std::int64_t left, std::int64_t right) {
    SdpaCall<float> call({1, 1, 1, 5, 6, 4, 3});
    call.problem.mask = IOATTN_MASK_WINDOW_TOP_LEFT;
    call.problem.q_offset = q;
    call.problem.k_offset = k;
    call.problem.window_left = left;
    call.problem.window_right = right;
    const ioattn_status status = call.forward();
    if (status == IOATTN_OK) {
      call.expect_forward();
    } else {
      EXPECT_TRUE(call.untouched());
    }
    return status;
  };
  for (const std::int64_t q : {-offset, offset})
    for (const std::int64_t k : {-offset, offset}) {
      EXPECT_EQ(status_of(q, k, 2, 1), IOATTN_OK);
      EXPECT_EQ(status_of(q, k, window, window), IOATTN_OK);
    }
  for (const std::int64_t beyond : {-offset - 1, offset + 1}) {
    EXPECT_EQ(status_of(beyond, 0, 2, 1), IOATTN_INVALID_ARGUMENT);
    EXPECT_EQ(status_of(0, beyond, 2, 1), IOATTN_INVALID_ARGUMENT);
  }
  EXPECT_EQ(status_of(0, 0, window + 1, 1), IOATTN_INVALID_ARGUMENT);
  EXPECT_EQ(status_of(0, 0, 2, window + 1), IOATTN_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace ioattn_test
