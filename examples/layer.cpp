// The same from C++: strided matrices, gradients by a plan that is executed twice.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ioattn/ioattn.hpp>
#include <vector>

int main() {
  const std::int64_t n = 512, m = 300, d = 64, dv = 32, stride = 80;
  const auto numbers = [](std::int64_t count, double value) {
    return std::vector<double>(static_cast<std::size_t>(count), value);
  };
  const auto a1 = numbers(n * stride, 0.01), a2 = numbers(m * stride, 0.02);
  const auto a3 = numbers(m * stride, 0.03), x = numbers(d * d, 0.01), y = numbers(d * dv, 0.5);
  const auto d_o = numbers(n * dv, 1);
  auto o = numbers(n * dv, 0), lse = numbers(n, 0), dx = numbers(d * d, 0), dy = numbers(d * dv, 0);

  ioattn::Layer<double> layer;
  layer.a1 = {a1.data(), n, d, stride};
  layer.a2 = {a2.data(), m, d, stride};
  layer.a3 = {a3.data(), m, d, stride};
  layer.x = {x.data(), d, d};
  layer.y = {y.data(), d, dv};

  ioattn::Options options;
  options.threads = 2;          // any number gives the same bits
  options.fast_memory = 40000;  // plan for a cache of 40000 doubles
  ioattn::forward<double>(layer, {o.data(), n, dv}, lse.data(), options);

  ioattn::LayerGradients<double> gradients;  // those that have memory are computed
  gradients.dx = {dx.data(), d, d};
  gradients.dy = {dy.data(), d, dv};
  const auto plan = ioattn::LayerPlan<double>::backward(layer, gradients, options);
  std::vector<unsigned char> workspace(plan.workspace_size());
  for (int step = 0; step < 2; ++step) {
    plan.execute_backward(layer, {d_o.data(), n, dv}, {o.data(), n, dv}, lse.data(), gradients,
                          workspace.data(), workspace.size());
  }
  std::printf("%s\nO[0][0] = %.6f, LSE[0] = %.6f, dY[0][0] = %.6f\n", plan.text().c_str(), o[0],
              lse[0], dy[0]);
  try {
    ioattn::cache(4);
    return 1;  // no machine has one
  } catch (const ioattn::Error& error) {
    std::printf("%s\n", error.what());
  }
  // Equal keys: f = 1 / m, so dY = A3^T f^T dO has n * 0.03 everywhere.
  const bool right = o[0] > 0.959999 && o[0] < 0.960001 && dy[0] > 15.359999 && dy[0] < 15.360001;
  return right ? 0 : 1;
}
