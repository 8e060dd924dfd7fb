#pragma once

#include <cmath>
#include <random>

#include "base/problem.hpp"
#include "base/schedule.hpp"

namespace ioattn_test {

using ioattn::Blocks;
using ioattn::Form;
using ioattn::index_t;
using ioattn::LayerShape;
using ioattn::Mask;
using ioattn::ProductBlocks;
using ioattn::Products;

// Shapes, masks and blocks for sweeps over formulas.
class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(seed) {}

  index_t below(index_t limit) { return index_t(generator_() % std::uint64_t(limit)); }
  bool coin() { return below(2) == 1; }
  index_t log_uniform(index_t low, index_t high) {
    const double u = double(generator_() >> 11) * 0x1p-53;
    return std::llround(double(low) * std::exp(u * std::log(double(high) / double(low))));
  }
  // Aspect ratios to 5000 either way.
  LayerShape shape() {
    LayerShape shape;
    switch (below(5)) {
      case 0: shape = {log_uniform(1, 5000), log_uniform(1, 5000), log_uniform(1, 600)}; break;
      case 1: shape.n = shape.m = log_uniform(200, 20000), shape.d = log_uniform(1, 64); break;
      case 2: shape = {log_uniform(1, 4), log_uniform(500, 20000), log_uniform(1, 200)}; break;
      case 3: shape = {log_uniform(500, 20000), log_uniform(1, 4), log_uniform(1, 200)}; break;
      default: shape = {log_uniform(1, 40), log_uniform(1, 40), log_uniform(1, 2000)};
    }
    shape.dv = below(3) > 0 ? shape.d : log_uniform(1, 4 * shape.d);
    return shape;
  }
  Mask mask(const LayerShape& shape) {
    switch (below(4)) {
      case 0: return ioattn::causal_top_left();
      case 1: return ioattn::causal_bottom_right(shape.n, shape.m);
      case 2: return ioattn::window(0, log_uniform(1, shape.m) - 1, log_uniform(1, shape.m) - 1);
      default: return ioattn::window(shape.m - shape.n, log_uniform(1, shape.m), -1);
    }
  }
  index_t block(index_t size) { return below(4) == 0 ? 1 : log_uniform(1, size); }
  ProductBlocks product(index_t rows, index_t cols) {
    return {block(rows), block(cols), block(16), false};
  }
  // Of every schedule.
  Blocks blocks(const LayerShape& shape, Form form, Products products) {
    const auto [n, m, d, e, tie, mask] = shape;
    Blocks blocks;
    blocks.r = block(n);
    blocks.c = block(m);
    blocks.rho = block(n);
    blocks.w = block(d);
    blocks.o = blocks.a = blocks.b = 1;
    blocks.form = form;
    blocks.products = products;
    blocks.s = product(n, d);
    blocks.g = product(n, d);
    blocks.h = product(m, e);
    blocks.f = product(n, m);
    blocks.q = product(n, m);
    blocks.u = product(n, d);
    blocks.x = product(d, d);
    return blocks;
  }

 private:
  std::mt19937_64 generator_;
};

}  // namespace ioattn_test
