// What plans count on request: results in 16 bits that overflow, as ioattn_plan_describe() tells.

#include <nlohmann/json.hpp>

#include "api/half_call.hpp"
#include "api/plan_call.hpp"
#include "ioattn/ioattn.hpp"
#include "schedules/thread_counts.hpp"

namespace ioattn_test {
namespace {

using Json = nlohmann::json;

Json overflows(const Plan& plan) {
  return Json::parse(text_of(ioattn_plan_describe, plan))["overflows"];
}

// All scores are 0 and weights 1/2: every result is a short sum of products of powers of 2.
//   dQ_i = (g_i v a, 0, 0, 0)    dK = -+ v/2 sum g (0, x, x, x)    dV_j = 1/2 sum (g, h)
//   dBias_ij = +- g_i v/2
template <class S>
struct KnownSums {
  static constexpr std::int64_t n = 4, m = 2, d = 4, dv = 2;

  explicit KnownSums(const std::vector<float>& g, const std::vector<float>& h, float v, float a,
                     float x)
      : call({1, 1, 1, n, m, d, dv}), bias(std::size_t(n * m), element<S>(0)), d_bias(bias) {
    for (std::vector<S>* each : {&call.q, &call.k, &call.v, &call.d_o})
      each->assign(each->size(), element<S>(0));
    for (std::size_t i = 0; i < std::size_t(n); ++i) {
      for (std::size_t k = 1; k < std::size_t(d); ++k) call.q[i * d + k] = element<S>(x);
      call.d_o[i * dv] = element<S>(g[i]);
      call.d_o[i * dv + 1] = element<S>(h[i]);
    }
    for (std::size_t j = 0; j < std::size_t(m); ++j) {
      const float sign = j == 0 ? 1.0F : -1.0F;
      call.k[j * d] = element<S>(sign * a);
      call.v[j * dv] = element<S>(sign * v);
    }
    call.problem.scale = 1;
    call.problem.bias = bias.data();
    call.problem.bias_batch = call.problem.bias_heads = 1;
    call.gradients.dbias = d_bias.data();
  }

  Plan plan(ioattn_pass pass) {
    ioattn_plan* created = nullptr;
    EXPECT_EQ(ioattn_sdpa_plan_create(pass, &call.problem, &call.gradients, nullptr, &created),
              IOATTN_OK)
        << ioattn_last_error();
    return Plan(created);
  }
  ioattn_status backward(const Plan& plan) {
    return ioattn_sdpa_execute_backward(plan.get(), &call.problem, call.d_o.data(), nullptr,
                                        call.o.data(), nullptr, call.lse.data(), nullptr,
                                        &call.gradients, nullptr, 0);
  }
  // Of a plan of its own, executed once.
  Json counted() {
    EXPECT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    const Plan planned = plan(IOATTN_BACKWARD);
    EXPECT_EQ(ioattn_plan_count_overflows(planned.get(), 1), IOATTN_OK);
    EXPECT_EQ(backward(planned), IOATTN_OK) << ioattn_last_error();
    return overflows(planned);
  }

