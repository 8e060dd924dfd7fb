// Softmax weights of scores of any size: those of the forward pass, and of gradients from its LSE.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "api/behind_line.hpp"
#include "api/half_call.hpp"
#include "api/isa_variable.hpp"
#include "api/sdpa_call.hpp"

namespace ioattn_test {
namespace {

template <class T>
class LargeScores : public IsaVariable {};
TYPED_TEST_SUITE(LargeScores, BothTypes);

// Every query sees a key of its own: its weight is 1, however scores and LSE are rounded.
TYPED_TEST(LargeScores, TheOnlyKeyOfAQueryHasWeightOne) {
  using T = TypeParam;
  const double largest = std::sqrt(std::numeric_limits<T>::max()) / 1e4;
  const auto check = [&] {
    for (const SdpaSizes& sizes : {SdpaSizes{1, 2, 2, 70, 70, 24, 16}, {1, 1, 1, 40, 40, 200, 8}}) {
      for (const double factor : {1.0, 1e2, 1e4, largest}) {
        for (const char* schedule : {"auto", "row_stream"}) {
          SCOPED_TRACE(testing::Message() << schedule << " " << factor);
          reference::SdpaInputs<double> inputs = reference::random_sdpa(
              sizes.batch, sizes.heads, sizes.kv_heads, sizes.n, sizes.m, sizes.d, sizes.dv, 5);
          for (auto* x : {&inputs.Q, &inputs.K})
            for (double& value : x->values) value *= factor;
          SdpaCall<T> call(inputs, Layout::bhsd);
          call.problem.mask = IOATTN_MASK_WINDOW_TOP_LEFT;
          call.problem.window_left = call.problem.window_right = 0;
          call.problem.scale = 0.3;
          ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
          const ioattn_options options = with_schedule(schedule);
          ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
          ASSERT_EQ(call.o.dense().values, call.v.dense().values);
          ASSERT_EQ(call.dv.dense().values, call.d_o.dense().values);
        }
      }
    }
  };
  for_each_isa(check);
  unsetenv("IOATTN_ISA");  // as plans choose
  check();
}

// With a bias, too, of more terms than a sum in registers has.
TYPED_TEST(LargeScores, ABiasLeavesThatWeightAlone) {
  using T = TypeParam;
  for_each_isa([&] {
    for (const std::size_t d : {64u, 200u, 256u}) {
      reference::SdpaInputs<double> inputs = reference::random_sdpa(1, 1, 1, 60, 60, d, 16, 7);
      for (double& value : inputs.Q.values) value *= 1e2;
      SdpaCall<T> call(inputs, Layout::bhsd);
      call.problem.mask = IOATTN_MASK_WINDOW_TOP_LEFT;
      call.problem.window_left = call.problem.window_right = 0;
      call.problem.scale = d == 64 ? 0.125 : 0.3;
      std::vector<T> bias(60 * 60);
      for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = T(i % 97) / 7;
      call.problem.bias = bias.data();
      call.problem.bias_batch = call.problem.bias_heads = 1;
      ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
      ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
      ASSERT_EQ(call.dv.dense().values, call.d_o.dense().values) << d;
    }
  });
}

// Weights next to the least number have gradients that lose digits as they are scaled.
TYPED_TEST(LargeScores, BitsDoNotDependOnWhereQueriesLie) {
  using T = TypeParam;
  for_each_isa([&] {
    std::vector<std::vector<T>> results;
    for (const std::size_t gap : {0u, 1u}) {
      reference::SdpaInputs<double> inputs = reference::random_sdpa(1, 1, 1, 77, 141, 64, 64, 8);
      std::fill(inputs.Q.values.begin(), inputs.Q.values.end(), 0);
      for (std::size_t i = 0; i < 77; ++i) inputs.Q.values[i * 64] = 8;
      for (std::size_t j = 0; j < 141; ++j)
        inputs.K.values[j * 64] = j == 0 ? 0 : sizeof(T) == 4 ? -87 : -708;
      SdpaCall<T> call(inputs, Layout::bhsd);
      const BehindLine<T> q(call.q.dense().values, gap);
      call.problem.q = q.data();
      ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
      ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
      results.push_back(call.values());
    }
    ASSERT_TRUE(same_bits(results[0], results[1]));
  });
}

// Late keys whose scores rise above all before for one query, or for some: results of the others
// keep their bits, and those of the query are right.
TYPED_TEST(LargeScores, OfAQueryLeaveOthersAlone) {
  using T = TypeParam;
  constexpr std::size_t d = 64, e = 40;
  for_each_isa([&] {
    for (const std::size_t n : {3u, 40u, 200u}) {
      SCOPED_TRACE(n);
      const reference::SdpaInputs<double> plain_inputs =
          reference::random_sdpa(1, 1, 1, n, 300, d, e, 9);
      SdpaCall<T> plain(plain_inputs, Layout::bhsd);
      ASSERT_EQ(plain.forward(), IOATTN_OK) << ioattn_last_error();
      plain.expect_forward();
      for (const double factor : {20.0, 60.0, 1e4, HUGE_VAL, std::nan("")}) {
        reference::SdpaInputs<double> inputs = plain_inputs;
        for (std::size_t k = 0; k < d; ++k) inputs.Q.values[d + k] *= factor;
        SdpaCall<T> call(inputs, Layout::bhsd);
        ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
        if (std::isfinite(factor)) call.expect_forward();
        std::vector<T> o = call.o.dense().values, lse = call.lse.dense().values;
        const std::vector<T> others = plain.o.dense().values, of_others = plain.lse.dense().values;
        std::copy_n(others.begin() + e, e, o.begin() + e);
        lse[1] = of_others[1];
        EXPECT_TRUE(same_bits(o, others)) << factor;
        EXPECT_TRUE(same_bits(lse, of_others)) << factor;
      }
    }
  });
}

// Heads that share keys are taken together, where a head alone may have few queries.
TYPED_TEST(LargeScores, OfAHeadAloneHaveTheBitsOfAGroup) {
  using T = TypeParam;
  constexpr std::size_t heads = 16, d = 64, e = 40;
  for_each_isa([&] {
    for (const std::size_t n : {1u, 4u, 9u}) {
      for (const double rise : {1.0, 20.0}) {
        SCOPED_TRACE(testing::Message() << n << " " << rise);
        reference::SdpaInputs<double> inputs =
            reference::random_sdpa(1, heads, 1, n, 300, d, e, 10);
        for (std::size_t i = 250 * d; i < 260 * d; ++i) inputs.K.values[i] *= rise;
        SdpaCall<T> group(inputs, Layout::bhsd);
        ASSERT_EQ(group.forward(), IOATTN_OK) << ioattn_last_error();
        group.expect_forward();
        const std::vector<T> all = group.o.dense().values;
        for (std::size_t head = 0; head < heads; ++head) {
          reference::SdpaInputs<double> of_head = inputs;
          of_head.Q.heads = of_head.dO.heads = 1;
          const auto part = [&](const std::vector<double>& x, std::size_t width) {
            const auto first = x.begin() + std::ptrdiff_t(head * n * width);
            return std::vector<double>(first, first + std::ptrdiff_t(n * width));
          };
          of_head.Q.values = part(inputs.Q.values, d);
          of_head.dO.values = part(inputs.dO.values, e);
          SdpaCall<T> alone(of_head, Layout::bhsd);
          ASSERT_EQ(alone.forward(), IOATTN_OK) << ioattn_last_error();
          const auto first = all.begin() + std::ptrdiff_t(head * n * e);
          EXPECT_TRUE(same_bits(alone.o.dense().values,
                                std::vector<T>(first, first + std::ptrdiff_t(n * e))));
        }
      }
    }
  });
}

// Of equal keys, too, but for LSE's last place.
TYPED_TEST(LargeScores, EqualKeysShareTheWeight) {
  using T = TypeParam;
  constexpr double epsilon = std::numeric_limits<T>::epsilon();
  for (const double factor : {1.0, 10.0, 1e2}) {
    reference::SdpaInputs<double> inputs = reference::random_sdpa(1, 1, 1, 64, 4, 64, 8, 6);
    for (double& value : inputs.Q.values) value *= factor;
    for (std::size_t k = 0; k < 64; ++k)
      for (std::size_t j = 1; j < 4; ++j) inputs.K.values[j * 64 + k] = inputs.K.values[k];
    for (double& value : inputs.dO.values) value = 1;
    SdpaCall<T> call(inputs, Layout::bhsd);
    call.problem.scale = 0.3;
    ASSERT_EQ(call.forward(), IOATTN_OK);
    ASSERT_EQ(call.backward(), IOATTN_OK);
    double score = 0;
    for (const T lse : call.lse.dense().values) score = std::max(score, std::abs(double(lse)));
    for (const T weights : call.dv.dense().values)
      ASSERT_NEAR(double(weights), 16, 16 * epsilon * (score / 2 + 4));
  }
}

// As ioattn_sdpa_gradients: bit 0 dQ, 1 dK, 2 dV.
template <class S>
void want(unsigned outputs, HalfCall<S>* call) {
  call->gradients.dq = (outputs & 1) != 0 ? call->dq.data() : nullptr;
  call->gradients.dk = (outputs & 2) != 0 ? call->dk.data() : nullptr;
  call->gradients.dv = (outputs & 4) != 0 ? call->dv.data() : nullptr;
}

// But for the sign of 0; what was not wanted is NaN.
template <class S>
bool same_values(const std::vector<S>& a, const std::vector<S>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](S x, S y) {
    return number(x) == number(y) || (std::isnan(number(x)) && std::isnan(number(y)));
  });
}

