// An additive bias of the scores and its gradient, shared by heads and entries or not: the
// oracle's, with the same bits for any number of threads.

#include "api/sdpa_call.hpp"
#include "ioattn/ioattn.hpp"
#include "reference/cases.hpp"
#include "schedules/thread_counts.hpp"

namespace ioattn_test {
namespace {

template <class T>
class BiasedSdpa : public testing::Test {};
TYPED_TEST_SUITE(BiasedSdpa, BothTypes);

struct Case {
  SdpaSizes sizes;
  std::size_t bias_batch, bias_heads;
  ioattn_mask mask = IOATTN_MASK_NONE;
  std::int64_t left = -1, right = -1;
};
const Case cases[] = {
    {{1, 1, 1, 33, 47, 16, 16}, 1, 1},
    {{2, 4, 2, 40, 45, 24, 20}, 2, 4},
    {{2, 4, 2, 40, 45, 24, 20}, 1, 4},
    {{2, 4, 1, 40, 45, 12, 20}, 2, 1},
    {{3, 2, 2, 70, 66, 9, 7}, 1, 1, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT},
    {{2, 2, 1, 50, 60, 8, 8}, 1, 2, IOATTN_MASK_WINDOW_TOP_LEFT, 5, 2},
    {{1, 2, 1, 290, 300, 64, 64}, 1, 1},
    {{1, 2, 2, 20, 30, 0, 8}, 1, 2},
};

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// A call with a bias in memory that has room between its rows.
template <class T>
struct BiasedCall : SdpaCall<T> {
  explicit BiasedCall(const Case& c, std::uint64_t seed, bool hides = true)
      : SdpaCall<T>(c.sizes, Layout::bshd, seed) {
    auto& values = this->inputs.bias;
    values = reference::Tensor<double>(c.bias_batch, c.bias_heads, c.sizes.n, c.sizes.m);
    values.values = reference::random_matrix(values.values.size(), 1, 1000 + seed).values;
    if (hides) {
      for (std::size_t i = 0; i < values.values.size(); i += 7) values.values[i] = minus_infinity;
      // A query that sees no key at all.
      for (std::size_t j = 0; j < c.sizes.m; ++j) values(0, 0, 3, j) = minus_infinity;
    }
    bias = reference::StridedTensor<T>(values, Layout::bshd);
    d_bias =
        reference::StridedTensor<T>(c.bias_batch, c.bias_heads, c.sizes.n, c.sizes.m, Layout::bhsd);
    ioattn_sdpa_problem& p = this->problem;
    p.mask = c.mask;
    p.window_left = c.left;
    p.window_right = c.right;
    p.bias = bias.data();
    p.bias_batch = std::int64_t(c.bias_batch);
    p.bias_heads = std::int64_t(c.bias_heads);
    std::copy_n(bias.strides().begin(), 3, p.bias_stride);
    this->gradients.dbias = d_bias.data();
    std::copy_n(d_bias.strides().begin(), 3, this->gradients.dbias_stride);
  }
  void expect_d_bias() const {
    EXPECT_LE(
        reference::worst_ratio(d_bias.dense(), this->expected.dBias, this->expected.dBias_unit),
        16);
  }

