// Sets of gradients: every phase costs its formula, every gradient of every subset is the oracle's,
// and threads change no bit.

#include "schedules/layer/layer_gradients.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "schedules/gradient_case.hpp"
#include "schedules/random_gradients.hpp"
#include "schedules/tables.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"
#include "theory/gradients_cost.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
namespace ref = ioattn_reference;

void check_counts(const GradientCase<float>& problem, const GradientSet& set,
                  const LayerBlocks& blocks, index_t M) {
  instruments::IoCounter counter;
  problem.run(set, blocks, odd_tile<float>(), 1, &counter);
  const LayerShape shape = problem.shape();
  hold_to_formula(counter,
                  theory::gradients_cost(shape, set, blocks, {1, problem.inputs().scale != 1}),
                  shape.mask.hides());
  ASSERT_LE(counter.total().footprint, M);
}

// Every other case has a mask, every third a scale.
ref::LayerInputs<double> make_inputs(RandomProblem* random, ref::Kind kind,
                                     const ref::CaseShape& size, std::uint64_t seed) {
  ref::LayerInputs<double> inputs = ref::make_case(kind, size, seed);
  if (seed % 2 == 1) {
    const Mask mask = random->mask(index_t(size.n), index_t(size.m));
    if (mask.first > -Mask::unbounded) inputs.first_key = mask.first;
    if (mask.last < Mask::unbounded) inputs.last_key = mask.last;
  }
  if (seed % 3 == 1) inputs.scale = seed % 2 == 0 ? 0.125 : -0.7;
  return inputs;
}

TEST(LayerGradients, CountsAreTheSumsOverThePhases) {
  RandomProblem random(60);
  int planned = 0, alone = 0, sums = 0, outer = 0, one_pass = 0;
  int tiles = 0, u_alone = 0, any_by_tiles = 0;
  std::array<int, 2> forms = {};
  std::map<Schedule, int> schedules;
  while (planned < 2400 && !testing::Test::HasFailure()) {
    const LayerShape sizes = random.shape(30, 12);
    const index_t dk = random.logarithmic(1, 9);
    const ref::Ties ties = static_cast<ref::Ties>(sizes.tie);
    const GradientCase<float> problem(
        make_inputs(&random, ref::Kind::normal,
                    {std::size_t(sizes.n), std::size_t(sizes.m), std::size_t(sizes.d),
                     std::size_t(sizes.dv), ties},
                    std::uint64_t(planned / 6)),
        ties, dk, 0);
    const LayerShape shape = problem.shape();
    for (int trial = 0; trial < 6; ++trial, ++planned) {
      const GradientSet set = random_set(&random, shape.tie, dk);
      plan::LayerRequest request = request_for(shape, 1, odd_tile<float>().tile);
      // Room for scores in memory.
      if (random.uniform(0, 1) == 1) request.memory_limit_bytes = index_t(1) << 40;
      if (trial == 5 && !shape.mask.hides()) {
        request.schedule = std::array{Schedule::row_stream, Schedule::q_stored,
                                      Schedule::half_dim}[std::size_t(random.uniform(0, 2))];
      }
      const index_t least = least_M(request, set);
      request.M = random.uniform(0, 3) == 0 ? least : random.logarithmic(least, 60 * least);
      request.outer_M = random.uniform(0, 1) * random.logarithmic(1, 20) * request.M;
      SCOPED_TRACE(to_text(LayerProblem{shape, DType::f32}) + " " + describe(set) +
                   " M=" + std::to_string(request.M));
      plan::LayerPlan plan;
      plan::Estimate estimate;
      ASSERT_OK(plan::make_gradient_plan(request, set, &plan, &estimate));
      const bool is_outer = plan.level == "L3";
      ASSERT_EQ(estimate.M, is_outer ? request.outer_M : request.M);
      check_counts(problem, set, plan.blocks, estimate.M);
      ASSERT_EQ(estimate.cost.total(), theory::gradients_cost(shape, set, plan.blocks).total());
      request.M = least - 1;
      plan::LayerPlan none;
      ASSERT_EQ(plan::make_gradient_plan(request, set, &none).code(),
                StatusCode::fast_memory_too_small);
      const GradientSteps steps = steps_of(set, shape.tie, plan.blocks.rows.form);
      alone += steps.alone;
      sums += steps.one_sum;
      ++forms[std::size_t(plan.blocks.rows.form)];
      if (steps.alone) continue;
      outer += is_outer;
      const bool by_tiles = plan.blocks.by_keys == Schedule::tile_fused;
      (by_tiles ? tiles : one_pass) += plan.blocks.keys.one_pass;
      u_alone += by_tiles && !steps.keys;
      if (has_row_pass(steps, plan.blocks)) ++schedules[plan.blocks.schedule];

      // Blocks of any size, in either form, of any schedule.
      const LayerBlocks any = any_blocks(&random, shape, set, true);
      if (has_key_pass(steps_of(set, shape.tie, any.rows.form), any))
        any_by_tiles += any.by_keys == Schedule::tile_fused;
      check_counts(problem, set, any, theory::gradients_cost(shape, set, any).total().footprint);
    }
  }
  EXPECT_GT(alone, 100);
  EXPECT_GT(sums, 100);
  EXPECT_GT(outer, 100);
  EXPECT_GT(one_pass, 200);
  EXPECT_GT(tiles, 100);
  EXPECT_GT(u_alone, 10);
  EXPECT_GT(any_by_tiles, 200);
  EXPECT_GT(forms[0], 100);
  EXPECT_GT(forms[1], 100);
  EXPECT_GT(schedules[Schedule::row_stream], 200);
  EXPECT_GT(schedules[Schedule::q_stored], 20);
  EXPECT_GT(schedules[Schedule::half_dim], 10);
}

