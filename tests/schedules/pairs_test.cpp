// SDPA in bf16 by products of pairs of terms: near what f32 makes of the same numbers, and the same
// bits for any number of threads.

#include "schedules/pairs_case.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

// The same where one of two numbers may be meant: the nearer one counts.
template <class A, class B>
double error_of_nearer(const std::vector<A>& out, std::vector<B> expected,
                       const std::vector<B>& or_else) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double x = double(to_compute(out[i]));
    if (std::fabs(x - double(or_else[i])) < std::fabs(x - double(expected[i])))
      expected[i] = or_else[i];
  }
  return error_of(out, expected);
}

// P and dS are rounded to 8 bits: half a unit each, of terms of either sign.
constexpr double tolerance = 4.0 / 256;

// Rows of some keys, multiplied.
void enlarge_rows(GapTensor<bf16>* of, index_t cols, index_t begin, index_t end, float factor) {
  for (index_t i = begin * (cols + 3); i < end * (cols + 3); ++i) {
    bf16& x = of->values()[std::size_t(i)];
    x = from_float<bf16>(factor * to_float(x));
  }
}

// Now and then a key so large that its scores are far from all others.
void enlarge_keys(RandomProblem* random, GapTensor<bf16>* k, index_t cols) {
  const index_t rows = index_t(k->values().size()) / (cols + 3);
  for (index_t row = 0; row < rows; ++row)
    if (random->uniform(0, 15) == 0)
      enlarge_rows(k, cols, row, row + 1, float(random->logarithmic(8, 4000)));
}

TEST(Pairs, ForwardIsNearThatOfFloats) {
  RandomProblem random(90);
  for (int number = 0; number < 150 && !HasFailure(); number += step()) {
    const Trial trial = random_trial(&random, number);
    SCOPED_TRACE(to_text(SdpaProblem{trial.shape}) + " " + name_of(trial.table->tile.isa));
    HalfCase<bf16> pairs(trial.shape), one(trial.shape);
    HalfCase<float> full(trial.shape);
    pairs.randomise(unsigned(number));
    if (number % 3 == 1) enlarge_keys(&random, &pairs.k, trial.shape.d);
    one.set_inputs(pairs);
    full.set_inputs(pairs);
    const Blocks& blocks = trial.blocks.rows;
    ASSERT_OK(full.forward(blocks, {&odd_tile<float>()}));
    ASSERT_OK(one.forward(blocks, {trial.table}));
    EXPECT_LE(error_of(one.o.values(), full.o.values()), tolerance);
    EXPECT_LE(error_of(one.lse.values(), full.lse.values()), 1e-5);
    for (const int threads : some_thread_counts(number / 2)) {
      pairs.o.poison();
      pairs.lse.poison();
      ASSERT_OK(pairs.forward(blocks, {trial.table, threads}));
      EXPECT_TRUE(same_bytes(pairs.o.values(), one.o.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.lse.values(), one.lse.values())) << threads;
    }
  }
}

SdpaShape seen_in_part(index_t n, index_t m, const Mask& mask) {
  SdpaShape shape;
  shape.batch = shape.heads = shape.kv_heads = 1;
  shape.n = n;
  shape.m = m;
  shape.d = 24;
  shape.dv = 20;
  shape.mask = mask;
  return shape;
}

// By tiles and by rows, of all the keys.
std::vector<SdpaBlocks> blocks_of_all_keys(const SdpaShape& shape) {
  SdpaBlocks by_tiles;
  by_tiles.rows.form = by_tiles.keys.form = Form::h;
  by_tiles.rows.products = Products::stored;
  by_tiles.rows.rho = by_tiles.rows.r = by_tiles.rows.w = by_tiles.rows.o = 16;
  by_tiles.rows.c = by_tiles.keys.c = shape.m;
  by_tiles.keys.rho = by_tiles.keys.w = 16;
  by_tiles.by_keys = Schedule::tile_fused;
  by_tiles.keys.one_pass = true;
  SdpaBlocks by_rows = by_tiles;
  by_rows.keys.one_pass = false;
  return {by_tiles, by_rows};
}

