// Sequences of several lengths packed one after the other: each has the bits that it has alone, for
// any number of threads, and rows of no sequence are left alone.

#include <numeric>

#include "api/sdpa_call.hpp"
#include "ioattn/ioattn.hpp"
#include "schedules/thread_counts.hpp"

namespace ioattn_test {
namespace {

template <class T>
class PackedSdpa : public testing::Test {};
TYPED_TEST_SUITE(PackedSdpa, BothTypes);

using Starts = std::vector<std::int64_t>;

struct Case {
  SdpaSizes sizes;  // n and m: all rows
  Starts q_starts, k_starts;
  ioattn_mask mask = IOATTN_MASK_NONE;
  std::int64_t left = -1, right = -1, q_offset = 0;
};
const Case cases[] = {
    {{1, 2, 1, 60, 90, 16, 12}, {0, 20, 20, 47, 60}, {0, 31, 40, 40, 90}},
    // Rows before the first sequence and behind the last belong to none.
    {{1, 3, 3, 50, 50, 9, 17}, {5, 6, 30, 44}, {2, 9, 33, 41}, IOATTN_MASK_CAUSAL_TOP_LEFT},
    {{1, 4, 2, 80, 99, 8, 8}, {0, 33, 80}, {0, 60, 99}, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT},
    {{1, 1, 1, 64, 64, 24, 24}, {0, 7, 64}, {0, 7, 64}, IOATTN_MASK_WINDOW_BOTTOM_RIGHT, 5, 3, 4},
    // Long enough for several threads, and short ones beside it.
    {{1, 2, 2, 800, 790, 64, 64}, {0, 3, 653, 700, 800}, {0, 5, 640, 702, 790}},
    {{1, 2, 1, 30, 30, 8, 8}, {0}, {0}},
};

template <class T>
void prepare(const Case& c, SdpaCall<T>* call) {
  ioattn_sdpa_problem& p = call->problem;
  p.mask = c.mask;
  p.window_left = c.left;
  p.window_right = c.right;
  p.q_offset = c.q_offset;
  p.batch = std::int64_t(c.q_starts.size()) - 1;
  p.q_starts = c.q_starts.data();
  p.k_starts = c.k_starts.data();
}

// Sequence b by a call of its own.
template <class T>
void run_alone(SdpaCall<T>* call, std::size_t b) {
  const ioattn_sdpa_problem& packed = call->problem;
  const std::int64_t query = packed.q_starts[b], key = packed.k_starts[b];
  const auto row = [](auto& tensor, std::int64_t index) {
    return tensor.data() + index * tensor.strides()[2];
  };
  ioattn_sdpa_problem p = packed;
  p.batch = 1;
  p.q_starts = p.k_starts = nullptr;
  p.n = packed.q_starts[b + 1] - query;
  p.m = packed.k_starts[b + 1] - key;
  p.q = row(call->q, query);
  p.k = row(call->k, key);
  p.v = row(call->v, key);
  ioattn_sdpa_gradients g = call->gradients;
  g.dq = row(call->dq, query);
  g.dk = row(call->dk, key);
  g.dv = row(call->dv, key);
  T* o = row(call->o, query);
  T* lse = call->lse.data() + query;
  const std::int64_t* o_stride = call->o.strides().data();
  const std::int64_t* lse_stride = call->lse.strides().data();
  ASSERT_EQ(ioattn_sdpa_forward(&p, nullptr, o, o_stride, lse, lse_stride), IOATTN_OK);
  ASSERT_EQ(ioattn_sdpa_backward(&p, nullptr, row(call->d_o, query), call->d_o.strides().data(), o,
                                 o_stride, lse, lse_stride, &g),
            IOATTN_OK)
      << ioattn_last_error();
}

TYPED_TEST(PackedSdpa, EverySequenceHasTheBitsThatItHasAlone) {
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    for (const Layout layout : {Layout::bhsd, Layout::bshd}) {
      const Case& c = cases[i];
      SdpaCall<TypeParam> alone(c.sizes, layout, i);
      prepare(c, &alone);
      alone.poison();
      for (std::size_t b = 0; b + 1 < c.q_starts.size(); ++b) run_alone(&alone, b);
      for (const int threads : thread_counts) {
        SCOPED_TRACE("case " + std::to_string(i) + " threads " + std::to_string(threads));
        const ioattn_options options = with_threads(threads);
        SdpaCall<TypeParam> call(c.sizes, layout, i);
        prepare(c, &call);
        call.poison();
        ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
        EXPECT_TRUE(call.gradients_untouched());
        ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
        EXPECT_TRUE(same_bits(call.values(), alone.values()));
      }
    }
  }
}

TYPED_TEST(PackedSdpa, GradientsAddUp) {
  const Case& c = cases[2];
  SdpaCall<TypeParam> call(c.sizes);
  prepare(c, &call);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const std::vector<TypeParam> once = call.dk.dense().values;
  call.gradients.accumulate = 1;
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const std::vector<TypeParam> twice = call.dk.dense().values;
  for (std::size_t i = 0; i < once.size(); ++i)
    ASSERT_NEAR(double(twice[i]), 2 * double(once[i]), 1e-6 * (1 + std::abs(double(once[i]))));
}

// A batch of random lengths: more sequences than threads, all of them short.
TEST(PackedSdpa, ManyShortSequences) {
  std::uint64_t state = 7;
  Starts starts = {0};
  for (int b = 0; b < 40; ++b) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    starts.push_back(starts.back() + std::int64_t(state >> 33) % 90);
  }
  const Case c = {{1, 4, 2, std::size_t(starts.back()), std::size_t(starts.back()), 32, 32},
                  starts,
                  starts,
                  IOATTN_MASK_CAUSAL_TOP_LEFT};
  SdpaCall<float> alone(c.sizes, Layout::bshd);
  prepare(c, &alone);
  for (std::size_t b = 0; b + 1 < starts.size(); ++b) run_alone(&alone, b);
  for (const int threads : thread_counts) {
    const ioattn_options options = with_threads(threads);
    SdpaCall<float> call(c.sizes, Layout::bshd);
    prepare(c, &call);
    ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
    EXPECT_TRUE(same_bits(call.values(), alone.values())) << threads;
  }
}

