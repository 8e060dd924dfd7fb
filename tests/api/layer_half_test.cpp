// The layer problem in 16 bits through the C functions: bits, plans, refusals, edges.

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "api/half_arithmetic.hpp"
#include "api/layer_half_call.hpp"
#include "api/plan_call.hpp"
#include "ioattn/ioattn.hpp"
#include "schedule_names.hpp"
#include "schedules/thread_counts.hpp"

namespace ioattn_test {
namespace {

constexpr LayerHalfSizes usual = {70, 90, 24, 16, 5, 2};

template <class Type>
class LayerHalfCalls : public HalfTest<Type> {};
using Types = testing::Types<Arithmetic<ioattn_bf16, false>, Arithmetic<ioattn_f16, false>,
                             Arithmetic<ioattn_bf16, true>, Arithmetic<ioattn_bf16, true, true>>;
TYPED_TEST_SUITE(LayerHalfCalls, Types);

TYPED_TEST(LayerHalfCalls, BitsAreThoseOfOneThread) {
  using S = typename TypeParam::S;
  LayerHalfCall<S> one(usual);
  const ioattn_options single = with_threads(1);
  ASSERT_EQ(one.forward(&single), IOATTN_OK) << ioattn_last_error();
  ASSERT_EQ(one.backward(&single), IOATTN_OK) << ioattn_last_error();
  for (const int threads : thread_counts) {
    LayerHalfCall<S> call(usual);
    const ioattn_options options = with_threads(threads);
    ASSERT_EQ(call.forward(&options), IOATTN_OK);
    ASSERT_EQ(call.backward(&options), IOATTN_OK);
    EXPECT_TRUE(call.same_results(one)) << threads;
  }
  // O and LSE are computed first where they are not given.
  LayerHalfCall<S> alone(usual);
  ASSERT_EQ(ioattn_layer_backward(&alone.problem, nullptr, alone.d_o.data(), 0, nullptr, 0, nullptr,
                                  &alone.gradients),
            IOATTN_OK);
  for (std::size_t k = 0; k < alone.out.size(); ++k)
    EXPECT_TRUE(same_numbers(alone.out[k], one.out[k])) << gradient_names[k];
}

ioattn_layer_shape shape_of(const ioattn_layer_problem& p) {
  ioattn_layer_shape shape = {};
  shape.struct_size = sizeof shape;
  shape.n = p.n;
  shape.m = p.m;
  shape.d = p.d;
  shape.dv = p.dv;
  shape.dtype = p.dtype;
  shape.scale = p.scale;
  shape.batch = p.batch;
  return shape;
}

TYPED_TEST(LayerHalfCalls, PlansGiveTheSameBits) {
  using S = typename TypeParam::S;
  LayerHalfCall<S> direct(usual), planned(usual);
  ASSERT_EQ(direct.forward(), IOATTN_OK);
  ASSERT_EQ(direct.backward(), IOATTN_OK);
  const ioattn_layer_shape shape = shape_of(planned.problem);
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    ioattn_plan *created = nullptr, *parsed = nullptr;
    ASSERT_EQ(ioattn_layer_plan_create(pass, &shape, &planned.gradients, nullptr, &created),
              IOATTN_OK)
        << ioattn_last_error();
    const std::string text = text_of(ioattn_plan_text, created);
    const std::string described = text_of(ioattn_plan_describe, created);
    EXPECT_EQ(described.find("\"in_f32\":false") != std::string::npos, pass == IOATTN_BACKWARD);
    ASSERT_EQ(
        ioattn_layer_plan_parse(pass, &shape, &planned.gradients, nullptr, text.c_str(), &parsed),
        IOATTN_OK)
        << ioattn_last_error();
    EXPECT_EQ(text_of(ioattn_plan_text, parsed), text);
    std::size_t bytes = 0;
    ASSERT_EQ(ioattn_plan_workspace_size(parsed, &bytes), IOATTN_OK);
    // Behind the workspace nothing is written.
    std::vector<unsigned char> workspace(bytes + 64, 0x5a);
    const auto run = [&](std::size_t size) {
      return pass == IOATTN_FORWARD
                 ? ioattn_layer_execute_forward(parsed, &planned.problem, planned.o.data(), 0,
                                                planned.lse.data(), workspace.data(), size)
                 : ioattn_layer_execute_backward(parsed, &planned.problem, planned.d_o.data(), 0,
                                                 planned.o.data(), 0, planned.lse.data(),
                                                 &planned.gradients, workspace.data(), size);
    };
    EXPECT_EQ(run(bytes - 1), IOATTN_INVALID_ARGUMENT);
    ASSERT_EQ(run(bytes), IOATTN_OK) << ioattn_last_error();
    for (std::size_t i = bytes; i < workspace.size(); ++i) ASSERT_EQ(workspace[i], 0x5a);
    ioattn_plan_destroy(created);
    ioattn_plan_destroy(parsed);
  }
  EXPECT_TRUE(planned.same_results(direct));
}

TYPED_TEST(LayerHalfCalls, PlansAreForTheirTypes) {
  using S = typename TypeParam::S;
  using Other = std::conditional_t<std::is_same_v<S, ioattn_f16>, ioattn_bf16, ioattn_f16>;
  LayerHalfCall<S, float> call(usual);
  LayerHalfCall<S> rounded(usual);
  LayerHalfCall<Other, float> other(usual);
  const ioattn_layer_shape shape = shape_of(call.problem);
  ioattn_plan* plan = nullptr;
  ASSERT_EQ(ioattn_layer_plan_create(IOATTN_BACKWARD, &shape, &call.gradients, nullptr, &plan),
            IOATTN_OK);
  const auto execute = [&](auto* c) {
    return ioattn_layer_execute_backward(plan, &c->problem, c->d_o.data(), 0, c->o.data(), 0,
                                         c->lse.data(), &c->gradients, nullptr, 0);
  };
  EXPECT_EQ(execute(&other), IOATTN_INVALID_ARGUMENT);
  EXPECT_TRUE(other.untouched());
  EXPECT_EQ(execute(&rounded), IOATTN_INVALID_ARGUMENT);
  EXPECT_TRUE(rounded.untouched());
  ASSERT_EQ(call.forward(), IOATTN_OK);
  EXPECT_EQ(execute(&call), IOATTN_OK) << ioattn_last_error();
  ioattn_plan_destroy(plan);
}

// Every schedule by name: the passes over rows compute, and tiles of pairs, all others refuse and
// touch nothing.
TYPED_TEST(LayerHalfCalls, OtherSchedulesRefuse) {
  using S = typename TypeParam::S;
  std::vector<std::string> forward = {"row_stream"};
  std::vector<std::string> backward = {"row_stream", "q_stored", "half_dim"};
  if (TypeParam::pairs)
    for (auto* each : {&forward, &backward}) each->push_back("tile_fused");
  LayerHalfCall<S> reference(usual);
  ASSERT_EQ(reference.forward(), IOATTN_OK);
  for (const char* schedule : all_schedules) {
    SCOPED_TRACE(schedule);
    ioattn_options options = with_threads(1);
    options.schedule = schedule;
    LayerHalfCall<S> call(usual);
    const bool runs = std::count(std::begin(forward), std::end(forward), schedule) > 0;
    EXPECT_EQ(call.forward(&options), runs ? IOATTN_OK : IOATTN_UNSUPPORTED);
    EXPECT_EQ(call.untouched(), !runs);
    const bool runs_back = std::count(std::begin(backward), std::end(backward), schedule) > 0;
    for (const bool dx_alone : {true, false}) {
      LayerHalfCall<S> back(usual);
      if (dx_alone) back.want_dx_alone();
      EXPECT_EQ(ioattn_layer_backward(&back.problem, &options, back.d_o.data(), 0,
                                      reference.o.data(), 0, reference.lse.data(), &back.gradients),
                runs_back ? IOATTN_OK : IOATTN_UNSUPPORTED)
          << ioattn_last_error();
      EXPECT_EQ(back.untouched(), !runs_back);
    }
  }
}

// Plans of f32 that 16 bits have no schedule for.
TYPED_TEST(LayerHalfCalls, PlansOfOtherSchedulesRefuse) {
  LayerHalfCall<float> full(usual);
  const ioattn_layer_shape of_float = shape_of(full.problem);
  LayerHalfCall<typename TypeParam::S> half(usual);
  const ioattn_layer_shape of_half = shape_of(half.problem);
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    ioattn_options options = with_threads(1);
    options.schedule = "paper_small";
    ioattn_plan* plan = nullptr;
    ASSERT_EQ(ioattn_layer_plan_create(pass, &of_float, nullptr, &options, &plan), IOATTN_OK);
    const std::string text = text_of(ioattn_plan_text, plan);
    ioattn_plan_destroy(plan);
    plan = nullptr;
    EXPECT_EQ(ioattn_layer_plan_parse(pass, &of_half, nullptr, nullptr, text.c_str(), &plan),
              IOATTN_UNSUPPORTED);
    EXPECT_NE(std::string(ioattn_last_error()).find("16 bits"), std::string::npos);
    EXPECT_EQ(plan, nullptr);
  }
}