template <class T>
class LayerGradientValues : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(LayerGradientValues, Types);

TYPED_TEST(LayerGradientValues, AreTheOraclesForEveryNumberOfThreads) {
  using T = TypeParam;
  const auto tables = tables_under_test<T>();
  const ref::CaseShape shapes[] = {{1, 1, 1, 1, ref::Ties::none},
                                   {19, 31, 13, 17, ref::Ties::none},
                                   {37, 21, 16, 5, ref::Ties::keys_values},
                                   {33, 33, 12, 12, ref::Ties::all},
                                   {110, 140, 40, 24, ref::Ties::keys_values}};
  RandomProblem random(61);
  std::uint64_t seed = 1;
  std::size_t cases = 0, accurate = 0;
  for (const ref::CaseShape& size : shapes) {
    for (const ref::Kind kind : ref::all_kinds) {
      if (size.n > 100 && kind != ref::Kind::normal && kind != ref::Kind::tiny) continue;
      const index_t dk = random.logarithmic(1, 20);
      ++seed;
      const GradientCase<T> problem(make_inputs(&random, kind, size, seed), size.ties, dk,
                                    index_t(seed % 3));
      const LayerShape shape = problem.shape();
      for (int trial = 0; trial < 5; ++trial) {
        const kernels::KernelTable<T>& table = *tables[(++cases + seed) % tables.size()];
        const GradientSet set = random_set(&random, shape.tie, dk);
        plan::LayerRequest request = request_for(shape, 1, table.tile);
        if (trial > 0) request.schedule = Schedule::row_stream;
        if (!shape.mask.hides() && trial > 1) {
          request.schedule = trial == 2 ? Schedule::q_stored : Schedule::half_dim;
        }
        if (trial == 4) request.schedule = Schedule::tile_fused;
        request.M = least_M(request, set) * (trial == 0 ? 1 : random.logarithmic(1, 200));
        plan::LayerPlan plan;
        ASSERT_OK(plan::make_gradient_plan(request, set, &plan));
        SCOPED_TRACE(to_text(LayerProblem{shape, dtype_of<T>::value}) + " " + describe(set) + " " +
                     ref::name_of(kind) + " M=" + std::to_string(request.M) + " " +
                     to_text(plan, set, shape.tie));
        const Gradients<T> one = problem.run(set, plan.blocks, table, 1, nullptr);
        const double allowed = limit(shape, set, plan.blocks);
        problem.check(one, allowed);
        if (kind == ref::Kind::normal && std::min(shape.n, shape.m) >= 16) {
          EXPECT_LE(problem.worst_relative_error(one),
                    ref::relative_limit * double(std::numeric_limits<T>::epsilon()) * allowed /
                        ref::pass_ratio);
          ++accurate;
        }
        for (const int threads : some_thread_counts(cases)) {
          const Gradients<T> other = problem.run(set, plan.blocks, table, threads, nullptr);
          for (const auto& [name, matrix] : one) {
            ASSERT_EQ(std::memcmp(matrix.values.data(), other.at(name).values.data(),
                                  matrix.values.size() * sizeof(T)),
                      0)
                << name << " with " << threads << " threads";
          }
        }
        if (this->HasFailure()) return;
      }
    }
  }
  EXPECT_GE(cases, 170u);
  EXPECT_GE(accurate, 12u);
}

