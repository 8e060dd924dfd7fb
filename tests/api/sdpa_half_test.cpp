// The C and C++ functions of SDPA in 16 bits: all that there is in f32, refusals, and what
// overflows.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "api/half_arithmetic.hpp"
#include "api/refused.hpp"
#include "ioattn/ioattn.hpp"
#include "schedules/thread_counts.hpp"

namespace ioattn_test {
namespace {

template <class Type>
class SdpaHalf : public HalfTest<Type> {};
using Types = testing::Types<Arithmetic<ioattn_bf16, false>, Arithmetic<ioattn_f16, false>,
                             Arithmetic<ioattn_bf16, true>, Arithmetic<ioattn_bf16, true, true>>;
TYPED_TEST_SUITE(SdpaHalf, Types);

// The same problem in f32.
template <class S>
HalfCall<float> widened(const HalfCall<S>& call) {
  const ioattn_sdpa_problem& p = call.problem;
  HalfCall<float> full({p.batch, p.heads, p.kv_heads, p.n, p.m, p.d, p.dv});
  const auto copy = [](const std::vector<S>& from, std::vector<float>* to) {
    for (std::size_t i = 0; i < from.size(); ++i) (*to)[i] = number(from[i]);
  };
  copy(call.q, &full.q);
  copy(call.k, &full.k);
  copy(call.v, &full.v);
  copy(call.d_o, &full.d_o);
  full.problem.mask = p.mask;
  full.problem.window_left = p.window_left;
  full.problem.window_right = p.window_right;
  full.problem.q_offset = p.q_offset;
  full.problem.scale = p.scale;
  return full;
}

// Half a unit in the last place, and what the order of sums in f32 may do; of pairs also what
// rounded factors do.
template <class Type>
void expect_close(const char* name, const std::vector<typename Type::S>& out,
                  const std::vector<float>& full) {
  const double unit = std::is_same_v<typename Type::S, ioattn_bf16> ? 1.0 / 256 : 1.0 / 2048;
  double largest = 0;
  for (const float x : full) largest = std::max(largest, std::fabs(double(x)));
  const double order = Type::pairs ? 4 * unit * largest : 2e-5;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double x = double(number(out[i])), y = double(full[i]);
    if (x == y) continue;
    ASSERT_LE(std::fabs(x - y), 1.02 * unit * std::fabs(y) + order) << name << " " << i;
  }
}

TYPED_TEST(SdpaHalf, IsThatOfTheSameFloats) {
  using S = typename TypeParam::S;
  struct Case {
    HalfSizes sizes;
    ioattn_mask mask;
    std::int64_t left, right;
  };
  const Case cases[] = {{{2, 6, 2, 70, 45, 24, 20}, IOATTN_MASK_NONE, 0, 0},
                        {{1, 2, 2, 257, 300, 64, 64}, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0},
                        {{1, 4, 1, 66, 30, 12, 7}, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0},
                        {{2, 2, 1, 50, 60, 8, 8}, IOATTN_MASK_WINDOW_TOP_LEFT, 5, 2},
                        {{1, 1, 1, 40, 50, 300, 280}, IOATTN_MASK_NONE, 0, 0}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.sizes.d);
    HalfCall<S> half(c.sizes);
    half.problem.mask = c.mask;
    half.problem.window_left = c.left;
    half.problem.window_right = c.right;
    HalfCall<float> full = widened(half);
    ASSERT_EQ(half.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(full.forward(), IOATTN_OK);
    expect_close<TypeParam>("O", half.o, full.o);
    for (std::size_t i = 0; i < full.lse.size(); ++i) {
      if (half.lse[i] == full.lse[i]) continue;  // -inf too
      ASSERT_NEAR(half.lse[i], full.lse[i], 1e-5) << i;
    }
    // From the rounded O.
    for (std::size_t i = 0; i < full.o.size(); ++i) full.o[i] = number(half.o[i]);
    full.lse = half.lse;
    ASSERT_EQ(half.backward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(full.backward(), IOATTN_OK);
    expect_close<TypeParam>("dQ", half.dq, full.dq);
    expect_close<TypeParam>("dK", half.dk, full.dk);
    expect_close<TypeParam>("dV", half.dv, full.dv);
  }
}

// In the first block of keys and later: weights of earlier keys become few or vanish.
TYPED_TEST(SdpaHalf, ScoresMayRiseSteeply) {
  using S = typename TypeParam::S;
  const auto check = [](double scale, float rise, std::int64_t d, std::int64_t m) {
    const std::int64_t early = 100;
    const HalfSizes sizes = {1, 1, 1, 70, m, d, 24};
    HalfCall<S> half(sizes, 1, 0.5f);
    half.problem.scale = scale;
    for (std::int64_t i = 0; i < sizes.n; ++i) half.q[std::size_t(i * d)] = element<S>(4);
    for (std::int64_t j = 0; j < sizes.m; ++j)
      half.k[std::size_t(j * d)] = element<S>(j == early ? rise
                                              : j == 290 ? 2 * rise
                                              : j == 500 ? 3 * rise
                                                         : 0);
    HalfCall<float> full = widened(half);
    ASSERT_EQ(half.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(full.forward(), IOATTN_OK);
    expect_close<TypeParam>("O", half.o, full.o);
    for (std::size_t i = 0; i < full.lse.size(); ++i)
      ASSERT_NEAR(half.lse[i], full.lse[i], 1e-5f * full.lse[i]) << i;
  };
  for (const double scale : {0.25, 1e6, 1e20, 1e32})
    for (const float rise : {6.f, 20.f, 60.f, 90.f, 130.f, 170.f, 200.f, 300.f, 1000.f})
      for (const std::int64_t d : {16, 64, 300})
        for (const std::int64_t m : {200, 600}) {
          SCOPED_TRACE(testing::Message() << m << " " << d << " " << rise << " " << scale);
          check(scale, rise, d, m);
        }
}

// Frameworks hide keys by the least number of the type: a query of which all are hidden so sees all
// alike, beside others the hidden ones weigh nothing.
TYPED_TEST(SdpaHalf, TheLeastBiasHidesKeys) {
  using S = typename TypeParam::S;
  for (const std::int64_t d : {16, 300}) {
    SCOPED_TRACE(d);
    const HalfSizes sizes = {1, 1, 1, 40, 570, d, 24};
    HalfCall<S> call(sizes), hidden(sizes);
    std::vector<S> bias(std::size_t(sizes.n * sizes.m), element<S>(0)), infinite(bias);
    const S least = std::is_same_v<S, ioattn_bf16> ? element<S>(-3.3895e38f) : element<S>(-65504);
    for (std::int64_t i = 0; i < sizes.n; ++i)
      for (std::int64_t j = 0; j < sizes.m; ++j) {
        if (i % 3 != 0 && (i + j) % 2 != 0) continue;
        bias[std::size_t(i * sizes.m + j)] = least;
        infinite[std::size_t(i * sizes.m + j)] = element<S>(-HUGE_VALF);
      }
    const auto run = [](HalfCall<S>* one, const std::vector<S>& values) {
      one->problem.bias = values.data();
      one->problem.bias_batch = one->problem.bias_heads = 1;
      ASSERT_EQ(one->forward(), IOATTN_OK) << ioattn_last_error();
    };
    run(&call, bias);
    run(&hidden, infinite);
    for (std::int64_t i = 0; i < sizes.n; ++i)
      for (std::int64_t k = 0; k < sizes.dv; ++k) {
        const auto at = std::size_t(i * sizes.dv + k);
        if (i % 3 != 0) {
          ASSERT_EQ(number(call.o[at]), number(hidden.o[at])) << i << " " << k;
          continue;
        }
        if (std::is_same_v<S, ioattn_f16>) continue;  // -65504 leaves differences of scores
        double mean = 0;
        for (std::int64_t j = 0; j < sizes.m; ++j)
          mean += double(number(call.v[std::size_t(j * sizes.dv + k)])) / double(sizes.m);
        ASSERT_NEAR(double(number(call.o[at])), mean, 2e-3) << i << " " << k;
      }
  }
}

TYPED_TEST(SdpaHalf, BitsDoNotDependOnThreads) {
  using S = typename TypeParam::S;
  const HalfSizes sizes = {1, 2, 1, 300, 290, 64, 40};
  HalfCall<S> one(sizes);
  HalfCall<S, float> one_wide(sizes);
  for (const int threads : thread_counts) {
    const ioattn_options options = with_threads(threads);
    HalfCall<S> call(sizes);
    HalfCall<S, float> wide(sizes);
    ASSERT_EQ(call.forward(&options), IOATTN_OK);
    ASSERT_EQ(call.backward(&options), IOATTN_OK);
    ASSERT_EQ(wide.forward(&options), IOATTN_OK);
    ASSERT_EQ(wide.backward(&options), IOATTN_OK);
    if (threads == 1) {
      one.o = call.o, one.lse = call.lse, one.dq = call.dq, one.dk = call.dk, one.dv = call.dv;
      one_wide.dq = wide.dq, one_wide.dk = wide.dk, one_wide.dv = wide.dv;
    }
    EXPECT_TRUE(call.same_results(one)) << threads;
    EXPECT_TRUE(wide.same_gradients(one_wide)) << threads;
    for (std::size_t i = 0; i < wide.dq.size(); ++i)
      ASSERT_EQ(number(call.dq[i]), number(element<S>(wide.dq[i])));
  }
}

TYPED_TEST(SdpaHalf, AccumulateAddsAndRoundsOnce) {
  using S = typename TypeParam::S;
  const HalfSizes sizes = {2, 4, 2, 40, 30, 10, 6};
  HalfCall<S, float> sums(sizes);
  HalfCall<S> call(sizes);
  ASSERT_EQ(sums.forward(), IOATTN_OK);
  ASSERT_EQ(sums.backward(), IOATTN_OK);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  call.dq = call.q;
  call.dk = call.k;
  call.dv = call.v;
  call.gradients.accumulate = 1;
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const auto expect_sum = [](const std::vector<S>& out, const std::vector<S>& before,
                             const std::vector<float>& terms) {
    std::vector<float> full;
    for (std::size_t i = 0; i < out.size(); ++i) full.push_back(number(before[i]) + terms[i]);
    expect_close<TypeParam>("sum", out, full);
  };
  expect_sum(call.dq, call.q, sums.dq);
  expect_sum(call.dk, call.k, sums.dk);
  expect_sum(call.dv, call.v, sums.dv);
}

TYPED_TEST(SdpaHalf, PlansGiveTheSameBits) {
  using S = typename TypeParam::S;
  const HalfSizes sizes = {1, 4, 2, 90, 110, 32, 24};
  HalfCall<S> plain(sizes), planned(sizes);
  ASSERT_EQ(plain.forward(), IOATTN_OK);
  ASSERT_EQ(plain.backward(), IOATTN_OK);
  ioattn_plan *forward = nullptr, *backward = nullptr, *parsed = nullptr;
  const ioattn_sdpa_problem& p = planned.problem;
  ASSERT_EQ(ioattn_sdpa_plan_create(IOATTN_FORWARD, &p, nullptr, nullptr, &forward), IOATTN_OK)
      << ioattn_last_error();
  ASSERT_EQ(ioattn_sdpa_plan_create(IOATTN_BACKWARD, &p, &planned.gradients, nullptr, &backward),
            IOATTN_OK);
  std::string text(1000, '\0'), json(10000, '\0');
  ASSERT_EQ(ioattn_plan_text(backward, text.data(), text.size(), nullptr), IOATTN_OK);
  ASSERT_EQ(ioattn_plan_describe(backward, json.data(), json.size(), nullptr), IOATTN_OK);
  EXPECT_NE(json.find(std::is_same_v<S, ioattn_bf16> ? ",bf16" : ",f16"), std::string::npos)
      << json;
  ASSERT_EQ(ioattn_sdpa_plan_parse(IOATTN_BACKWARD, &p, &planned.gradients, nullptr, text.c_str(),
                                   &parsed),
            IOATTN_OK)
      << ioattn_last_error();
  std::size_t bytes = 0;
  ASSERT_EQ(ioattn_plan_workspace_size(forward, &bytes), IOATTN_OK);
  std::vector<char> workspace(bytes);
  ASSERT_EQ(ioattn_sdpa_execute_forward(forward, &p, planned.o.data(), nullptr, planned.lse.data(),
                                        nullptr, workspace.data(), bytes),
            IOATTN_OK)
      << ioattn_last_error();
  for (const ioattn_plan* plan : {backward, parsed}) {
    ASSERT_EQ(ioattn_plan_workspace_size(plan, &bytes), IOATTN_OK);
    workspace.resize(bytes);
    const auto execute = [&](std::size_t size) {
      return ioattn_sdpa_execute_backward(plan, &p, planned.d_o.data(), nullptr, planned.o.data(),
                                          nullptr, planned.lse.data(), nullptr, &planned.gradients,
                                          workspace.data(), size);
    };
    EXPECT_NE(execute(bytes - 1), IOATTN_OK);
    ASSERT_EQ(execute(bytes), IOATTN_OK) << ioattn_last_error();
    EXPECT_TRUE(planned.same_results(plain));
    // Another type of gradients is another plan.
    planned.gradients.in_f32 = 1;
    EXPECT_EQ(execute(bytes), IOATTN_INVALID_ARGUMENT);
    planned.gradients.in_f32 = 0;
  }
  for (ioattn_plan* plan : {forward, backward, parsed}) ioattn_plan_destroy(plan);
}

// Sums of dQ take memory only within the limit.
TYPED_TEST(SdpaHalf, KeepsToTheMemoryLimit) {
  using S = typename TypeParam::S;
  HalfCall<S> call({1, 2, 2, 64, 64, 16, 16}), limited({1, 2, 2, 64, 64, 16, 16});
  ioattn_options options = with_threads(1);
  options.memory_limit = 4 * 2 * 64;
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(limited.forward(), IOATTN_OK);
  ASSERT_EQ(limited.backward(&options), IOATTN_OK) << ioattn_last_error();
  ASSERT_EQ(call.backward(), IOATTN_OK);
  std::vector<float> full;
  for (const S x : call.dq) full.push_back(number(x));
  expect_close<TypeParam>("dQ", limited.dq, full);
  options.memory_limit -= 1;
  EXPECT_EQ(limited.backward(&options), IOATTN_MEMORY_LIMIT);
}

// Delta and sums of dQ are kept of the heads that are in work, whose bits are those of each alone.
TYPED_TEST(SdpaHalf, WorkspaceIsThatOfTheHeadsInWork) {
  using S = typename TypeParam::S;
  const auto workspace_of = [](std::int64_t batch, int threads) {
    HalfCall<S> call({batch, 4, 2, 60, 50, 16, 16});
    const ioattn_options options = with_threads(threads);
    ioattn_plan* plan = nullptr;
    EXPECT_EQ(
        ioattn_sdpa_plan_create(IOATTN_BACKWARD, &call.problem, &call.gradients, &options, &plan),
        IOATTN_OK)
        << ioattn_last_error();
    std::size_t bytes = 0;
    EXPECT_EQ(ioattn_plan_workspace_size(plan, &bytes), IOATTN_OK);
    ioattn_plan_destroy(plan);
    return bytes;
  };
  EXPECT_EQ(workspace_of(64, 1), workspace_of(1, 1));
  EXPECT_EQ(workspace_of(64, 3), workspace_of(8, 3));
  EXPECT_GT(workspace_of(64, 16), workspace_of(64, 8));

  HalfCall<S> batch({4, 4, 2, 400, 300, 16, 16});
  ASSERT_EQ(batch.forward(), IOATTN_OK);
  HalfCall<S> shared(batch);
  ASSERT_EQ(batch.backward(), IOATTN_OK);
  for (const int threads : thread_counts) {  // 8 heads of keys: 7 workers take none whole
    SCOPED_TRACE(threads);
    const ioattn_options options = with_threads(threads);
    ASSERT_EQ(shared.backward(&options), IOATTN_OK) << ioattn_last_error();
    EXPECT_TRUE(shared.same_results(batch));
  }
}

// With a bias of each head, and without.
TYPED_TEST(SdpaHalf, PackedSequencesHaveTheBitsOfEachAlone) {
  using S = typename TypeParam::S;
  constexpr std::int64_t heads = 2, d = 12, rows = 90;
  const std::int64_t starts[] = {0, 20, 20, 71, 90};
  for (const bool has_bias : {false, true}) {
    HalfCall<S> packed({1, heads, heads, rows, rows, d, d});
    packed.problem.batch = 4;
    packed.problem.q_starts = packed.problem.k_starts = starts;
    packed.problem.mask = IOATTN_MASK_CAUSAL_TOP_LEFT;
    std::vector<S> bias, d_bias(std::size_t(heads * rows * rows), element<S>(0));
    for (std::size_t i = 0; i < d_bias.size(); ++i)
      bias.push_back(element<S>(i % 11 == 0 ? -HUGE_VALF : float(i % 7) / 4));
    const auto set_bias = [has_bias](HalfCall<S>* call, std::vector<S>* values,
                                     std::vector<S>* gradient) {
      if (!has_bias) return;
      call->problem.bias = values->data();
      call->problem.bias_batch = 1;
      call->problem.bias_heads = heads;
      call->gradients.dbias = gradient->data();
    };
    set_bias(&packed, &bias, &d_bias);
    ASSERT_EQ(packed.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(packed.backward(), IOATTN_OK) << ioattn_last_error();
    std::int64_t inside = 0;
    for (int b = 0; b < 4; ++b) {
      const std::int64_t n = starts[b + 1] - starts[b];
      inside += heads * n * n;
      HalfCall<S> alone({1, heads, heads, n, n, d, d});
      alone.problem.mask = packed.problem.mask;
      const auto block_of = [&](const std::vector<S>& all, std::int64_t cols, std::int64_t first,
                                std::int64_t last) {
        std::vector<S> some;
        for (std::int64_t h = 0; h < heads; ++h)
          for (std::int64_t i = starts[b]; i < starts[b + 1]; ++i)
            for (std::int64_t j = first; j < last; ++j)
              some.push_back(all[std::size_t((h * rows + i) * cols + j)]);
        return some;
      };
      const auto rows_of = [&](const std::vector<S>& all) { return block_of(all, d, 0, d); };
      const auto scores_of = [&](const std::vector<S>& all) {
        return block_of(all, rows, starts[b], starts[b + 1]);
      };
      alone.q = rows_of(packed.q), alone.k = rows_of(packed.k), alone.v = rows_of(packed.v);
      alone.d_o = rows_of(packed.d_o);
      HalfCall<S> call(alone);
      std::vector<S> own_bias = scores_of(bias);
      std::vector<S> own_gradient(own_bias.size(), element<S>(0));
      if (n > 0) set_bias(&call, &own_bias, &own_gradient);
      ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
      ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
      EXPECT_TRUE(same_numbers(call.o, rows_of(packed.o)));
      EXPECT_TRUE(same_numbers(call.dq, rows_of(packed.dq)));
      EXPECT_TRUE(same_numbers(call.dk, rows_of(packed.dk)));
      EXPECT_TRUE(same_numbers(call.dv, rows_of(packed.dv)));
      EXPECT_TRUE(same_numbers(own_gradient, scores_of(d_bias)));
    }
    // Nothing elsewhere.
    const auto written =
        std::count_if(d_bias.begin(), d_bias.end(), [](S x) { return std::fabs(number(x)) > 0; });
    EXPECT_EQ(written > 0, has_bias);
    EXPECT_LE(written, inside);
  }
}

// A bias, and its gradient, shared by all heads and not.
TYPED_TEST(SdpaHalf, BiasAndItsGradient) {
  using S = typename TypeParam::S;
  for (const std::int64_t bias_heads : {1, 3}) {
    HalfCall<S> half({2, 3, 3, 40, 50, 8, 8});
    HalfCall<float> full = widened(half);
    const auto size = std::size_t(bias_heads * 40 * 50);
    std::vector<S> bias(size), d_bias(size);
    std::vector<float> full_bias(size), full_d_bias(size);
    for (std::size_t i = 0; i < size; ++i) {
      bias[i] = element<S>(i % 11 == 0 ? -HUGE_VALF : float(i % 7) / 4);
      full_bias[i] = number(bias[i]);
    }
    const auto set = [&](auto* call, const void* values, void* gradient) {
      call->problem.bias = values;
      call->problem.bias_batch = 1;
      call->problem.bias_heads = bias_heads;
      call->gradients.dbias = gradient;
    };
    set(&half, bias.data(), d_bias.data());
    set(&full, full_bias.data(), full_d_bias.data());
    ASSERT_EQ(half.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(half.backward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(full.forward(), IOATTN_OK);
    expect_close<TypeParam>("O", half.o, full.o);
    for (std::size_t i = 0; i < full.o.size(); ++i) full.o[i] = number(half.o[i]);
    full.lse = half.lse;
    ASSERT_EQ(full.backward(), IOATTN_OK);
    expect_close<TypeParam>("dBias", d_bias, full_d_bias);
    expect_close<TypeParam>("dQ", half.dq, full.dq);
    expect_close<TypeParam>("dK", half.dk, full.dk);
  }
}

TYPED_TEST(SdpaHalf, PartsMerge) {
  using S = typename TypeParam::S;
  HalfCall<S> whole({1, 2, 2, 30, 60, 16, 200});
  ASSERT_EQ(whole.forward(), IOATTN_OK);
  std::vector<HalfCall<S>> slices(2, whole);
  std::vector<ioattn_partial> parts(2);
  for (std::size_t i = 0; i < 2; ++i) {
    HalfCall<S>& part = slices[i];
    part.problem.m = 30;
    part.problem.k = whole.k.data() + i * 30 * 16;
    part.problem.v = whole.v.data() + i * 30 * 200;
    for (std::int64_t stride : {0, 1}) {
      part.problem.k_stride[stride] = 60 * 16;
      part.problem.v_stride[stride] = 60 * 200;
    }
    ASSERT_EQ(part.forward(), IOATTN_OK) << ioattn_last_error();
    parts[i].o = part.o.data();
    parts[i].lse = part.lse.data();
  }
  const ioattn_merge_shape shape = {sizeof shape, 1, 2, 30, 200, whole.problem.dtype};
  HalfCall<S> merged(whole);
  ASSERT_EQ(ioattn_merge(&shape, nullptr, parts.data(), 2, merged.o.data(), nullptr,
                         merged.lse.data(), nullptr),
            IOATTN_OK)
      << ioattn_last_error();
  const double unit = std::is_same_v<S, ioattn_bf16> ? 1.0 / 256 : 1.0 / 2048;
  for (std::size_t i = 0; i < whole.lse.size(); ++i) EXPECT_NEAR(merged.lse[i], whole.lse[i], 1e-5);
  for (std::size_t i = 0; i < whole.o.size(); ++i) {
    // Of parts that were rounded, too.
    EXPECT_NEAR(number(merged.o[i]), number(whole.o[i]), 2.1 * unit * 2) << i;
  }
  ASSERT_EQ(ioattn_merge(&shape, nullptr, nullptr, 0, merged.o.data(), nullptr, merged.lse.data(),
                         nullptr),
            IOATTN_OK);
  for (const S x : merged.o) ASSERT_EQ(number(x), 0);
}

TYPED_TEST(SdpaHalf, WithoutKeysThereIsNothing) {
  using S = typename TypeParam::S;
  HalfCall<S> empty({1, 2, 1, 5, 0, 4, 3});
  ASSERT_EQ(empty.forward(), IOATTN_OK) << ioattn_last_error();
  ASSERT_EQ(empty.backward(), IOATTN_OK) << ioattn_last_error();
  for (const S x : empty.o) EXPECT_EQ(number(x), 0);
  for (const float x : empty.lse) EXPECT_EQ(x, -HUGE_VALF);
  for (const S x : empty.dq) EXPECT_EQ(number(x), 0);
  // Queries that see none, beside a NaN that is hidden from all.
  HalfCall<S> causal({1, 1, 1, 6, 4, 4, 3});
  causal.problem.mask = IOATTN_MASK_WINDOW_BOTTOM_RIGHT;
  causal.problem.window_left = 0;
  causal.problem.window_right = -1;
  causal.problem.q_offset = 4;
  for (std::size_t i = 0; i < 4; ++i) causal.k[i] = element<S>(std::nanf(""));
  ASSERT_EQ(causal.forward(), IOATTN_OK) << ioattn_last_error();
  ASSERT_EQ(causal.backward(), IOATTN_OK) << ioattn_last_error();
  for (std::size_t i = 0; i < causal.o.size(); ++i) {
    EXPECT_FALSE(std::isnan(number(causal.o[i])));
    if (i >= 2 * 3) {
      EXPECT_EQ(number(causal.o[i]), 0) << i;
    }
  }
  for (const S x : causal.dq) EXPECT_FALSE(std::isnan(number(x)));
  for (const S x : causal.dk) EXPECT_FALSE(std::isnan(number(x)));
}

// Gradients that f16 cannot hold are infinite; in f32 they are there.
TEST(SdpaF16, OverflowIsInfinite) {
  HalfCall<ioattn_f16> call({1, 1, 1, 64, 1, 4, 4});
  HalfCall<ioattn_f16, float> wide({1, 1, 1, 64, 1, 4, 4});
  for (ioattn_f16& x : call.d_o) x = element<ioattn_f16>(-60000.0F);
  wide.d_o = call.d_o;
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  ASSERT_EQ(wide.forward(), IOATTN_OK);
  ASSERT_EQ(wide.backward(), IOATTN_OK);
  for (const ioattn_f16 x : call.dv) EXPECT_EQ(number(x), -HUGE_VALF);
  const float sum = -64.0F * number(call.d_o[0]);
  for (const float x : wide.dv) EXPECT_EQ(x, -sum);
}

// Given the whole O and LSE, the gradients over half of the keys are their parts, where the other
// half has weights of 1e-4 and values 10^4 times as large.
TYPED_TEST(SdpaHalf, KeysOfAnotherCallCountHoweverSmallTheirWeights) {
  using S = typename TypeParam::S;
  constexpr std::size_t half = 32, d = 32;
  HalfCall<S, float> call({1, 1, 1, 4, 2 * half, d, d});
  for (std::size_t i = 0; i < 4; ++i) call.q[i * d] = element<S>(8);
  for (std::size_t j = 0; j < 2 * half; ++j) {
    call.k[j * d] = element<S>(j < half ? 0 : -9);
    for (std::size_t c = 0; c < d && j >= half; ++c)
      call.v[j * d + c] = element<S>(1e4F * number(call.v[j * d + c]));
  }
  call.problem.scale = 0.125;
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const std::vector<float> whole(call.dk.begin(), call.dk.begin() + half * d);
  call.problem.m = half;
  ASSERT_EQ(call.backward(), IOATTN_OK);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    difference += std::pow(call.dk[i] - whole[i], 2);
    norm += std::pow(whole[i], 2);
  }
  EXPECT_LT(std::sqrt(difference / norm), 4e-3);
}

TYPED_TEST(SdpaHalf, RefusesWhatIsWrong) {
  using S = typename TypeParam::S;
  HalfCall<S> call({1, 1, 1, 8, 8, 4, 4});
  ASSERT_EQ(call.forward(), IOATTN_OK);
  const auto refused = [&](ioattn_status status, const char* said) {
    expect_refused(status, IOATTN_INVALID_ARGUMENT, said);
  };
  // LSE is of other elements than what it overlaps: its last byte is O's first.
  std::vector<float> memory(8 + 8 * 4);
  char* const bytes = reinterpret_cast<char*>(memory.data());
  const auto at = [&](std::int64_t offset) {
    return ioattn_sdpa_forward(&call.problem, nullptr, bytes + offset, nullptr, bytes, nullptr);
  };
  refused(at(30), "overlap");
  EXPECT_EQ(at(32), IOATTN_OK) << ioattn_last_error();
  refused(at(33), "aligned");
  refused(ioattn_sdpa_forward(&call.problem, nullptr, call.q.data() + 31, nullptr, call.lse.data(),
                              nullptr),
          "overlap");
  HalfCall<float> full({1, 1, 1, 8, 8, 4, 4});
  const int beyond = IOATTN_F16 + 1;
  std::memcpy(&full.problem.dtype, &beyond, sizeof beyond);
  refused(full.forward(), "dtype");
  full.problem.dtype = IOATTN_F64;
  full.gradients.in_f32 = 1;
  refused(full.backward(), "f32");
}

TYPED_TEST(SdpaHalf, IsThereInCpp) {
  using S = typename TypeParam::S;
  const HalfSizes sizes = {1, 2, 1, 20, 24, 8, 6};
  HalfCall<S> c(sizes), cpp(sizes);
  HalfCall<S, float> wide(sizes);
  ASSERT_EQ(c.forward(), IOATTN_OK);
  ASSERT_EQ(c.backward(), IOATTN_OK);
  ASSERT_EQ(wide.forward(), IOATTN_OK);
  ASSERT_EQ(wide.backward(), IOATTN_OK);
  ioattn::Sdpa<S> sdpa;
  sdpa.q = {cpp.q.data(), 1, 2, 20, 8};
  sdpa.k = {cpp.k.data(), 1, 1, 24, 8};
  sdpa.v = {cpp.v.data(), 1, 1, 24, 6};
  const ioattn::Tensor<S> o(cpp.o.data(), 1, 2, 20, 6);
  const ioattn::Tensor<float> lse(cpp.lse.data(), 1, 2, 1, 20);
  const ioattn::Tensor<const S> d_o(cpp.d_o.data(), 1, 2, 20, 6);
  ioattn::forward(sdpa, o, lse);
  ioattn::SdpaGradients<S> gradients;
  gradients.dq = {cpp.dq.data(), 1, 2, 20, 8};
  gradients.dk = {cpp.dk.data(), 1, 1, 24, 8};
  gradients.dv = {cpp.dv.data(), 1, 1, 24, 6};
  ioattn::backward<S>(sdpa, d_o, o, lse, gradients);
  EXPECT_TRUE(cpp.same_results(c));
  std::vector<float> dq(cpp.dq.size());
  ioattn::SdpaGradients<float> in_f32;
  in_f32.dq = {dq.data(), 1, 2, 20, 8};
  const auto plan = ioattn::SdpaPlan<S>::backward(sdpa, in_f32);
  plan.execute_backward(sdpa, d_o, o, lse, in_f32);
  // dQ alone may be of other passes, which round what they multiply, or do not.
  for (std::size_t i = 0; i < dq.size(); ++i) EXPECT_NEAR(dq[i], wide.dq[i], 4e-3);
}

}  // namespace
}  // namespace ioattn_test
