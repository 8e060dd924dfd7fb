#pragma once

#include "base/sdpa.hpp"
#include "schedules/random_problem.hpp"

// Seeded problems of SDPA and sets of their gradients.
namespace ioattn_test {

inline ioattn::SdpaShape random_shape(RandomProblem* random, ioattn::index_t most_rows,
                                      ioattn::index_t most_cols) {
  const ioattn::LayerShape sizes = random->shape(most_rows, most_cols);
  ioattn::SdpaShape shape;
  shape.batch = random->uniform(1, 2);
  shape.kv_heads = random->uniform(1, 2);
  shape.heads = shape.kv_heads * random->uniform(1, 3);
  shape.n = sizes.n;
  shape.m = sizes.m;
  shape.d = sizes.d;
  shape.dv = sizes.dv;
  if (random->uniform(0, 1) == 1) shape.mask = random->mask(shape.n, shape.m);
  return shape;
}

inline ioattn::SdpaSet random_set(RandomProblem* random) {
  const ioattn::index_t bits = random->uniform(1, 7);
  return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, random->uniform(0, 1) == 1};
}

// A bias for every third shape; its gradient is wanted, too, or alone.
inline void add_random_bias(RandomProblem* random, ioattn::SdpaShape* shape, ioattn::SdpaSet* set) {
  if (random->uniform(0, 2) != 0) return;
  shape->bias_batch = random->uniform(0, 1) == 1 ? shape->batch : 1;
  shape->bias_heads = random->uniform(0, 1) == 1 ? shape->heads : 1;
  set->dBias = random->uniform(0, 2) != 0;
  if (set->dBias && random->uniform(0, 5) == 0) set->dQ = set->dK = set->dV = false;
}

// Blocks that no planner chose.
inline ioattn::SdpaBlocks any_blocks(RandomProblem* random) {
  using ioattn::Blocks;
  ioattn::SdpaBlocks any;
  any.rows.form = any.keys.form = ioattn::Form::h;
  any.rows.products = ioattn::Products::stored;
  for (ioattn::index_t Blocks::*size :
       {&Blocks::r, &Blocks::c, &Blocks::rho, &Blocks::w, &Blocks::o})
    any.rows.*size = random->logarithmic(1, 40);
  any.rows.rho = std::min(any.rows.rho, any.rows.r);
  any.rows.r = ioattn::round_up(any.rows.r, any.rows.rho);
  any.keys.c = random->logarithmic(1, 40);
  any.keys.rho = random->logarithmic(1, 40);
  any.keys.one_pass = random->uniform(0, 1) == 1;
  if (random->uniform(0, 1) == 1) {
    any.by_keys = ioattn::Schedule::tile_fused;
    any.keys.packed = random->uniform(0, 1) == 1;
    any.keys.parked = random->uniform(0, 2) == 0;
    any.keys.w = random->logarithmic(1, 40);
    divide_keys(random, &any.keys);
  }
  return any;
}

}  // namespace ioattn_test
