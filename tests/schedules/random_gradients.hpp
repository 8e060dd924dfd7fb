#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "instruments/io_counter.hpp"
#include "plan/layer/gradient_planner.hpp"
#include "schedules/gradient_case.hpp"
#include "schedules/random_problem.hpp"
#include "theory/gradients_cost.hpp"

// Seeded sets of gradients and blocks for them, and counts of theirs held against the formulas.
namespace ioattn_test {

inline ioattn::GradientSet random_set(RandomProblem* random, ioattn::Tie tie, ioattn::index_t dk) {
  ioattn::GradientSet set;
  do {
    const ioattn::index_t bits = random->uniform(1, 255);
    set.dX = (bits & 1) != 0;
    set.dY = (bits & 2) != 0;
    set.dA1 = (bits & 4) != 0;
    set.dA2 = (bits & 8) != 0;
    set.dA3 = (bits & 16) != 0;
    set.dA = (bits & 32) != 0 && tie != ioattn::Tie::none;
    set.dW_Q = (bits & 64) != 0;
    set.dW_K = (bits & 128) != 0;
    // A sum without its parts, and few outputs, are the usual sets.
    if (set.dA && random->uniform(0, 2) > 0) set.dA1 = set.dA2 = set.dA3 = false;
    if (random->uniform(0, 2) == 0) set.dX = set.dY = set.dW_Q = set.dW_K = false;
    if (random->uniform(0, 5) == 0) set.dY = set.dA1 = set.dA2 = set.dA3 = set.dA = false;
    set.dk = set.dW_Q || set.dW_K ? dk : 0;
  } while (describe(set).empty());
  return set;
}

inline ioattn::plan::LayerRequest request_for(const ioattn::LayerShape& shape, ioattn::index_t M,
                                              const ioattn::TileShape& tile) {
  ioattn::plan::LayerRequest request;
  request.problem.shape = shape;
  request.M = M;
  request.level = "M";
  request.tile = tile;
  return request;
}

// The least M of a set, from the refusal of one word.
inline ioattn::index_t least_M(ioattn::plan::LayerRequest request, const ioattn::GradientSet& set) {
  request.M = 1;
  ioattn::plan::LayerPlan plan;
  const std::string message = ioattn::plan::make_gradient_plan(request, set, &plan).message();
  const std::string key = "the least is ";
  const std::size_t at = message.find(key);
  EXPECT_NE(at, std::string::npos) << message;
  return at == std::string::npos ? 1 : std::stoll(message.substr(at + key.size()));
}

// What was counted, phase by phase.
inline void hold_to_formula(const ioattn::instruments::IoCounter& counter,
                            const ioattn::theory::ScheduleCost& cost, bool masked) {
  ASSERT_EQ(counter.violation(), "");
  ASSERT_EQ(static_cast<int>(counter.phases().size()), cost.phase_count);
  for (int i = 0; i < cost.phase_count; ++i) {
    const auto& counted = counter.phases()[static_cast<std::size_t>(i)];
    const ioattn::theory::PhaseCost& formula = cost.phases[static_cast<std::size_t>(i)];
    ASSERT_STREQ(counted.name, formula.name);
    ASSERT_EQ(counted.count.reads, formula.cost.reads) << formula.name;
    ASSERT_EQ(counted.count.writes, formula.cost.writes) << formula.name;
    ASSERT_EQ(counted.count.created, formula.cost.created) << formula.name;
    // Under a mask the formula of the footprint is an upper bound.
    ASSERT_LE(counted.count.footprint, formula.cost.footprint) << formula.name;
    if (masked) continue;
    ASSERT_EQ(counted.count.footprint, formula.cost.footprint) << formula.name;
  }
}

inline ioattn::ProductBlocks any_product(RandomProblem* random) {
  return {random->logarithmic(1, 40), random->logarithmic(1, 40), random->logarithmic(1, 40),
          random->uniform(0, 1) == 1};
}

// Blocks of a pass by tiles between thin products that are stored.
inline void make_tiles(RandomProblem* random, ioattn::Blocks* blocks) {
  blocks->form = ioattn::Form::h;
  blocks->products = ioattn::Products::stored;
  blocks->r = 0;
  blocks->w = random->logarithmic(1, 20);
  divide_keys(random, blocks);
}

// Blocks of any size, in either form, of any schedule.
inline ioattn::LayerBlocks any_blocks(RandomProblem* random, const ioattn::LayerShape& shape,
                                      const ioattn::GradientSet& set, bool may_be_tiles = false) {
  ioattn::LayerBlocks any;
  if (!shape.mask.hides()) {
    any.schedule = std::array{ioattn::Schedule::row_stream, ioattn::Schedule::q_stored,
                              ioattn::Schedule::half_dim}[std::size_t(random->uniform(0, 2))];
  }
  const ioattn::Form form =
      set.dY || random->uniform(0, 1) == 0 ? ioattn::Form::h : ioattn::Form::g;
  const ioattn::GradientSteps steps = ioattn::steps_of(set, shape.tie, form);
  any.rows.form = any.keys.form = form;
  const bool may_fuse = steps.alone && any.schedule != ioattn::Schedule::half_dim;
  any.rows.products =
      may_fuse && random->uniform(0, 1) == 1 ? ioattn::Products::fused : ioattn::Products::stored;
  for (ioattn::index_t ioattn::Blocks::*size :
       {&ioattn::Blocks::r, &ioattn::Blocks::c, &ioattn::Blocks::rho, &ioattn::Blocks::w,
        &ioattn::Blocks::o, &ioattn::Blocks::a, &ioattn::Blocks::b})
    any.rows.*size = random->logarithmic(1, 40);
  any.rows.rho = std::min(any.rows.rho, any.rows.r);
  any.rows.r = ioattn::round_up(any.rows.r, any.rows.rho);
  for (ioattn::ProductBlocks ioattn::Blocks::*product :
       {&ioattn::Blocks::s, &ioattn::Blocks::g, &ioattn::Blocks::h, &ioattn::Blocks::x,
        &ioattn::Blocks::f, &ioattn::Blocks::q, &ioattn::Blocks::u})
    any.rows.*product = any_product(random);
  any.keys.c = random->logarithmic(1, 40);
  any.keys.rho = random->logarithmic(1, 40);
  const bool by_tiles =
      may_be_tiles && form == ioattn::Form::h && !steps.alone && random->uniform(0, 1) == 1;
  if (by_tiles) {
    any.by_keys = ioattn::Schedule::tile_fused;
    any.keys.w = random->logarithmic(1, 20);
    any.keys.parked = random->uniform(0, 2) == 0;
    divide_keys(random, &any.keys);
  }
  any.keys.one_pass = steps.rows && (steps.keys || by_tiles) &&
                      any.schedule == ioattn::Schedule::row_stream && random->uniform(0, 1) == 1;
  for (ioattn::ProductBlocks* product : {&any.da1, &any.da3, &any.dy, &any.dw})
    *product = any_product(random);
  any.sum = random->logarithmic(1, 20);
  return any;
}

// The same blocks for products of pairs, which make U on the way or dX by a pass of their own.
inline void make_tiles_of_pairs(RandomProblem* random, ioattn::Tie tie,
                                const ioattn::GradientSet& set, ioattn::LayerBlocks* blocks) {
  const ioattn::GradientSteps steps = ioattn::steps_of(set, tie, ioattn::Form::h);
  blocks->schedule = ioattn::Schedule::row_stream;
  blocks->rows.form = ioattn::Form::h;
  blocks->rows.products = ioattn::Products::stored;
  ioattn::Blocks* const tiles = steps.alone ? &blocks->rows : &blocks->keys;
  (steps.alone ? blocks->schedule : blocks->by_keys) = ioattn::Schedule::tile_fused;
  make_tiles(random, tiles);
  tiles->packed = random->uniform(0, 1) == 1;
  blocks->keys.one_pass = !steps.alone && steps.rows;
}

}  // namespace ioattn_test