// Gradients fit into less, the pass that makes O and LSE for them does not.
TYPED_TEST(LayerHalfCalls, TheForwardPassBeforeGradientsHasTooLittleFastMemory) {
  LayerHalfCall<typename TypeParam::S> call({3, 16, 100, 100});
  call.want_dx_alone();
  ioattn_options options = with_threads(1);
  options.memory_limit = 1 << 28;
  for (options.fast_memory_words = 400; options.fast_memory_words <= 800;
       options.fast_memory_words += 100) {
    const ioattn_status status = ioattn_layer_backward(&call.problem, &options, call.d_o.data(), 0,
                                                       nullptr, 0, nullptr, &call.gradients);
    if (status == IOATTN_OK) return;  // as pairs of bf16 take less
    EXPECT_EQ(status, IOATTN_FAST_MEMORY_TOO_SMALL) << options.fast_memory_words;
    EXPECT_TRUE(call.untouched());
  }
}

// The larger of the two numbers that the refusal names is enough for both passes, and the least.
TYPED_TEST(LayerHalfCalls, TheLeastFastMemoryIsThatOfBothPasses) {
  for (const bool dx_alone : {false, true}) {
    LayerHalfCall<typename TypeParam::S> call({3, 16, 100, 100});
    if (dx_alone) call.want_dx_alone();
    ioattn_options options = with_threads(1);
    const auto run = [&](std::int64_t words) {
      options.fast_memory_words = words;
      return ioattn_layer_backward(&call.problem, &options, call.d_o.data(), 0, nullptr, 0, nullptr,
                                   &call.gradients);
    };
    ASSERT_EQ(run(7), IOATTN_FAST_MEMORY_TOO_SMALL);
    const std::string message = ioattn_last_error(), key = "the least is ";
    std::vector<std::int64_t> least;
    for (std::size_t at = message.find(key); at != std::string::npos; at = message.find(key, at)) {
      at += key.size();
      least.push_back(std::stoll(message.substr(at)));
    }
    ASSERT_EQ(least.size(), 2u) << message;
    const std::int64_t both = std::max(least[0], least[1]);
    EXPECT_EQ(run(both - 1), IOATTN_FAST_MEMORY_TOO_SMALL);
    EXPECT_TRUE(call.untouched());
    EXPECT_EQ(run(both), IOATTN_OK) << message << "\n" << ioattn_last_error();
  }
}

