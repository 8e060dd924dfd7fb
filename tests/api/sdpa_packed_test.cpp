// Sequences of several lengths packed one after the other: each has the bits that it has alone, for
// any number of threads, and rows of no sequence are left alone.

#include "api/packed_call.hpp"
#include "ioattn/ioattn.hpp"
#include "schedules/thread_counts.hpp"

namespace ioattn_test {
namespace {

template <class T>
class PackedSdpa : public testing::Test {};
TYPED_TEST_SUITE(PackedSdpa, BothTypes);

TYPED_TEST(PackedSdpa, EverySequenceHasTheBitsThatItHasAlone) {
  for (std::size_t i = 0; i < std::size(packed_cases); ++i) {
    for (const Layout layout : {Layout::bhsd, Layout::bshd}) {
      const PackedCase& c = packed_cases[i];
      PackedCall<TypeParam> alone(c, layout, i);
      alone.run_alone();
      for (const int threads : thread_counts) {
        SCOPED_TRACE("case " + std::to_string(i) + " threads " + std::to_string(threads));
        const ioattn_options options = with_threads(threads);
        PackedCall<TypeParam> call(c, layout, i);
        ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
        EXPECT_TRUE(call.gradients_untouched());
        ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
        EXPECT_TRUE(same_bits(call.values(), alone.values()));
      }
    }
  }
}

TYPED_TEST(PackedSdpa, GradientsAddUp) {
  PackedCall<TypeParam> call(packed_cases[6]);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const auto all = [&] {
    std::vector<TypeParam> values = call.dk.dense().values;
    const std::vector<TypeParam> of_bias = call.d_bias.dense().values;
    values.insert(values.end(), of_bias.begin(), of_bias.end());
    return values;
  };
  const std::vector<TypeParam> once = all();
  call.gradients.accumulate = 1;
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const std::vector<TypeParam> twice = all();
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (std::isnan(once[i]) && std::isnan(twice[i])) continue;  // of no sequence
    ASSERT_NEAR(double(twice[i]), 2 * double(once[i]), 1e-6 * (1 + std::abs(double(once[i]))));
  }
}

// A batch of random lengths: more sequences than threads, all of them short.
TEST(PackedSdpa, ManyShortSequences) {
  std::uint64_t state = 7;
  Starts starts = {0};
  for (int b = 0; b < 40; ++b) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    starts.push_back(starts.back() + std::int64_t(state >> 33) % 90);
  }
  const PackedCase c = {{1, 4, 2, std::size_t(starts.back()), std::size_t(starts.back()), 32, 32},
                        starts,
                        starts,
                        IOATTN_MASK_CAUSAL_TOP_LEFT};
  PackedCall<float> alone(c, Layout::bshd);
  alone.run_alone();
  for (const int threads : thread_counts) {
    const ioattn_options options = with_threads(threads);
    PackedCall<float> call(c, Layout::bshd);
    ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
    EXPECT_TRUE(same_bits(call.values(), alone.values())) << threads;
  }
}

