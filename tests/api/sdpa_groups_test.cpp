#include <nlohmann/json.hpp>

#include "api/isa_variable.hpp"
#include "api/plan_call.hpp"
#include "api/run/sdpa.hpp"
#include "api/sdpa_call.hpp"
#include "instruments/io_counter.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"

// Forward, query heads that share keys are taken as one with the rows of all.
namespace ioattn_test {
namespace {

using Json = nlohmann::json;

template <class T>
class SdpaGroups : public IsaVariable {};
TYPED_TEST_SUITE(SdpaGroups, BothTypes);

struct Case {
  SdpaSizes sizes;
  ioattn_mask mask = IOATTN_MASK_NONE;
  std::int64_t left = 0, right = 0, q_offset = 0;
};
// A mask may leave keys to all queries alike: to a single one, in the last case all of them.
const Case cases[] = {{{2, 6, 2, 1, 300, 24, 20}},
                      {{1, 8, 1, 1, 70, 16, 16}, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT},
                      {{1, 4, 2, 1, 1000, 8, 12}, IOATTN_MASK_CAUSAL_TOP_LEFT, 0, 0, 700},
                      {{2, 4, 1, 5, 130, 64, 32}},
                      {{1, 6, 3, 70, 40, 12, 9}},
                      {{1, 4, 2, 5, 20, 8, 8}, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT},
                      {{1, 4, 2, 1, 1000, 8, 8}, IOATTN_MASK_WINDOW_BOTTOM_RIGHT, 600, 0},
                      {{1, 4, 2, 6, 5, 8, 8}, IOATTN_MASK_CAUSAL_TOP_LEFT, 0, 0, 10},
                      {{2, 3, 3, 1, 600, 24, 20}, IOATTN_MASK_CAUSAL_TOP_LEFT, 0, 0, 500}};
constexpr int window = 6;  // which hides the first keys

void apply(const Case& c, ioattn_sdpa_problem* problem) {
  problem->mask = c.mask;
  problem->window_left = c.left;
  problem->window_right = c.right;
  problem->q_offset = c.q_offset;
}

// O and LSE of one query head, of a problem of its own.
template <class T>
void expect_head_alone(SdpaCall<T>& call, std::int64_t b, std::int64_t h) {
  ioattn_sdpa_problem alone = call.problem;
  const std::int64_t kv = h / (alone.heads / alone.kv_heads);
  alone.batch = alone.heads = alone.kv_heads = 1;
  const auto of = [](auto& tensor, std::int64_t entry, std::int64_t head) {
    return tensor.data() + entry * tensor.strides()[0] + head * tensor.strides()[1];
  };
  alone.q = of(call.q, b, h);
  alone.k = of(call.k, b, kv);
  alone.v = of(call.v, b, kv);
  std::vector<T> o(static_cast<std::size_t>(alone.n * alone.dv));
  std::vector<T> lse(static_cast<std::size_t>(alone.n));
  ASSERT_EQ(ioattn_sdpa_forward(&alone, nullptr, o.data(), nullptr, lse.data(), nullptr), IOATTN_OK)
      << ioattn_last_error();
  for (std::int64_t i = 0; i < alone.n; ++i) {
    const T* row = of(call.o, b, h) + i * call.o.strides()[2];
    EXPECT_EQ(std::memcmp(row, o.data() + i * alone.dv, std::size_t(alone.dv) * sizeof(T)), 0)
        << b << " " << h << " " << i;
  }
  EXPECT_EQ(std::memcmp(of(call.lse, b, h), lse.data(), lse.size() * sizeof(T)), 0) << b << h;
}

// With the same kernels: a group's rows may fill the lanes of others better than a head's do.
TYPED_TEST(SdpaGroups, HaveTheBitsOfTheirHeadsAlone) {
  for_each_isa([] {
    for (std::size_t i = 0; i < std::size(cases); ++i) {
      for (const Layout layout : reference::all_layouts) {
        for (const int threads : thread_counts) {
          SCOPED_TRACE("case " + std::to_string(i) + " layout " + std::to_string(int(layout)) +
                       " threads " + std::to_string(threads));
          SdpaCall<TypeParam> call(cases[i].sizes, layout, i);
          apply(cases[i], &call.problem);
          const ioattn_options options = with_threads(threads);
          ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
          call.expect_forward();
          for (std::int64_t b = 0; b < call.problem.batch; ++b)
            for (std::int64_t h = 0; h < call.problem.heads; ++h) expect_head_alone(call, b, h);
        }
      }
    }
  });
}

// With the kernels that a plan chooses.
TYPED_TEST(SdpaGroups, HaveTheSameBitsInAnyLayout) {
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    SdpaCall<TypeParam> first(cases[i].sizes, reference::all_layouts[0], i);
    apply(cases[i], &first.problem);
    ASSERT_EQ(first.forward(), IOATTN_OK) << ioattn_last_error();
    for (const Layout layout : reference::all_layouts) {
      for (const int threads : thread_counts) {
        SCOPED_TRACE("case " + std::to_string(i) + " layout " + std::to_string(int(layout)) +
                     " threads " + std::to_string(threads));
        SdpaCall<TypeParam> call(cases[i].sizes, layout, i);
        apply(cases[i], &call.problem);
        const ioattn_options options = with_threads(threads);
        ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
        call.expect_forward();
        const ioattn_sdpa_problem& p = call.problem;
        for (std::int64_t row = 0; row < p.batch * p.heads * p.n; ++row) {
          const auto of = [&](auto& tensor) {
            const std::int64_t head = row / p.n;
            return tensor.data() + head / p.heads * tensor.strides()[0] +
                   head % p.heads * tensor.strides()[1] + row % p.n * tensor.strides()[2];
          };
          ASSERT_EQ(std::memcmp(of(call.o), of(first.o), std::size_t(p.dv) * sizeof(TypeParam)), 0);
        }
      }
    }
  }
}

// Single queries of heads that are apart, what lies between them is no number: rows of one problem.
TYPED_TEST(SdpaGroups, OfSingleQueriesApart) {
  using T = TypeParam;
  constexpr std::int64_t heads = 6, d = 24, step = 30;
  SdpaCall<T> call({1, heads, 2, 1, 300, d, 20}, Layout::bhsd);
  const std::vector<T> dense = call.q.dense().values;
  std::vector<T> apart(heads * step, std::numeric_limits<T>::quiet_NaN());
  for (std::int64_t h = 0; h < heads; ++h)
    std::copy_n(dense.begin() + h * d, d, apart.begin() + h * step);
  call.problem.q = apart.data();
  call.problem.q_stride[0] = heads * step;
  call.problem.q_stride[1] = step;
  call.problem.q_stride[2] = d;
  ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
  call.expect_forward();
  SdpaCall<T> close({1, heads, 2, 1, 300, d, 20}, Layout::bhsd);
  ASSERT_EQ(close.forward(), IOATTN_OK) << ioattn_last_error();
  EXPECT_TRUE(same_bits(call.o.dense().values, close.o.dense().values));
}

// By pairs of terms, where the CPU multiplies such.
TEST(SdpaGroupsInHalf, HaveTheBitsOfTheirHeadsAlone) {
  constexpr std::int64_t heads = 6, kv_heads = 2, most = 1000, d = 40;
  std::vector<std::uint16_t> q(heads * 5 * d), k(kv_heads * most * d), v(k);
  std::uint32_t state = 1;
  for (auto* values : {&q, &k, &v}) {
    for (std::uint16_t& value : *values) {
      state = state * 1664525u + 1013904223u;
      const float number = static_cast<float>(state >> 16) / 16384 - 2;
      std::uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      value = static_cast<std::uint16_t>(bits >> 16);
    }
  }
  for (const std::int64_t n : {1, 5}) {
    for (const std::int64_t offset : {701, 1000}) {
      for (const int threads : thread_counts) {
        ioattn_sdpa_problem p = {};
        p.struct_size = sizeof p;
        p.batch = 1;
        p.heads = heads;
        p.kv_heads = kv_heads;
        p.n = n;
        p.m = most;
        p.d = p.dv = d;
        p.dtype = IOATTN_BF16;
        p.q = q.data();
        p.k = k.data();
        p.v = v.data();
        p.mask = IOATTN_MASK_CAUSAL_TOP_LEFT;
        p.q_offset = offset;
        std::vector<std::uint16_t> o(std::size_t(heads * n * d)), one(std::size_t(n * d));
        std::vector<float> lse(std::size_t(heads * n)), lse_of_one(std::size_t(n), 0.0f);
        const ioattn_options options = with_threads(threads);
        ASSERT_EQ(ioattn_sdpa_forward(&p, &options, o.data(), nullptr, lse.data(), nullptr),
                  IOATTN_OK);
        p.heads = p.kv_heads = 1;
        for (std::int64_t h = 0; h < heads; ++h) {
          p.q = q.data() + h * n * d;
          p.k = k.data() + h / 3 * most * d;
          p.v = v.data() + h / 3 * most * d;
          ASSERT_EQ(
              ioattn_sdpa_forward(&p, nullptr, one.data(), nullptr, lse_of_one.data(), nullptr),
              IOATTN_OK);
          EXPECT_EQ(std::memcmp(one.data(), o.data() + h * n * d, one.size() * 2), 0) << h << n;
          EXPECT_EQ(std::memcmp(lse_of_one.data(), lse.data() + h * n, std::size_t(n) * 4), 0) << h;
        }
      }
    }
  }
}

Plan planned(const ioattn_sdpa_problem& problem, std::int64_t words = 0) {
  ioattn_options options = default_options();
  options.fast_memory_words = words;
  ioattn_plan* plan = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_create(IOATTN_FORWARD, &problem, nullptr, &options, &plan), IOATTN_OK)
      << ioattn_last_error();
  return Plan(plan);
}
std::int64_t reads_of(const ioattn_sdpa_problem& problem, std::int64_t words = 0) {
  return Json::parse(text_of(ioattn_plan_describe, planned(problem, words)))["reads"];
}