GradientSet everything(index_t dk) { return {true, true, true, true, true, false, true, true, dk}; }

// The gradient by A1, A2, A3, Y against differences of the oracle's O, which share nothing with it.
TEST(LayerGradients, FiniteDifferences) {
  const ref::CaseShape size = {6, 7, 5, 3, ref::Ties::none};
  const ref::LayerInputs<double> inputs = ref::make_case(ref::Kind::normal, size, 9);
  const GradientCase<double> problem(inputs, size.ties, 2, 1);
  const GradientSet set = everything(2);
  plan::LayerRequest request = request_for(problem.shape(), 400, odd_tile<double>().tile);
  plan::LayerPlan plan;
  ASSERT_OK(plan::make_gradient_plan(request, set, &plan));
  const Gradients<double> out = problem.run(set, plan.blocks, odd_tile<double>(), 1, nullptr);
  using Inputs = ref::LayerInputs<long double>;
  for (const auto& [name, input] : {std::pair("dX", &Inputs::X),
                                    {"dY", &Inputs::Y},
                                    {"dA1", &Inputs::A1},
                                    {"dA2", &Inputs::A2},
                                    {"dA3", &Inputs::A3}}) {
    const ref::Matrix<long double> numeric =
        ref::finite_difference(ref::convert<long double>(inputs), input);
    const Padded<double>& got = out.at(name);
    for (index_t i = 0; i < got.rows; ++i)
      for (index_t j = 0; j < got.cols; ++j) {
        const double expected = double(numeric(std::size_t(i), std::size_t(j)));
        EXPECT_LE(std::abs(got.values[std::size_t(i * got.stride + j)] - expected),
                  1e-5 + 1e-3 * std::abs(expected))
            << name << " " << i << ", " << j;
      }
  }
}

// <dO, J V> = sum over inputs of <gradient, V> for a direction V of all inputs at once.
TEST(LayerGradients, AdjointOfTheTangent) {
  const ref::CaseShape size = {50, 37, 15, 9, ref::Ties::none};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const ref::LayerInputs<double> inputs = ref::make_case(ref::Kind::normal, size, seed);
    const GradientCase<double> problem(inputs, size.ties, 2, 0);
    const GradientSet set = everything(2);
    plan::LayerRequest request = request_for(problem.shape(), 3000, odd_tile<double>().tile);
    plan::LayerPlan plan;
    ASSERT_OK(plan::make_gradient_plan(request, set, &plan));
    const Gradients<double> out = problem.run(set, plan.blocks, odd_tile<double>(), 2, nullptr);
    ref::LayerInputs<double> direction = inputs;
    direction.A1 = ref::random_matrix(50, 15, seed + 10);
    direction.A2 = ref::random_matrix(37, 15, seed + 20);
    direction.A3 = ref::random_matrix(37, 15, seed + 30);
    direction.X = ref::random_matrix(15, 15, seed + 40);
    direction.Y = ref::random_matrix(15, 9, seed + 50);
    const double forward =
        ref::inner(inputs.dO, ref::tangent(inputs, ref::forward(inputs), direction));
    double reverse = 0, scale = 0;
    for (const auto& [name, along] : {std::pair("dX", &direction.X),
                                      {"dY", &direction.Y},
                                      {"dA1", &direction.A1},
                                      {"dA2", &direction.A2},
                                      {"dA3", &direction.A3}}) {
      const Padded<double>& gradient = out.at(name);
      for (std::size_t i = 0; i < along->values.size(); ++i) {
        reverse += gradient.values[i] * along->values[i];
        scale += std::abs(gradient.values[i] * along->values[i]);
      }
    }
    EXPECT_LE(std::abs(forward - reverse), 1e-10 * scale);
  }
}

}  // namespace
}  // namespace ioattn_test
