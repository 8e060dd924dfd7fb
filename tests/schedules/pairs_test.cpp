// SDPA in bf16 by products of pairs of terms: near what f32 makes of the same numbers, and the same
// bits for any number of threads.

#include "schedules/pairs_case.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

// Relative to the largest number, unless that is what cancellation left; gaps are NaN in both.
template <class A, class B>
double error_of(const std::vector<A>& out, const std::vector<B>& expected) {
  double difference = 0, largest = 0.05;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double x = double(GapTensor<A>::template as<float>(out[i]));
    const double y = double(GapTensor<B>::template as<float>(expected[i]));
    if (std::isnan(x) && std::isnan(y)) continue;
    if (std::isnan(x) || std::isnan(y)) return HUGE_VAL;
    difference = std::max(difference, std::fabs(x - y));
    largest = std::max(largest, std::fabs(y));
  }
  return difference / largest;
}

// P and dS are rounded to 8 bits: half a unit each, of terms of either sign.
constexpr double tolerance = 4.0 / 256;

TEST(Pairs, ForwardIsNearThatOfFloats) {
  RandomProblem random(90);
  for (int number = 0; number < 150 && !HasFailure(); number += step()) {
    const Trial trial = random_trial(&random, number);
    SCOPED_TRACE(to_text(SdpaProblem{trial.shape}) + " " + name_of(trial.table->tile.isa));
    HalfCase<bf16> pairs(trial.shape), one(trial.shape);
    HalfCase<float> full(trial.shape);
    pairs.randomise(unsigned(number));
    one.set_inputs(pairs);
    full.set_inputs(pairs);
    const Blocks& blocks = trial.blocks.rows;
    ASSERT_TRUE(full.forward(blocks, {&odd_tile<float>()}).is_ok());
    ASSERT_TRUE(one.forward(blocks, {trial.table}).is_ok());
    EXPECT_LE(error_of(one.o.values(), full.o.values()), tolerance);
    EXPECT_LE(error_of(one.lse.values(), full.lse.values()), 1e-5);
    for (const int threads : {2, 3, 8}) {
      pairs.o.poison();
      pairs.lse.poison();
      ASSERT_TRUE(pairs.forward(blocks, {trial.table, threads}).is_ok());
      EXPECT_TRUE(same_bytes(pairs.o.values(), one.o.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.lse.values(), one.lse.values())) << threads;
    }
  }
}

TEST(Pairs, GradientsAreNearThoseOfFloats) {
  RandomProblem random(91);
  for (int number = 0; number < 250 && !HasFailure(); number += step()) {
    const Trial trial = random_trial(&random, number);
    SCOPED_TRACE(to_text(SdpaProblem{trial.shape}) + " " + name_of(trial.table->tile.isa));
    HalfCase<bf16> half(trial.shape);
    HalfCase<bf16, float> pairs(trial.shape), one(trial.shape);
    HalfCase<float> full(trial.shape);
    half.randomise(unsigned(number));
    const SdpaBlocks blocks = of_backward(trial.blocks);
    ASSERT_TRUE(half.forward(blocks.rows, {&odd_tile<float>()}).is_ok());
    const auto take = [&](auto* other) {
      other->set_inputs(half);
      other->set_forward(half);
    };
    take(&pairs);
    take(&one);
    take(&full);
    ASSERT_TRUE(full.backward(trial.set, blocks, {&odd_tile<float>()}).is_ok());
    ASSERT_TRUE(one.backward(trial.set, blocks, {trial.table}).is_ok());
    EXPECT_LE(error_of(one.dq.values(), full.dq.values()), tolerance);
    EXPECT_LE(error_of(one.dk.values(), full.dk.values()), tolerance);
    EXPECT_LE(error_of(one.dv.values(), full.dv.values()), tolerance);
    EXPECT_LE(error_of(one.d_bias.values(), full.d_bias.values()), 1e-4);
    // In 16 bits: those, rounded.
    ASSERT_TRUE(half.backward(trial.set, blocks, {trial.table}).is_ok());
    EXPECT_LE(error_of(half.dq.values(), one.dq.values()), 1.0 / 256);
    EXPECT_LE(error_of(half.dk.values(), one.dk.values()), 1.0 / 256);
    EXPECT_LE(error_of(half.dv.values(), one.dv.values()), 1.0 / 256);
    EXPECT_LE(error_of(half.d_bias.values(), one.d_bias.values()), 1.0 / 256);
    for (const int threads : {2, 3, 8}) {
      ASSERT_TRUE(pairs.backward(trial.set, blocks, {trial.table, threads}).is_ok());
      EXPECT_TRUE(same_bytes(pairs.dq.values(), one.dq.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.dk.values(), one.dk.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.dv.values(), one.dv.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.d_bias.values(), one.d_bias.values())) << threads;
    }
  }
}

}  // namespace
}  // namespace ioattn_test