// Queries once, and for every group the keys that they see once.
TEST(SdpaGroupsTraffic, KeysPassByOnce) {
  const auto expect = [](const Case& c, std::int64_t keys) {
    SdpaCall<float> call(c.sizes);
    apply(c, &call.problem);
    const ioattn_sdpa_problem& p = call.problem;
    EXPECT_EQ(reads_of(p), p.batch * (p.heads * p.n * p.d + p.kv_heads * keys * (p.d + p.dv)));
  };
  expect(cases[0], 300);
  expect(cases[1], 70);
  expect(cases[2], 701);
  expect(cases[3], 130);
  expect(cases[4], 40);
  expect(cases[window + 1], 5);
  // Rows that a mask tells apart are those of their heads, as are those that do not see the first.
  SdpaCall<float> call(cases[window - 1].sizes);
  apply(cases[window - 1], &call.problem);
  EXPECT_GT(reads_of(call.problem), 4 * 5 * 8 + 2 * 20 * 16);
  SdpaCall<float> later(cases[window].sizes);
  apply(cases[window], &later.problem);
  EXPECT_EQ(reads_of(later.problem), 4 * 8 + 4 * 601 * 16);
}

// Where the rows of a group are too many they pass by in as few blocks as fit.
TEST(SdpaGroupsTraffic, TakesAsManyRowsAsFit) {
  SdpaCall<float> call({1, 64, 1, 2, 400, 32, 32});
  const ioattn_sdpa_problem& p = call.problem;
  const std::int64_t once = 400 * 64, queries = 64 * 2 * 32;
  std::int64_t most = reads_of(p, 5000);
  EXPECT_GT(most, queries + once);
  EXPECT_LT(most, queries + 64 * once);
  for (const std::int64_t words : {8000, 16000, 100000}) {
    const std::int64_t reads = reads_of(p, words);
    EXPECT_LE(reads, most) << words;
    EXPECT_EQ((reads - queries) % once, 0) << words;
    const Json json = Json::parse(text_of(ioattn_plan_describe, planned(p, words)));
    EXPECT_LE(json["footprint"], words);
    most = reads;
  }
  EXPECT_EQ(most, queries + once);
}

