// SDPA in bf16 by products of pairs of terms: near what f32 makes of the same numbers, the same
// bits for any number of threads, and deaf to what a mask hides.

#include <cstring>

#include "kernels/trapped_tiles.hpp"
#include "schedules/half_case.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_sdpa.hpp"
#include "schedules/tables.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

std::vector<const kernels::KernelTable<float>*> tables_of_pairs() {
  std::vector<const kernels::KernelTable<float>*> tables = {&odd_tile_of_pairs()};
  for (const auto* table : tables_under_test<bf16>())
    if (table->pairs_of_bf16 != nullptr) tables.push_back(table);
  for (const Isa isa : {Isa::emulated_bf16, Isa::emulated_amx})
    tables.push_back(kernels::find_kernels(isa)->of_bf16);
  // Alone where they are what is tested: `./run check amx`.
  if (trap_tiles() || machine::this_machine().isa.has(Isa::avx512_amx))
    tables = {kernels::find_kernels(Isa::avx512_amx)->of_bf16};
  return tables;
}

// Instructions that trap take a hundred times longer.
int step() { return trap_tiles() ? 7 : 1; }

struct Trial {
  SdpaShape shape;
  SdpaSet set;
  SdpaBlocks blocks;
  const kernels::KernelTable<float>* table;
};

Trial random_trial(RandomProblem* random, int number) {
  static const auto tables = tables_of_pairs();
  const bool large = number % 8 == 7;
  Trial trial;
  trial.shape = random_shape(random, large ? 150 : 40, large ? 70 : 20);
  trial.set = random_set(random);
  add_random_bias(random, &trial.shape, &trial.set);
  trial.set.accumulate = false;
  trial.blocks = any_blocks(random);
  trial.blocks.rows.r = 0;
  trial.blocks.by_keys = Schedule::tile_fused;
  trial.blocks.keys.one_pass = !trial.set.dBias;
  trial.table = tables[std::size_t(random->uniform(0, index_t(tables.size()) - 1))];
  return trial;
}

// Backward passes need blocks of rows.
SdpaBlocks of_backward(SdpaBlocks blocks) {
  blocks.rows.r = std::max(blocks.rows.rho, index_t(1));
  return blocks;
}

template <class A>
bool same_bytes(const std::vector<A>& a, const std::vector<A>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(A)) == 0);
}

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
    // In 16 bits: those, rounded.
    ASSERT_TRUE(half.backward(trial.set, blocks, {trial.table}).is_ok());
    EXPECT_LE(error_of(half.dq.values(), one.dq.values()), 1.0 / 256);
    EXPECT_LE(error_of(half.dk.values(), one.dk.values()), 1.0 / 256);
    EXPECT_LE(error_of(half.dv.values(), one.dv.values()), 1.0 / 256);
    for (const int threads : {2, 3, 8}) {
      ASSERT_TRUE(pairs.backward(trial.set, blocks, {trial.table, threads}).is_ok());
      EXPECT_TRUE(same_bytes(pairs.dq.values(), one.dq.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.dk.values(), one.dk.values())) << threads;
      EXPECT_TRUE(same_bytes(pairs.dv.values(), one.dv.values())) << threads;
    }
  }
}

// A key that some queries do not see, with numbers that spoil whatever they touch: nothing of those
// queries changes. The other way around, a query that does not see some keys.
TEST(Pairs, HiddenNumbersTouchNothing) {
  RandomProblem random(92);
  int hidden = 0;
  for (int number = 0; number < 200 && !HasFailure(); number += step()) {
    Trial trial = random_trial(&random, number);
    if (!trial.shape.mask.hides()) continue;
    const index_t n = trial.shape.n, m = trial.shape.m;
    SdpaShape& shape = trial.shape;
    shape.batch = shape.heads = shape.kv_heads = shape.bias_batch = shape.bias_heads = 1;
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + " " + name_of(trial.table->tile.isa));
    const SdpaSet all = {true, true, true};
    SdpaBlocks blocks = trial.blocks;
    blocks.keys.one_pass = true;
    HalfCase<bf16> clean(shape), spoiled(shape);
    clean.randomise(unsigned(number));
    spoiled.set_inputs(clean);
    const index_t key = random.uniform(0, m - 1), query = random.uniform(0, n - 1);
    const bf16 nan = {0x7fc0};
    const auto spoil = [&](GapTensor<bf16>* tensor, index_t row, index_t cols) {
      for (index_t k = 0; k < cols; ++k) tensor->values()[std::size_t(row * (cols + 3) + k)] = nan;
    };
    spoil(&spoiled.k, key, shape.d);
    spoil(&spoiled.v, key, shape.dv);
    spoil(&spoiled.q, query, shape.d);
    spoil(&spoiled.d_o, query, shape.dv);
    for (HalfCase<bf16>* each : {&clean, &spoiled}) {
      ASSERT_TRUE(each->forward(blocks.rows, {trial.table}).is_ok());
      ASSERT_TRUE(each->backward(all, of_backward(blocks), {trial.table}).is_ok());
    }
    const auto sees = [&](index_t i, index_t j) {
      const Interval seen = shape.mask.of_row(i, m);
      return j >= seen.begin && j < seen.end;
    };
    const auto expect_same = [&](const GapTensor<bf16>& a, const GapTensor<bf16>& b, index_t row,
                                 index_t cols) {
      for (index_t k = 0; k < cols; ++k) {
        const std::size_t at = std::size_t(row * (cols + 3) + k);
        ASSERT_EQ(a.values()[at].bits, b.values()[at].bits) << row << " " << k;
      }
    };
    for (index_t i = 0; i < n; ++i) {
      if (i == query || sees(i, key)) continue;
      ++hidden;
      expect_same(clean.o, spoiled.o, i, shape.dv);
      expect_same(clean.dq, spoiled.dq, i, shape.d);
    }
    for (index_t j = 0; j < m; ++j) {
      if (j == key || sees(query, j)) continue;
      // Whoever sees the spoiled key has no weights left for the others.
      bool reached = false;
      for (index_t i = 0; i < n; ++i) reached = reached || (sees(i, key) && sees(i, j));
      if (reached) continue;
      ++hidden;
      expect_same(clean.dk, spoiled.dk, j, shape.d);
      expect_same(clean.dv, spoiled.dv, j, shape.dv);
    }
  }
  EXPECT_GT(hidden, 500 / step());
}

}  // namespace
}  // namespace ioattn_test