// First weights refer to what is above the scores of a panel of keys: a later key's may be above
// that, for some of the queries, and by so much that they are made again. Then those of the panel
// are nothing, however large its values are.
TEST(Pairs, LargestScoresMayComeLate) {
  const SdpaShape shape = seen_in_part(40, 290, {});
  SdpaBlocks blocks = blocks_of_all_keys(shape)[0];
  blocks.rows.rho = 32;
  blocks.rows.r = 64;
  for (const auto* table : tables_of_pairs()) {
    for (const float factor : {1.F, 12.F, 30.F, 90.F}) {
      SCOPED_TRACE(testing::Message() << name_of(table->tile.isa) << ", by " << factor);
      HalfCase<bf16> pairs(shape);
      pairs.randomise(7);
      enlarge_rows(&pairs.k, shape.d, 200, 201, factor);
      enlarge_rows(&pairs.k, shape.d, 287, 288, factor);
      enlarge_rows(&pairs.v, shape.dv, 0, 32, 0x1p20F);
      HalfCase<float> full(shape);
      full.set_inputs(pairs);
      ASSERT_OK(full.forward(blocks.rows, {&odd_tile<float>()}));
      ASSERT_OK(pairs.forward(blocks.rows, {table}));
      const auto row = shape.dv + 3;
      for (index_t i = 0; i < shape.n; ++i) {
        const auto row_of = [&](const auto& values) {
          return std::vector(values.begin() + i * row, values.begin() + (i + 1) * row);
        };
        EXPECT_LE(error_of(row_of(pairs.o.values()), row_of(full.o.values())), tolerance) << i;
      }
      EXPECT_LE(error_of(pairs.lse.values(), full.lse.values()), 1e-6);
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
    ASSERT_OK(half.forward(blocks.rows, {&odd_tile<float>()}));
    const auto take = [&](auto* other) {
      other->set_inputs(half);
      other->set_forward(half);
    };
    take(&pairs);
    take(&one);
    take(&full);
    ASSERT_OK(full.backward(trial.set, blocks, {&odd_tile<float>()}));
    // By deltas of O in f32, as some of pairs are.
    HalfCase<float> exact(trial.shape);
    exact.set_inputs(half);
    ASSERT_OK(exact.forward(blocks.rows, {&odd_tile<float>()}));
    ASSERT_OK(exact.backward(trial.set, blocks, {&odd_tile<float>()}));
    ASSERT_OK(one.backward(trial.set, blocks, {trial.table}));
    EXPECT_LE(error_of_nearer(one.dq.values(), full.dq.values(), exact.dq.values()), tolerance);
    EXPECT_LE(error_of_nearer(one.dk.values(), full.dk.values(), exact.dk.values()), tolerance);
    EXPECT_LE(error_of(one.dv.values(), full.dv.values()), tolerance);
    // Where heads share a bias its gradient may be a sum of both.
    const bool shared =
        trial.shape.bias_heads * trial.shape.bias_batch < trial.shape.heads * trial.shape.batch;
    EXPECT_LE(error_of_nearer(one.d_bias.values(), full.d_bias.values(), exact.d_bias.values()),
              shared ? tolerance : 1e-4);
    // In 16 bits: those, rounded.
    ASSERT_OK(half.backward(trial.set, blocks, {trial.table}));
    EXPECT_LE(error_of(half.dq.values(), one.dq.values()), 1.0 / 256);
    EXPECT_LE(error_of(half.dk.values(), one.dk.values()), 1.0 / 256);
    EXPECT_LE(error_of(half.dv.values(), one.dv.values()), 1.0 / 256);
    EXPECT_LE(error_of(half.d_bias.values(), one.d_bias.values()), 1.0 / 256);
    for (const int threads : some_thread_counts(number / 2)) {
      ASSERT_OK(pairs.backward(trial.set, blocks, {trial.table, threads}));
      EXPECT_TRUE(same_bytes(pairs.dq.values(), one.dq.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.dk.values(), one.dk.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.dv.values(), one.dv.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.d_bias.values(), one.d_bias.values())) << threads;
    }
  }
}

// O of a few large values that differ little: rounded, it is off by as much as they differ.
HalfCase<bf16> large_values(const SdpaShape& shape, unsigned seed) {
  HalfCase<bf16> half(shape);
  half.randomise(seed);
  for (bf16& x : half.v.values()) x = from_float<bf16>(100 + to_float(x));
  return half;
}

TEST(Pairs, RoundedOHasNoPartInDeltasOfFewKeys) {
  const SdpaShape shapes[] = {seen_in_part(30, 30, causal_top_left()), seen_in_part(9, 50, {}),
                              seen_in_part(40, 40, window(0, 4, 3)), seen_in_part(70, 64, {})};
  for (const SdpaShape& shape : shapes) {
    for (const auto* table : tables_of_pairs()) {
      for (const SdpaBlocks& blocks : blocks_of_all_keys(shape)) {
        SCOPED_TRACE(to_text(SdpaProblem{shape}) + " " + name_of(table->tile.isa) +
                     (blocks.keys.one_pass ? " by tiles" : " by rows"));
        const HalfCase<bf16> half = large_values(shape, 5);
        HalfCase<bf16, float> pairs(shape);
        HalfCase<float> exact(shape);
        pairs.set_inputs(half);
        exact.set_inputs(half);
        ASSERT_OK(exact.forward(blocks.rows, {&odd_tile<float>()}));
        pairs.set_forward(exact);
        const SdpaSet set = {true, true, false, false};
        ASSERT_OK(exact.backward(set, blocks, {&odd_tile<float>()}));
        ASSERT_OK(pairs.backward(set, blocks, {table}));
        EXPECT_LE(error_of(pairs.dq.values(), exact.dq.values()), tolerance);
        EXPECT_LE(error_of(pairs.dk.values(), exact.dk.values()), tolerance);
      }
    }
  }
}

// A query may have seen keys of other calls, too: then delta is O's.
TEST(Pairs, DeltasAreOfAllKeysOfAQuery) {
  const SdpaShape shape = seen_in_part(20, 30, {});
  for (const auto* table : tables_of_pairs()) {
    for (const SdpaBlocks& blocks : blocks_of_all_keys(shape)) {
      SCOPED_TRACE(name_of(table->tile.isa));
      HalfCase<bf16> half(shape);
      half.randomise(6);
      ASSERT_OK(half.forward(blocks.rows, {&odd_tile<float>()}));
      for (float& each : half.lse.values()) each += 0.5F;
      for (std::size_t i = 0; i < half.o.values().size(); ++i)
        half.o.values()[i] = half.d_o.values()[i];
      HalfCase<bf16, float> pairs(shape);
      HalfCase<float> full(shape);
      pairs.set_inputs(half);
      full.set_inputs(half);
      pairs.set_forward(half);
      full.set_forward(half);
      const SdpaSet set = {true, true, false, false};
      ASSERT_OK(full.backward(set, blocks, {&odd_tile<float>()}));
      ASSERT_OK(pairs.backward(set, blocks, {table}));
      EXPECT_LE(error_of(pairs.dq.values(), full.dq.values()), tolerance);
      EXPECT_LE(error_of(pairs.dk.values(), full.dk.values()), tolerance);
    }
  }
}

}  // namespace
}  // namespace ioattn_test