// All keys of a query are as if hidden: it has no part in the others' gradients, as if its dO were
// 0, and none of its own.
template <class S>
void check_that_no_weight_is_no_part() {
  const KeptIsaVariable kept;
  const struct {
    HalfSizes sizes;
    std::int64_t words;  // of fast memory; few: tiles
  } cases[] = {{{1, 2, 2, 70, 70, 24, 16}, 0},
               {{1, 2, 1, 1, 40, 64, 64}, 0},
               {{1, 1, 1, 30, 40, 600, 40}, 0},
               {{1, 1, 1, 30, 40, 600, 40}, 6000}};
  for (const char* isa : {"scalar", "avx2", "avx512", "neon", "avx512_bf16", "avx512_amx",
                          "emulated_bf16", "emulated_amx"}) {
    setenv("IOATTN_ISA", isa, 1);
    for (const auto& [sizes, words] : cases) {
      for (unsigned outputs = 1; outputs < 8; ++outputs) {
        SCOPED_TRACE(testing::Message() << isa << " d " << sizes.d << " outputs " << outputs);
        HalfCall<S> call(sizes);
        call.problem.scale = outputs % 2 == 1 ? 0.125 : 0.3;
        ioattn_options options = default_options();
        options.fast_memory_words = words;
        const ioattn_status status = call.forward(&options);
        if (status == IOATTN_UNSUPPORTED) break;  // not on this CPU
        ASSERT_EQ(status, IOATTN_OK) << ioattn_last_error();
        HalfCall<S> without(call);
        want(outputs, &call);
        want(outputs, &without);
        const auto row = static_cast<std::ptrdiff_t>(sizes.n / 2);
        std::fill_n(without.d_o.begin() + row * sizes.dv, sizes.dv, element<S>(0));
        call.lse[std::size_t(row)] = -std::numeric_limits<float>::infinity();
        ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
        ASSERT_EQ(without.backward(&options), IOATTN_OK) << ioattn_last_error();
        EXPECT_TRUE(same_values(call.dq, without.dq));
        EXPECT_TRUE(same_values(call.dk, without.dk));
        EXPECT_TRUE(same_values(call.dv, without.dv));
        if (call.gradients.dq == nullptr) continue;
        const auto own = call.dq.begin() + row * sizes.d;
        EXPECT_TRUE(std::all_of(own, own + sizes.d, [](S x) { return number(x) == 0; }));
      }
    }
  }
}
TEST(NoWeight, OfAQueryIsNoPart) {
  check_that_no_weight_is_no_part<float>();
  check_that_no_weight_is_no_part<ioattn_bf16>();
  check_that_no_weight_is_no_part<ioattn_f16>();
}

// Of the layer problem, by every schedule that takes LSE.
template <class T>
void check_layer_without_weight() {
  for (const char* schedule : backward_schedules) {
    if (is_one_of(lse_schedules, schedule)) continue;
    SCOPED_TRACE(schedule);
    LayerCall<T> call({50, 40, 24, 16, Ties::none}, 0), without({50, 40, 24, 16, Ties::none}, 0);
    const ioattn_options options = with_schedule(schedule);
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(without.forward(), IOATTN_OK) << ioattn_last_error();
    call.lse.at(0, 20) = -std::numeric_limits<T>::infinity();
    for (std::size_t k = 0; k < 16; ++k) without.d_o.at(20, k) = 0;
    ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(without.backward(&options), IOATTN_OK) << ioattn_last_error();
    EXPECT_EQ(call.dx.dense(), without.dx.dense());
    EXPECT_EQ(call.lse.at(0, 20), -std::numeric_limits<T>::infinity());
  }
}
TEST(NoWeight, OfAQueryIsNoPartOfALayer) {
  check_layer_without_weight<float>();
  check_layer_without_weight<double>();
}

}  // namespace
}  // namespace ioattn_test