  reference::StridedTensor<T> bias{1, 1, 1, 1, Layout::bhsd}, d_bias{1, 1, 1, 1, Layout::bhsd};
};

TYPED_TEST(BiasedSdpa, IsTheOracles) {
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    BiasedCall<TypeParam> call(cases[i], i);
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    call.expect_forward();
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    call.expect_backward();
    call.expect_d_bias();
  }
}

TYPED_TEST(BiasedSdpa, BitsDoNotDependOnThreadsNorOnWhatElseIsWanted) {
  for (const Case& c : {cases[1], cases[3], cases[4], cases[6]}) {
    BiasedCall<TypeParam> one(c, 5);
    const ioattn_options single = with_threads(1);
    ASSERT_EQ(one.forward(&single), IOATTN_OK);
    ASSERT_EQ(one.backward(&single), IOATTN_OK);
    for (const int threads : thread_counts) {
      const ioattn_options options = with_threads(threads);
      BiasedCall<TypeParam> call(c, 5);
      ASSERT_EQ(call.forward(&options), IOATTN_OK);
      ASSERT_EQ(call.backward(&options), IOATTN_OK);
      EXPECT_TRUE(same_bits(call.values(), one.values())) << threads;
      EXPECT_TRUE(same_bits(call.d_bias.dense().values, one.d_bias.dense().values)) << threads;
      // The gradient of the bias alone.
      BiasedCall<TypeParam> alone(c, 5);
      ASSERT_EQ(alone.forward(&options), IOATTN_OK);
      alone.gradients.dq = alone.gradients.dk = alone.gradients.dv = nullptr;
      ASSERT_EQ(alone.backward(&options), IOATTN_OK);
      EXPECT_TRUE(alone.gradients_untouched());
      EXPECT_TRUE(same_bits(alone.d_bias.dense().values, one.d_bias.dense().values)) << threads;
    }
  }
}

// Added to itself it is twice as much, in every bit but those of the sums' order.
TYPED_TEST(BiasedSdpa, GradientsAddUp) {
  for (const Case& c : {cases[0], cases[4]}) {
    BiasedCall<TypeParam> call(c, 9);
    ASSERT_EQ(call.forward(), IOATTN_OK);
    ASSERT_EQ(call.backward(), IOATTN_OK);
    const std::vector<TypeParam> once = call.d_bias.dense().values;
    call.gradients.accumulate = 1;
    ASSERT_EQ(call.backward(), IOATTN_OK);
    const std::vector<TypeParam> twice = call.d_bias.dense().values;
    for (std::size_t i = 0; i < once.size(); ++i)
      ASSERT_NEAR(double(twice[i]), 2 * double(once[i]), 1e-6 * (1 + std::fabs(double(once[i]))));
  }
}

TYPED_TEST(BiasedSdpa, ByPlan) {
  BiasedCall<TypeParam> direct(cases[2], 3), planned(cases[2], 3);
  ASSERT_EQ(direct.forward(), IOATTN_OK);
  ASSERT_EQ(direct.backward(), IOATTN_OK);
  ioattn_plan *forward = nullptr, *backward = nullptr;
  const ioattn_sdpa_problem& p = planned.problem;
  ASSERT_EQ(ioattn_sdpa_plan_create(IOATTN_FORWARD, &p, nullptr, nullptr, &forward), IOATTN_OK);
  ASSERT_EQ(ioattn_sdpa_plan_create(IOATTN_BACKWARD, &p, &planned.gradients, nullptr, &backward),
            IOATTN_OK);
  ASSERT_EQ(
      ioattn_sdpa_execute_forward(forward, &p, planned.o.data(), planned.o.strides().data(),
                                  planned.lse.data(), planned.lse.strides().data(), nullptr, 0),
      IOATTN_OK);
  std::size_t bytes = 0;
  ASSERT_EQ(ioattn_plan_workspace_size(backward, &bytes), IOATTN_OK);
  std::vector<char> workspace(bytes);
  const auto execute = [&](const ioattn_sdpa_problem& problem) {
    return ioattn_sdpa_execute_backward(
        backward, &problem, planned.d_o.data(), planned.d_o.strides().data(), planned.o.data(),
        planned.o.strides().data(), planned.lse.data(), planned.lse.strides().data(),
        &planned.gradients, workspace.data(), bytes);
  };
  EXPECT_EQ(execute(p), IOATTN_OK) << ioattn_last_error();
  EXPECT_TRUE(same_bits(direct.values(), planned.values()));
  EXPECT_TRUE(same_bits(direct.d_bias.dense().values, planned.d_bias.dense().values));
  ioattn_sdpa_problem other = p;
  other.bias_heads = 1;
  EXPECT_EQ(execute(other), IOATTN_INVALID_ARGUMENT);
  ioattn_plan_destroy(forward);
  ioattn_plan_destroy(backward);
}

TEST(BiasedSdpa, IsRefusedUntouched) {
  using Call = BiasedCall<float>;
  const auto refused = [](auto change, const char* word, bool forward = true) {
    SCOPED_TRACE(word);
    Call call(cases[1], 1);
    change(&call);
    if (forward) {
      EXPECT_EQ(call.forward(), IOATTN_INVALID_ARGUMENT);
    }
    EXPECT_EQ(call.backward(), IOATTN_INVALID_ARGUMENT);
    EXPECT_NE(std::string(ioattn_last_error()).find(word), std::string::npos)
        << ioattn_last_error();
    EXPECT_TRUE(call.untouched());
    EXPECT_EQ(call.d_bias.numbers(), 0);
  };
  refused([](Call* c) { c->problem.bias_batch = 3; }, "bias_batch");
  refused([](Call* c) { c->problem.bias_heads = 2; }, "bias_heads");
  refused([](Call* c) { c->problem.bias_heads = -1; }, "bias_heads");
  refused([](Call* c) { c->problem.bias_heads = 0; }, "is 0");
  refused([](Call* c) { c->problem.bias = nullptr; }, "bias is null");
  refused([](Call* c) { c->problem.bias_stride[2] = 44; }, "row stride");
  refused([](Call* c) { c->gradients.dbias = c->dq.data(); }, "overlap", false);
  refused(
      [](Call* c) {
        c->problem.bias = nullptr;
        c->problem.bias_batch = c->problem.bias_heads = 0;
      },
      "there is no bias", false);
}

// A sum over no entries.
TEST(BiasedSdpa, OfAnEmptyBatchIsZero) {
  BiasedCall<float> call(cases[0], 0);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  call.problem.batch = 0;
  ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
  for (const float x : call.d_bias.dense().values) EXPECT_EQ(x, 0);
}

TEST(BiasedSdpa, FromCpp) {
  const Case& c = cases[0];
  BiasedCall<float> call(c, 0);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  const auto dense = [](auto& tensor) { return tensor.dense().values; };
  const auto [q, k, v, b] =
      std::tuple(dense(call.q), dense(call.k), dense(call.v), dense(call.bias));
  ioattn::Sdpa<float> sdpa;
  sdpa.q = {q.data(), 1, 1, 33, 16};
  sdpa.k = {k.data(), 1, 1, 47, 16};
  sdpa.v = {v.data(), 1, 1, 47, 16};
  sdpa.bias = {b.data(), 1, 1, 33, 47};
  std::vector<float> o(33 * 16);
  ioattn::forward(sdpa, ioattn::Tensor<float>(o.data(), 1, 1, 33, 16), {});
  EXPECT_TRUE(same_bits(o, dense(call.o)));
  sdpa.bias.cols = 46;
  EXPECT_THROW(sdpa.c(), std::invalid_argument);
}

}  // namespace
}  // namespace ioattn_test