  HalfCall<S> call;
  std::vector<S> bias, d_bias;
};

Json counts(int dq, int dk, int dv, int d_bias, int executions = 1) {
  return {{"executions", executions}, {"dQ", dq}, {"dK", dk}, {"dV", dv}, {"dBias", d_bias}};
}

constexpr float most_f16 = 65504;

TEST(Overflow, KnownSumsInF16) {
  // dQ 2^16 (1, 1/2, -8, -8), dK 2^13 29 in 3 columns, dV of h 98256, dBias 2^13 (1, 1/2, 8, 8).
  KnownSums<ioattn_f16> all({1, 0.5F, -8, -8}, {most_f16, most_f16, most_f16, 0}, 0x1p14F, 4, 2);
  EXPECT_EQ(all.counted(), counts(3, 6, 2, 4));
  // The largest number is none: it is finite.
  KnownSums<ioattn_f16> none({1, 0, 0, 0}, {most_f16, most_f16, 0, 0}, 0x1p13F, 4, 2);
  EXPECT_EQ(none.counted(), counts(0, 0, 0, 0));
  EXPECT_EQ(number(none.call.dv[1]), most_f16);
  // Up to 65519 numbers are rounded to it, from 65520 on they are not.
  KnownSums<ioattn_f16> below({0, 0, 0, 0}, {most_f16, most_f16, 30, 0}, 1, 1, 1);
  EXPECT_EQ(below.counted(), counts(0, 0, 0, 0));
  KnownSums<ioattn_f16> at({0, 0, 0, 0}, {most_f16, most_f16, 32, 0}, 1, 1, 1);
  EXPECT_EQ(at.counted(), counts(0, 0, 2, 0));
}

TEST(Overflow, KnownSumsInBf16) {
  const float most = 0x1.fep127F;
  KnownSums<ioattn_bf16> below({0, 0, 0, 0}, {most, most, 0x1p119F, 0}, 1, 1, 1);
  EXPECT_EQ(below.counted(), counts(0, 0, 0, 0));
  EXPECT_EQ(number(below.call.dv[1]), most);
  KnownSums<ioattn_bf16> at({0, 0, 0, 0}, {most, most, 0x1p120F, 0}, 1, 1, 1);
  EXPECT_EQ(at.counted(), counts(0, 0, 2, 0));
  EXPECT_TRUE(std::isinf(number(at.call.dv[1])));
}

// Nor is a sum that was infinite before it was rounded.
TEST(Overflow, NaNIsNotCounted) {
  for (const float odd : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    KnownSums<ioattn_f16> all({0, 0, 0, 0}, {odd, most_f16, most_f16, most_f16}, 1, 1, 1);
    const Json counted = all.counted();
    EXPECT_EQ(counted, counts(0, 0, 0, 0)) << odd;
    EXPECT_FALSE(std::isfinite(number(all.call.dv[1])));
  }
}

TEST(Overflow, WhatIsAddedToTakesPart) {
  KnownSums<ioattn_f16> all({0, 0, 0, 0}, {most_f16, most_f16, most_f16, 0}, 1, 1, 1);
  all.call.gradients.accumulate = 1;
  const auto prepare = [&](float first, float second) {
    for (auto* each : {&all.call.dq, &all.call.dk, &all.call.dv, &all.d_bias})
      each->assign(each->size(), element<ioattn_f16>(0));
    all.call.dv[1] = element<ioattn_f16>(first);
    all.call.dv[3] = element<ioattn_f16>(second);
  };
  prepare(-most_f16, 0);
  EXPECT_EQ(all.counted(), counts(0, 0, 1, 0));
  prepare(HUGE_VALF, std::nanf(""));
  EXPECT_EQ(all.counted(), counts(0, 0, 0, 0));
}

TEST(Overflow, IsCountedOnRequest) {
  KnownSums<ioattn_f16> all({1, 0.5F, -8, -8}, {most_f16, most_f16, most_f16, 0}, 0x1p14F, 4, 2);
  ASSERT_EQ(all.call.forward(), IOATTN_OK);
  const Plan plan = all.plan(IOATTN_BACKWARD);
  EXPECT_TRUE(overflows(plan).is_null());
  ASSERT_EQ(all.backward(plan), IOATTN_OK);
  EXPECT_TRUE(overflows(plan).is_null());
  ASSERT_EQ(ioattn_plan_count_overflows(plan.get(), 1), IOATTN_OK);
  EXPECT_EQ(overflows(plan), counts(0, 0, 0, 0, 0));
  ASSERT_EQ(all.backward(plan), IOATTN_OK);
  ASSERT_EQ(all.backward(plan), IOATTN_OK);
  EXPECT_EQ(overflows(plan), counts(6, 12, 4, 8, 2));
  // A failed execution is none.
  all.call.problem.q = nullptr;
  EXPECT_EQ(all.backward(plan), IOATTN_INVALID_ARGUMENT);
  all.call.problem.q = all.call.q.data();
  EXPECT_EQ(overflows(plan), counts(6, 12, 4, 8, 2));
  // Again from 0.
  ASSERT_EQ(ioattn_plan_count_overflows(plan.get(), 1), IOATTN_OK);
  ASSERT_EQ(all.backward(plan), IOATTN_OK);
  EXPECT_EQ(overflows(plan), counts(3, 6, 2, 4));
  ASSERT_EQ(ioattn_plan_count_overflows(plan.get(), 0), IOATTN_OK);
  EXPECT_TRUE(overflows(plan).is_null());
  EXPECT_EQ(ioattn_plan_count_overflows(nullptr, 1), IOATTN_INVALID_ARGUMENT);
}

// Results that are not rounded have no count.
TEST(Overflow, OfF32IsNone) {
  const HalfSizes sizes = {1, 1, 1, 5, 6, 4, 3};
  const Json once = {{"executions", 1}};
  const auto counted = [](auto call) {
    EXPECT_EQ(call.forward(), IOATTN_OK);
    ioattn_plan* created = nullptr;
    EXPECT_EQ(
        ioattn_sdpa_plan_create(IOATTN_BACKWARD, &call.problem, &call.gradients, nullptr, &created),
        IOATTN_OK);
    const Plan plan(created);
    EXPECT_EQ(ioattn_plan_count_overflows(plan.get(), 1), IOATTN_OK);
    EXPECT_EQ(ioattn_sdpa_execute_backward(plan.get(), &call.problem, call.d_o.data(), nullptr,
                                           call.o.data(), nullptr, call.lse.data(), nullptr,
                                           &call.gradients, nullptr, 0),
              IOATTN_OK);
    return overflows(plan);
  };
  EXPECT_EQ(counted(HalfCall<float>(sizes)), once);
  EXPECT_EQ(counted(HalfCall<ioattn_f16, float>(sizes)), once);
}

// From work that several threads share, as many as its results in f32 have.
TEST(Overflow, DoesNotDependOnThreads) {
  const HalfSizes sizes = {1, 4, 2, 600, 20, 64, 40};
  HalfCall<ioattn_f16> half(sizes, 5);
  HalfCall<ioattn_f16, float> wide(sizes, 5);
  for (auto* v : {&half.v, &wide.v})
    for (ioattn_f16& x : *v) x = element<ioattn_f16>(64 * number(x));
  for (std::vector<ioattn_f16>* d_o : {&half.d_o, &wide.d_o})
    for (ioattn_f16& x : *d_o)
      x = element<ioattn_f16>(std::clamp(0x1p14F * number(x), -most_f16, most_f16));
  ASSERT_EQ(half.forward(), IOATTN_OK);
  ASSERT_EQ(wide.forward(), IOATTN_OK);
  ASSERT_EQ(wide.backward(), IOATTN_OK);
  const auto beyond = [](const std::vector<float>& all) {
    return std::count_if(all.begin(), all.end(), [](float x) { return std::fabs(x) >= 65520; });
  };
  const Json expected = {
      {"executions", 1}, {"dQ", beyond(wide.dq)}, {"dK", beyond(wide.dk)}, {"dV", beyond(wide.dv)}};
  for (const char* name : {"dQ", "dK", "dV"}) EXPECT_GT(expected[name], 10) << name;
  for (const int threads : thread_counts) {
    const ioattn_options options = with_threads(threads);
    ioattn_plan* created = nullptr;
    ASSERT_EQ(ioattn_sdpa_plan_create(IOATTN_BACKWARD, &half.problem, &half.gradients, &options,
                                      &created),
              IOATTN_OK);
    const Plan plan(created);
    ASSERT_EQ(ioattn_plan_count_overflows(plan.get(), 1), IOATTN_OK);
    ASSERT_EQ(ioattn_sdpa_execute_backward(plan.get(), &half.problem, half.d_o.data(), nullptr,
                                           half.o.data(), nullptr, half.lse.data(), nullptr,
                                           &half.gradients, nullptr, 0),
              IOATTN_OK);
    EXPECT_EQ(overflows(plan), expected) << threads;
  }
}

// O = f A3 Y with equal weights, and dY = A3^T f^T dO: through the C++ interface, too.
TEST(Overflow, OfTheLayerProblem) {
  using S = ioattn_f16;
  const S zero = element<S>(0), large = element<S>(256);
  std::vector<S> a1(3, zero), a2(2, large), x(1, zero), y(2, large), o(6), d_o(6, large), dy(2);
  std::vector<float> lse(3);
  y[1] = element<S>(128);
  d_o[1] = element<S>(-256);
  ioattn::Layer<S> layer;
  layer.a1 = {a1.data(), 3, 1};
  layer.a2 = layer.a3 = {a2.data(), 2, 1};
  layer.x = {x.data(), 1, 1};
  layer.y = {y.data(), 1, 2};
  const auto counted = [](const auto& plan) { return Json::parse(plan.describe())["overflows"]; };

  auto forward = ioattn::LayerPlan<S>::forward(layer);
  forward.count_overflows();
  forward.execute_forward(layer, {o.data(), 3, 2}, lse.data());
  EXPECT_EQ(counted(forward), (Json{{"executions", 1}, {"O", 3}}));  // 2^16 and 2^15
  for (std::size_t i = 0; i < o.size(); i += 2) o[i] = zero;
  ioattn::LayerGradients<S> gradients;
  gradients.dy = {dy.data(), 1, 2};
  auto backward = ioattn::LayerPlan<S>::backward(layer, gradients);
  backward.count_overflows();
  backward.execute_backward(layer, {d_o.data(), 3, 2}, {o.data(), 3, 2}, lse.data(), gradients);
  EXPECT_EQ(counted(backward), (Json{{"executions", 1}, {"dY", 2}}));  // 3 2^16 and 2^16
  d_o[1] = element<S>(-384);
  backward.execute_backward(layer, {d_o.data(), 3, 2}, {o.data(), 3, 2}, lse.data(), gradients);
  EXPECT_EQ(counted(backward), (Json{{"executions", 2}, {"dY", 3}}));  // 3 2^16 and 2^15
  backward.count_overflows(false);
  EXPECT_TRUE(counted(backward).is_null());
}

}  // namespace
}  // namespace ioattn_test