// Tiles of the rows of a group may be longer than a head, if they fit.
TEST(SdpaGroupsTraffic, TilesOfAGroupKeepToM) {
  for (const std::size_t n : {3u, 17u, 33u, 100u}) {
    for (const std::int64_t words : {300, 4096}) {
      SdpaCall<float> call({1, 64, 4, n, 512, 256, 256});
      const Json json = Json::parse(text_of(ioattn_plan_describe, planned(call.problem, words)));
      EXPECT_LE(json["footprint"], words) << n;
    }
  }
}

// What runs is what plans tell.
TEST(SdpaGroupsTraffic, IsCountedAsTold) {
  namespace api = ioattn::api;
  using ioattn::dense_tensor;
  for (const ioattn::SdpaShape& shape :
       {ioattn::SdpaShape{2, 6, 2, 1, 300, 24, 20, {}},
        ioattn::SdpaShape{2, 4, 2, 1, 90, 8, 12, {-5, 49}},
        ioattn::SdpaShape{2, 3, 3, 1, 600, 8, 12, {-700, 500}},
        ioattn::SdpaShape{1, 6, 3, 70, 40, 12, 9, {}},
        ioattn::SdpaShape{1, 4, 2, 5, 20, 8, 8, ioattn::causal_bottom_right(5, 20)}}) {
    const ioattn::SdpaProblem problem = {shape, ioattn::DType::f32, 0};
    const std::vector<float> ones(100000, 1);
    std::vector<float> o(ones), lse(ones);
    const ioattn::SdpaInputs<float> inputs = {
        dense_tensor(ones.data(), shape.batch, shape.heads, shape.n, shape.d),
        dense_tensor(ones.data(), shape.batch, shape.kv_heads, shape.m, shape.d),
        dense_tensor(ones.data(), shape.batch, shape.kv_heads, shape.m, shape.dv)};
    ioattn::plan::SdpaPlan plan;
    ioattn::plan::Estimate estimate;
    ASSERT_OK(api::plan_sdpa(problem, std::nullopt, {}, &plan, &estimate));
    ioattn::instruments::IoCounter counter;
    ASSERT_OK(api::sdpa_forward<float>(
        problem, inputs, plan, {2, &counter},
        dense_tensor(o.data(), shape.batch, shape.heads, shape.n, shape.dv),
        dense_tensor(lse.data(), shape.batch, shape.heads, 1, shape.n)));
    const ioattn::IoCost counted = counter.total();
    const ioattn::IoCost told = estimate.cost.total();
    EXPECT_EQ(counted.reads, told.reads) << to_text(problem);
    EXPECT_EQ(counted.writes, told.writes) << to_text(problem);
    EXPECT_EQ(counted.created, told.created) << to_text(problem);
    EXPECT_LE(counted.footprint, estimate.M) << to_text(problem);
  }
}

}  // namespace
}  // namespace ioattn_test