TEST(PackedSdpa, IsRefusedUntouched) {
  const auto refused = [](auto change, ioattn_status wanted, const char* word) {
    SCOPED_TRACE(word);
    Case c = cases[0];
    SdpaCall<float> call(c.sizes);
    prepare(c, &call);
    call.poison();
    change(&c, &call.problem);
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
    refused([batch](Case*, Problem* p) { p->batch = batch; }, IOATTN_SIZE_OVERFLOW, "64 bits");
  refused([](Case*, Problem* p) { p->q_starts = nullptr; }, invalid, "q_starts is null");
  refused([](Case*, Problem* p) { p->k_starts = nullptr; }, invalid, "k_starts is null");
  refused([](Case* c, Problem*) { c->q_starts[2] = 19; }, invalid, "q_starts do not ascend");
  refused([](Case* c, Problem*) { c->k_starts[0] = -1; }, invalid, "k_starts do not ascend");
  refused([](Case* c, Problem*) { c->k_starts[4] = 91; }, invalid, "k_starts do not ascend");
  refused([](Case*, Problem* p) { p->batch = -1; }, invalid, "negative");
  refused([](Case*, Problem* p) { p->d = -1; }, invalid, "negative");
  refused([](Case*, Problem* p) { p->kv_heads = 3; }, invalid, "multiple");
  refused([](Case*, Problem* p) { p->v = nullptr; }, invalid, "V is null");

  SdpaCall<float> call(cases[0].sizes);
  prepare(cases[0], &call);
  ioattn_plan* plan = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_create(IOATTN_FORWARD, &call.problem, nullptr, nullptr, &plan),
            IOATTN_UNSUPPORTED);
  EXPECT_EQ(plan, nullptr);

  call.poison();
  ioattn_options little = with_threads(1);
  little.memory_limit = 300;  // of each alone, not of all
  ASSERT_EQ(call.forward(&little), IOATTN_OK);
  EXPECT_EQ(call.backward(&little), IOATTN_MEMORY_LIMIT) << ioattn_last_error();
  EXPECT_TRUE(call.gradients_untouched());
}

TEST(PackedSdpa, FromCpp) {
  const Case& c = cases[0];
  SdpaCall<float> call(c.sizes);
  prepare(c, &call);
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
