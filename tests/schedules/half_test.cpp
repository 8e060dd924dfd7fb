// SDPA in 16 bits is SDPA in f32 of the same numbers, whose results are rounded once: bit for bit,
// for every set of gradients, mask, group and bias, and every number of threads.

#include "schedules/half_case.hpp"
#include "schedules/random_sdpa.hpp"
#include "schedules/tables.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

template <class S>
class Half : public testing::Test {};
using Types = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(Half, Types);

// What was there before, and the f32 numbers, rounded together.
template <class S>
std::vector<S> added(const GapTensor<S>& before, const GapTensor<float>& sums) {
  std::vector<S> to;
  for (std::size_t i = 0; i < sums.values().size(); ++i)
    to.push_back(from_float<S>(to_float(before.values()[i]) + sums.values()[i]));
  return to;
}

struct Trial {
  SdpaShape shape;
  SdpaSet set;
  SdpaBlocks blocks;
  const kernels::KernelTable<float>* table;

  std::string text() const {
    return to_text(SdpaProblem{shape}) + (set.dQ ? " dQ" : "") + (set.dK ? " dK" : "") +
           (set.dV ? " dV" : "") + (set.dBias ? " dBias" : "") +
           (set.accumulate ? " accumulate" : "") + (blocks.keys.one_pass ? " one pass " : " ") +
           name_of(blocks.by_keys);
  }
};

Trial random_trial(RandomProblem* random, int number) {
  static const auto tables = tables_under_test<float>();
  Trial trial;
  const bool large = number % 8 == 7;
  trial.shape = random_shape(random, large ? 130 : 40, large ? 60 : 20);
  trial.set = random_set(random);
  add_random_bias(random, &trial.shape, &trial.set);
  trial.blocks = any_blocks(random);
  trial.blocks.keys.one_pass = trial.blocks.keys.one_pass && !trial.set.dBias;
  trial.table = tables[std::size_t(random->uniform(0, index_t(tables.size()) - 1))];
  return trial;
}

TYPED_TEST(Half, ForwardIsThatOfFloatsRoundedOnce) {
  using S = TypeParam;
  RandomProblem random(80);
  for (int number = 0; number < 80 && !this->HasFailure(); ++number) {
    const Trial trial = random_trial(&random, number);
    Blocks blocks = trial.blocks.rows;
    if (number % 2 == 1) blocks.r = 0;  // by tiles
    SCOPED_TRACE(trial.text());
    HalfCase<S> half(trial.shape);
    HalfCase<float> full(trial.shape);
    half.randomise(unsigned(number));
    full.set_inputs(half);
    const bool o = number % 7 != 5, lse = number % 7 != 6;
    ASSERT_OK(full.forward(blocks, {trial.table}, o, lse));
    for (const int threads : thread_counts) {
      half.o.poison();
      half.lse.poison();
      ASSERT_OK(half.forward(blocks, {trial.table, threads}, o, lse));
      EXPECT_TRUE(same_bytes(half.o.values(), rounded<S>(full.o))) << threads;
      EXPECT_TRUE(same_bytes(half.lse.values(), full.lse.values())) << threads;
    }
  }
}

TYPED_TEST(Half, GradientsAreThoseOfFloatsRoundedOnce) {
  using S = TypeParam;
  RandomProblem random(81);
  for (int number = 0; number < 160 && !this->HasFailure(); ++number) {
    const Trial trial = random_trial(&random, number);
    const SdpaSet& set = trial.set;
    SCOPED_TRACE(trial.text());
    HalfCase<S> half(trial.shape);
    HalfCase<S, float> wide(trial.shape);
    HalfCase<float> full(trial.shape), plain(trial.shape);
    half.randomise(unsigned(number));
    ASSERT_OK(half.forward(trial.blocks.rows, {trial.table}));
    for (HalfCase<float>* other : {&full, &plain}) {
      other->set_inputs(half);
      other->set_forward(half);
    }
    wide.set_inputs(half);
    wide.set_forward(half);
    ASSERT_OK(full.backward(set, trial.blocks, {trial.table}));
    SdpaSet fresh = set;
    fresh.accumulate = false;
    ASSERT_OK(plain.backward(fresh, trial.blocks, {trial.table}));

    // Sums that stay begin with what was there; others are added to it, all in f32.
    const bool by_tiles = trial.blocks.by_keys == Schedule::tile_fused;
    const bool on_the_way = !set.query_pass(trial.blocks);
    const auto expected = [&](bool added_late, const GapTensor<float>& all,
                              const GapTensor<float>& sums, const GapTensor<S>& before) {
      return set.accumulate && added_late ? added(before, sums) : rounded<S>(all);
    };
    for (const int threads : thread_counts) {
      SCOPED_TRACE(threads);
      ASSERT_OK(half.backward(set, trial.blocks, {trial.table, threads}));
      const auto check = [&](bool wanted, const GapTensor<S>& gradient, const auto& value) {
        if (!wanted && set.accumulate) return;  // what was there
        EXPECT_TRUE(same_bytes(gradient.values(), value));
      };
      check(set.dQ, half.dq, expected(on_the_way, full.dq, plain.dq, half.q));
      check(set.dK, half.dk, expected(by_tiles, full.dk, plain.dk, half.k));
      check(set.dV, half.dv, expected(by_tiles, full.dv, plain.dv, half.v));
      check(set.dBias, half.d_bias, expected(true, full.d_bias, plain.d_bias, half.bias));
      // In f32: the gradients themselves.
      ASSERT_OK(wide.backward(set, trial.blocks, {trial.table, threads}));
      EXPECT_TRUE(same_bytes(wide.dq.values(), full.dq.values()));
      EXPECT_TRUE(same_bytes(wide.dk.values(), full.dk.values()));
      EXPECT_TRUE(same_bytes(wide.dv.values(), full.dv.values()));
      EXPECT_TRUE(same_bytes(wide.d_bias.values(), full.d_bias.values()));
    }
  }
}

}  // namespace
}  // namespace ioattn_test
