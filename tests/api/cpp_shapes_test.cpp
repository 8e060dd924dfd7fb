// The C++ wrappers know the shapes of what they are given: one that does not fit the others is
// refused, and nothing is written.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "ioattn/ioattn.hpp"

namespace ioattn_test {
namespace {

using Matrix = ioattn::Matrix<float>;
using Tensor = ioattn::Tensor<float>;
using Values = std::vector<float>;
using Calls = std::vector<std::function<void()>>;

constexpr std::int64_t n = 5, m = 7, d = 4, dv = 3, dk = 2, batch = 2, heads = 4, kv_heads = 2;
constexpr float untouched = 0.5F;

Values values(std::int64_t count) {
  Values list(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = float(i % 7) / 8 - 0.25F;
  return list;
}
// Outputs, with room for a row and a column more.
struct Room {
  std::vector<Values> outputs;

  float* next(std::int64_t count) {
    outputs.reserve(32);
    outputs.emplace_back(static_cast<std::size_t>(2 * count + 32), untouched);
    return outputs.back().data();
  }
  void clear() {
    for (Values& output : outputs) output.assign(output.size(), untouched);
  }
  bool is_untouched() const {
    for (const Values& output : outputs)
      for (const float value : output)
        if (value != untouched) return false;
    return true;
  }
};

// Each size of the view off by one makes each of the calls fail.
template <class View>
void expect_refused(const char* name, View* view, const std::vector<std::int64_t View::*>& sizes,
                    const Calls& calls, Room* room) {
  for (const auto& call : calls) ASSERT_NO_THROW(call()) << name;
  room->clear();
  for (const auto size : sizes) {
    for (const std::int64_t change : {-1, 1}) {
      view->*size += change;
      for (const auto& call : calls) EXPECT_THROW(call(), std::invalid_argument) << name;
      view->*size -= change;
    }
  }
  EXPECT_TRUE(room->is_untouched()) << name;
}

TEST(CppShapes, OfTheLayerProblem) {
  const Values a1 = values(n * d), a2 = values(m * d), x = values(d * d), y = values(d * dv);
  const Values weights = values(d * dk), d_o_values = values(n * dv);
  ioattn::Layer<float> layer;
  layer.a1 = {a1.data(), n, d};
  layer.a2 = layer.a3 = {a2.data(), m, d};
  layer.x = {x.data(), d, d};
  layer.y = {y.data(), d, dv};
  Room room;
  Matrix o = {room.next(n * dv), n, dv};
  float* const lse = room.next(n);
  ioattn::Matrix<const float> d_o = {d_o_values.data(), n, dv}, no_o;
  ioattn::LayerGradients<float> g;
  g.dx = {room.next(d * d), d, d};
  g.dy = {room.next(d * dv), d, dv};
  g.da1 = {room.next(n * d), n, d};
  g.da2 = {room.next(m * d), m, d};
  g.da3 = {room.next(m * d), m, d};
  g.da = {room.next(m * d), m, d};
  g.dw_q = {room.next(d * dk), d, dk};
  g.dw_k = {room.next(d * dk), d, dk};
  g.w_q = g.w_k = {weights.data(), d, dk};

  const auto forward_plan = ioattn::LayerPlan<float>::forward(layer);
  const auto plan = ioattn::LayerPlan<float>::backward(layer, g);
  const Calls forward = {[&] { ioattn::forward(layer, o, lse); },
                         [&] { forward_plan.execute_forward(layer, o, lse); }};
  // Without O and LSE, which are computed then; and with those of before.
  const Calls backward = {[&] { ioattn::backward<float>(layer, d_o, no_o, nullptr, g); }};
  const Calls with_o = {[&] { ioattn::backward(layer, d_o, o, lse, g); },
                        [&] { plan.execute_backward(layer, d_o, o, lse, g); }};
  const auto refused = [&](const char* name, auto* view, const Calls& calls) {
    using View = std::remove_pointer_t<decltype(view)>;
    expect_refused<View>(name, view, {&View::rows, &View::cols}, calls, &room);
  };
  refused("O", &o, forward);
  refused("O of before", &o, with_o);
  refused("dO", &d_o, backward);
  refused("dO", &d_o, with_o);
  for (Matrix* gradient : {&g.dx, &g.dy, &g.da1, &g.da2, &g.da3, &g.da, &g.dw_q, &g.dw_k}) {
    refused("a gradient", gradient, backward);
    refused("a gradient", gradient, with_o);
  }
  refused("W_Q", &g.w_q, backward);
  refused("W_K", &g.w_k, backward);
}

TEST(CppShapes, OfSdpa) {
  const Values q = values(batch * heads * n * d), k = values(batch * kv_heads * m * d);
  const Values v = values(batch * kv_heads * m * dv), d_o_values = values(batch * heads * n * dv);
  const Values bias = values(heads * n * m);
  ioattn::Sdpa<float> sdpa;
  sdpa.q = {q.data(), batch, heads, n, d};
  sdpa.k = {k.data(), batch, kv_heads, m, d};
  sdpa.v = {v.data(), batch, kv_heads, m, dv};
  sdpa.bias = {bias.data(), 1, heads, n, m};
  Room room;
  Tensor o(room.next(batch * heads * n * dv), batch, heads, n, dv);
  Tensor lse(room.next(batch * heads * n), batch, heads, 1, n);
  Tensor merged_o(room.next(batch * heads * n * dv), batch, heads, n, dv);
  Tensor merged_lse(room.next(batch * heads * n), batch, heads, 1, n);
  ioattn::Tensor<const float> d_o(d_o_values.data(), batch, heads, n, dv);
  ioattn::SdpaGradients<float> g;
  g.dq = {room.next(batch * heads * n * d), batch, heads, n, d};
  g.dk = {room.next(batch * kv_heads * m * d), batch, kv_heads, m, d};
  g.dv = {room.next(batch * kv_heads * m * dv), batch, kv_heads, m, dv};
  g.dbias = {room.next(heads * n * m), 1, heads, n, m};

  const auto forward_plan = ioattn::SdpaPlan<float>::forward(sdpa);
  const auto plan = ioattn::SdpaPlan<float>::backward(sdpa, g);
  const Calls forward = {[&] { ioattn::forward(sdpa, o, lse); },
                         [&] { forward_plan.execute_forward(sdpa, o, lse); }};
  const Calls backward = {[&] { ioattn::backward(sdpa, d_o, o, lse, g); },
                          [&] { plan.execute_backward(sdpa, d_o, o, lse, g); }};
  const Calls merge = {[&] { ioattn::merge<float>({{o, lse}, {o, lse}}, merged_o, merged_lse); }};
  const auto refused = [&](const char* name, auto* view, const Calls& calls) {
    using View = std::remove_pointer_t<decltype(view)>;
    expect_refused<View>(name, view, {&View::batch, &View::heads, &View::rows, &View::cols}, calls,
                         &room);
  };
  for (const Calls& calls : {forward, backward, merge}) {
    refused("O", &o, calls);
    refused("LSE", &lse, calls);
  }
  refused("dO", &d_o, backward);
  for (Tensor* gradient : {&g.dq, &g.dk, &g.dv, &g.dbias})
    refused("a gradient", gradient, backward);
  refused("merged O", &merged_o, merge);
  refused("merged LSE", &merged_lse, merge);
}

// What is not wanted has no shape.
TEST(CppShapes, OfNothing) {
  const Values q = values(n * d), k = values(m * d), v = values(m * dv);
  ioattn::Sdpa<float> sdpa;
  sdpa.q = {q.data(), 1, 1, n, d};
  sdpa.k = {k.data(), 1, 1, m, d};
  sdpa.v = {v.data(), 1, 1, m, dv};
  Room room;
  const Tensor o(room.next(n * dv), 1, 1, n, dv), lse(room.next(n), 1, 1, 1, n);
  const Tensor merged(room.next(n), 1, 1, 1, n);
  EXPECT_NO_THROW(ioattn::forward<float>(sdpa, o, {}));
  EXPECT_NO_THROW(ioattn::forward<float>(sdpa, {}, lse));
  EXPECT_NO_THROW(ioattn::merge<float>({{o, lse}}, {}, merged));
}

// A2 by its fields and A3 by its constructor are one memory: dA, their sum, is of both.
TEST(CppShapes, AStrideLeftOpenIsThatOfTheColumns) {
  Values keys = values(n * d), x = values(d * d), y = values(d * dv), d_o = values(n * dv);
  Values o(d_o.size()), lse(n), d_a(keys.size()), planned(keys.size());
  ioattn::Layer<float> layer;
  layer.a1.data = layer.a2.data = keys.data();
  layer.a1.rows = layer.a2.rows = n;
  layer.a1.cols = layer.a2.cols = d;
  layer.a3 = {keys.data(), n, d};
  layer.x = {x.data(), d, d};
  layer.y = {y.data(), d, dv};
  ioattn::forward<float>(layer, {o.data(), n, dv}, lse.data());
  ioattn::LayerGradients<float, float> gradients;
  gradients.da = {d_a.data(), n, d};
  ioattn::backward<float>(layer, {d_o.data(), n, dv}, {o.data(), n, dv}, lse.data(), gradients);
  gradients.da = {planned.data(), n, d};
  const auto plan = ioattn::LayerPlan<float>::backward(layer, gradients);
  plan.execute_backward(layer, {d_o.data(), n, dv}, {o.data(), n, dv}, lse.data(), gradients);
  EXPECT_EQ(planned, d_a);
}

}  // namespace
}  // namespace ioattn_test