TYPED_TEST(LayerHalfCalls, MIsOfWordsOf16Bits) {
  using S = typename TypeParam::S;
  LayerHalfCall<S> call({17, 19, 8, 6});
  ioattn_options options = with_threads(1);
  options.fast_memory_words = 7;
  EXPECT_EQ(call.forward(&options), IOATTN_FAST_MEMORY_TOO_SMALL);
  EXPECT_EQ(call.backward(&options), IOATTN_FAST_MEMORY_TOO_SMALL);
  EXPECT_TRUE(call.untouched());
  const std::string message = ioattn_last_error(), key = "the least is ";
  options.fast_memory_words = std::stoll(message.substr(message.find(key) + key.size()));
  ASSERT_EQ(call.forward(), IOATTN_OK);
  EXPECT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
  options.memory_limit = 1;
  EXPECT_EQ(call.backward(&options), IOATTN_MEMORY_LIMIT);
}

TEST(LayerHalf, InF32IsForSixteenBits) {
  LayerHalfCall<float> call(usual);
  call.gradients.in_f32 = 1;  // without a meaning
  ASSERT_EQ(call.forward(), IOATTN_OK);
  EXPECT_EQ(call.backward(), IOATTN_OK);
  call.problem.dtype = IOATTN_F64;
  EXPECT_EQ(call.backward(), IOATTN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ioattn_last_error()).find("in_f32"), std::string::npos);
}

TYPED_TEST(LayerHalfCalls, NothingIsASizeToo) {
  using S = typename TypeParam::S;
  for (const LayerHalfSizes& sizes :
       {LayerHalfSizes{0, 5, 4, 3}, LayerHalfSizes{5, 0, 4, 3}, LayerHalfSizes{5, 6, 0, 3},
        LayerHalfSizes{5, 6, 4, 0}, LayerHalfSizes{5, 6, 4, 3, 0}}) {
    LayerHalfCall<S> call(sizes);
    LayerHalfCall<S, float> wide(sizes);
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(wide.forward(), IOATTN_OK);
    ASSERT_EQ(wide.backward(), IOATTN_OK) << ioattn_last_error();
    const bool empty = sizes.n * sizes.m * sizes.d * sizes.dv == 0;
    for (std::size_t k = 0; k < call.out.size() && empty; ++k) {
      for (const S value : call.out[k]) EXPECT_EQ(value.bits, 0) << gradient_names[k];
      for (const float value : wide.out[k]) EXPECT_EQ(value, 0) << gradient_names[k];
    }
    for (const S value : call.o) EXPECT_EQ(value.bits == 0, sizes.m == 0 || sizes.d == 0);
    for (const float value : call.lse) {
      if (sizes.m == 0) {
        EXPECT_EQ(value, -HUGE_VALF);
      } else {
        EXPECT_TRUE(std::isfinite(value));
      }
    }
  }
}

