#pragma once

#include <cmath>
#include <random>

#include "base/problem.hpp"
#include "base/schedule.hpp"

namespace ioattn_test {

// Seeded sizes for sweeps: ragged, tiny and lopsided shapes.
class RandomProblem {
 public:
  explicit RandomProblem(unsigned seed) : engine_(seed) {}

  ioattn::index_t uniform(ioattn::index_t low, ioattn::index_t high) {
    return std::uniform_int_distribution<ioattn::index_t>(low, high)(engine_);
  }
  // Uniform in the logarithm.
  ioattn::index_t logarithmic(ioattn::index_t low, ioattn::index_t high) {
    std::uniform_real_distribution<double> exponent(std::log(static_cast<double>(low)),
                                                    std::log(static_cast<double>(high) + 1));
    return std::min(high, static_cast<ioattn::index_t>(std::exp(exponent(engine_))));
  }

  ioattn::LayerShape shape(ioattn::index_t most_rows, ioattn::index_t most_cols) {
    using ioattn::Tie;
    ioattn::LayerShape shape;
    shape.n = logarithmic(1, most_rows);
    shape.m = logarithmic(1, most_rows);
    shape.d = logarithmic(1, most_cols);
    shape.dv = uniform(0, 2) == 0 ? shape.d : logarithmic(1, most_cols);
    shape.tie = static_cast<Tie>(uniform(0, 2));
    if (shape.tie == Tie::all) shape.m = shape.n;
    return shape;
  }

  // A band that shows at least one key to at least one query.
  ioattn::Mask mask(ioattn::index_t n, ioattn::index_t m) {
    using ioattn::Mask;
    for (;;) {
      Mask mask;
      switch (uniform(0, 3)) {
        case 0: mask = ioattn::causal_top_left(); break;
        case 1: mask = ioattn::causal_bottom_right(n, m); break;
        case 2: mask.first = uniform(-n, m); break;
        default: mask.first = uniform(-n, m), mask.last = mask.first + logarithmic(1, n + m) - 1;
      }
      if (mask.hides() && visible_pairs(mask, n, m) > 0) return mask;
    }
  }

  std::mt19937& engine() { return engine_; }

 private:
  std::mt19937 engine_;
};

// One block of keys of tile_fused in two is of several shares.
inline void divide_keys(RandomProblem* random, ioattn::Blocks* keys) {
  if (random->uniform(0, 1) == 0) return;
  keys->share = 2 * random->uniform(1, 8);
  keys->c = keys->share * random->uniform(1, 5);
}

}  // namespace ioattn_test