TEST(PackedSdpa, IsRefusedUntouched) {
  const auto refused = [](auto change, ioattn_status wanted, const char* word) {
    SCOPED_TRACE(word);
    PackedCall<float> call(packed_cases[0]);
    change(&call.packed, &call.problem);
    for (const ioattn_status status : {call.forward(), call.backward()}) {
      EXPECT_EQ(status, wanted);
      EXPECT_NE(std::string(ioattn_last_error()).find(word), std::string::npos)
          << ioattn_last_error();
    }
    EXPECT_TRUE(call.untouched());
  };
  using Problem = ioattn_sdpa_problem;
  const ioattn_status invalid = IOATTN_INVALID_ARGUMENT;
  for (const std::int64_t batch : {std::int64_t(1) << 60, std::int64_t(1) << 62, INT64_MAX})
    refused([batch](PackedCase*, Problem* p) { p->batch = batch; }, IOATTN_SIZE_OVERFLOW,
            "64 bits");
  refused([](PackedCase*, Problem* p) { p->q_starts = nullptr; }, invalid, "q_starts is null");
  refused([](PackedCase*, Problem* p) { p->k_starts = nullptr; }, invalid, "k_starts is null");
  refused([](PackedCase* c, Problem*) { c->q_starts[2] = 19; }, invalid, "q_starts do not ascend");
  refused([](PackedCase* c, Problem*) { c->k_starts[0] = -1; }, invalid, "k_starts do not ascend");
  refused([](PackedCase* c, Problem*) { c->k_starts[4] = 91; }, invalid, "k_starts do not ascend");
  refused([](PackedCase*, Problem* p) { p->batch = -1; }, invalid, "negative");
  refused([](PackedCase*, Problem* p) { p->d = -1; }, invalid, "negative");
  refused([](PackedCase*, Problem* p) { p->kv_heads = 3; }, invalid, "multiple");
  refused([](PackedCase*, Problem* p) { p->v = nullptr; }, invalid, "V is null");

  float bias[1] = {};
  refused([](PackedCase*, Problem* p) { p->bias_batch = p->batch; }, invalid,
          "bias_batch of packed");
  refused([](PackedCase*, Problem* p) { p->bias_batch = 1; }, invalid, "bias_heads");
  refused([](PackedCase*, Problem* p) { p->bias_batch = p->bias_heads = 1; }, invalid,
          "bias is null");
  refused([&](PackedCase*, Problem* p) { p->bias = bias; }, invalid, "is 0");

  PackedCall<float> call(packed_cases[0]);
  float d_bias = 0.5F;
  call.gradients.dbias = &d_bias;
  EXPECT_EQ(call.backward(), IOATTN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ioattn_last_error()).find("there is no bias"), std::string::npos);
  EXPECT_TRUE(call.untouched() && d_bias == 0.5F);
  call.gradients.dbias = nullptr;
  ioattn_options little = with_threads(1);
  little.memory_limit = 200;  // of each alone, not of all
  ASSERT_EQ(call.forward(&little), IOATTN_OK);
  EXPECT_EQ(call.backward(&little), IOATTN_MEMORY_LIMIT) << ioattn_last_error();
  EXPECT_TRUE(call.gradients_untouched());
}

// Of delta, a float for each query of a sequence: rows of none take no memory, nor do sequences
// without queries or keys.
TEST(PackedSdpa, ScratchIsOfTheQueriesOfSequences) {
  const struct {
    const PackedCase& packed;
    std::int64_t bytes;
  } cases[] = {{packed_cases[0], 4 * 2 * 33}, {packed_cases[1], 4 * 3 * 39}};
  for (const auto& one : cases) {
    PackedCall<float> call(one.packed);
    ASSERT_EQ(call.forward(), IOATTN_OK);
    ioattn_options options = with_threads(1);
    options.memory_limit = one.bytes;
    EXPECT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
    --options.memory_limit;
    EXPECT_EQ(call.backward(&options), IOATTN_MEMORY_LIMIT) << ioattn_last_error();
  }
}

TEST(PackedSdpa, FromCpp) {
  const PackedCase& c = packed_cases[0];
  PackedCall<float> call(c);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  const auto view = [](auto& t) {
    const auto dense = t.dense();
    return ioattn::Tensor<const float>(t.data(), 1, std::int64_t(dense.heads),
                                       std::int64_t(dense.rows), std::int64_t(dense.cols));
  };
  ioattn::Sdpa<float> sdpa;
  sdpa.q = view(call.q);
  sdpa.k = view(call.k);
  sdpa.v = view(call.v);
  sdpa.q_starts = c.q_starts;
  sdpa.k_starts = c.k_starts;
  std::vector<float> o(call.o.dense().values.size());
  const auto [heads, n, dv] = std::tuple(2, 60, 12);
  ioattn::forward(sdpa, ioattn::Tensor<float>(o.data(), 1, heads, n, dv), {});
  EXPECT_TRUE(same_bits(o, call.o.dense().values));
  sdpa.k_starts.pop_back();
  EXPECT_THROW(sdpa.c(), std::invalid_argument);
}

}  // namespace
}  // namespace ioattn_test