// NaN in a query makes its rows NaN, hidden keys show nowhere.
TYPED_TEST(LayerHalfCalls, NaNsStayWhereTheyBelong) {
  using S = typename TypeParam::S;
  const LayerHalfSizes sizes = {20, 20, 8, 6};
  LayerHalfCall<S> clean(sizes), call(sizes);
  for (LayerHalfCall<S>* each : {&clean, &call}) each->problem.mask = IOATTN_MASK_CAUSAL_TOP_LEFT;
  for (std::size_t l = 0; l < 8; ++l) {
    call.a1[2 * 8 + l] = element<S>(std::nanf(""));  // query 2
    call.a2[15 * 8 + l] = element<S>(HUGE_VALF);     // key 15, of queries 15 on
    call.a3[15 * 8 + l] = element<S>(std::nanf(""));
  }
  ASSERT_EQ(clean.forward(), IOATTN_OK);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t l = 0; l < 6; ++l) {
      const float x = number(call.o[i * 6 + l]);
      if (i == 2 || i >= 15) {
        EXPECT_TRUE(std::isnan(x)) << i;
      } else {
        EXPECT_EQ(x, number(clean.o[i * 6 + l])) << i;
      }
    }
  }
}

TEST(LayerHalf, GradientsBeyondF16AreInfinite) {
  const LayerHalfSizes sizes = {200, 100, 8, 8};
  LayerHalfCall<ioattn_f16> call(sizes, 3);
  LayerHalfCall<ioattn_f16, float> wide(sizes, 3);
  const auto enlarge = [](std::vector<ioattn_f16>* values) {
    for (ioattn_f16& x : *values) x = element<ioattn_f16>(10000 * number(x));
  };
  enlarge(&call.d_o);
  enlarge(&wide.d_o);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  ASSERT_EQ(wide.forward(), IOATTN_OK);
  ASSERT_EQ(wide.backward(), IOATTN_OK);
  int infinite = 0;
  for (std::size_t k = 0; k < call.out.size(); ++k) {
    for (std::size_t i = 0; i < call.out[k].size(); ++i) {
      const float x = number(call.out[k][i]), exact = wide.out[k][i];
      EXPECT_EQ(std::isinf(x), std::abs(exact) >= 65520) << gradient_names[k] << " " << exact;
      EXPECT_TRUE(std::isfinite(exact));
      infinite += std::isinf(x);
    }
  }
  EXPECT_GT(infinite, 0);
}

TYPED_TEST(LayerHalfCalls, FromCpp) {
  using S = typename TypeParam::S;
  const LayerHalfSizes sizes = {30, 20, 8, 6};
  LayerHalfCall<S> c(sizes), cpp(sizes);
  LayerHalfCall<S, float> wide(sizes), cpp_wide(sizes);
  ASSERT_EQ(c.forward(), IOATTN_OK);
  ASSERT_EQ(c.backward(), IOATTN_OK);
  ASSERT_EQ(wide.forward(), IOATTN_OK);
  ASSERT_EQ(wide.backward(), IOATTN_OK);
  const auto run = [&](auto* call, auto gradient) {
    using G = decltype(gradient);
    ioattn::Layer<S> layer;
    layer.a1 = {call->a1.data(), 30, 8};
    layer.a2 = {call->a2.data(), 20, 8};
    layer.a3 = {call->a3.data(), 20, 8};
    layer.x = {call->x.data(), 8, 8};
    layer.y = {call->y.data(), 8, 6};
    layer.scale = call->problem.scale;
    ioattn::forward<S>(layer, {call->o.data(), 30, 6}, call->lse.data());
    ioattn::LayerGradients<G, S> out;
    out.dx = {call->out[0].data(), 8, 8};
    out.dy = {call->out[1].data(), 8, 6};
    out.da1 = {call->out[2].data(), 30, 8};
    out.da2 = {call->out[3].data(), 20, 8};
    out.da3 = {call->out[4].data(), 20, 8};
    out.dw_q = {call->out[5].data(), 8, 3};
    out.dw_k = {call->out[6].data(), 8, 3};
    out.w_q = {call->w_q.data(), 8, 3};
    out.w_k = {call->w_k.data(), 8, 3};
    ioattn::LayerPlan<S>::backward(layer, out)
        .execute_backward(layer, {call->d_o.data(), 30, 6}, {call->o.data(), 30, 6},
                          call->lse.data(), out);
  };
  run(&cpp, S{});
  run(&cpp_wide, float());
  EXPECT_TRUE(cpp.same_results(c));
  EXPECT_TRUE(cpp_wide.same_results(wide));
}

}  // namespace
}  // namespace ioattn_test
