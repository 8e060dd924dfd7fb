// SDPA: every phase costs its formula, every subset of the outputs is the oracle's in every layout,
// and neither threads nor the place of a head change a bit.

#include "schedules/sdpa/sdpa.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "base/tile_steps.hpp"
#include "plan/blocks/blocking_tile_fused.hpp"
#include "plan/sdpa/sdpa_planner.hpp"
#include "schedules/rounding_limit.hpp"
#include "schedules/sdpa_case.hpp"
#include "schedules/sdpa_formula.hpp"
#include "schedules/tables.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"
#include "theory/block_costs.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

TEST(Sdpa, CountsAreTheSumsOverThePhases) {
  RandomProblem random(70);
  const auto& table = odd_tile<float>();
  int in_one_pass = 0, outer = 0;
  for (int trial = 0; trial < 1500 && !HasFailure(); ++trial) {
    SdpaShape shape = random_shape(&random, 30, 12);
    SdpaSet set = random_set(&random);
    add_random_bias(&random, &shape, &set);
    SdpaCase<float> problem(shape, ref::Layout::bhsd, std::uint64_t(trial));
    PlannedSdpa planned(shape, set, DType::f32, table.tile);
    const bool o = random.uniform(0, 3) > 0, lse = !o || random.uniform(0, 3) > 0;
    SdpaShape computed = shape;
    if (!o) computed.dv = 0;
    const auto forward = [&](const Blocks& blocks, index_t M) {
      instruments::IoCounter counter;
      ASSERT_OK(problem.forward(blocks, {&table, 1, &counter}, o, lse));
      hold_to_formula(counter, theory::sdpa_forward_cost(computed, blocks, lse), shape);
      ASSERT_LE(counter.total().footprint, M);
    };
    const auto backward = [&](const SdpaBlocks& blocks, index_t M) {
      instruments::IoCounter counter;
      ASSERT_OK(problem.backward(set, blocks, {&table, 1, &counter}));
      hold_to_formula(counter, theory::sdpa_backward_cost(shape, set, blocks), shape);
      ASSERT_LE(counter.total().footprint, M);
    };
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + (set.dQ ? " dQ" : "") + (set.dK ? " dK" : "") +
                 (set.dV ? " dV" : "") + (set.accumulate ? " accumulate" : ""));

    const index_t least_forward = planned.least_M(&PlannedSdpa::forward);
    planned.request.M = random.logarithmic(least_forward, 60 * least_forward);
    planned.request.outer_M = random.uniform(0, 1) * random.logarithmic(1, 20) * planned.request.M;
    ASSERT_OK(planned.forward());
    outer += planned.plan.level == "L3";
    ASSERT_EQ(planned.estimate.M,
              planned.plan.level == "L3" ? planned.request.outer_M : planned.request.M);
    ASSERT_EQ(
        planned.estimate.cost.total(),
        theory::sdpa_forward_cost(shape.with_grouped_rows(), planned.plan.blocks.rows).total());
    forward(planned.plan.blocks.rows, planned.estimate.M);
    planned.request.M = least_forward - 1;
    ASSERT_EQ(planned.forward().code(), StatusCode::fast_memory_too_small);

    const index_t least_backward = planned.least_M(&PlannedSdpa::backward);
    planned.request.M = random.logarithmic(least_backward, 60 * least_backward);
    ASSERT_OK(planned.backward());
    outer += planned.plan.level == "L3";
    backward(planned.plan.blocks, planned.estimate.M);
    if (planned.plan.blocks.keys.one_pass) ++in_one_pass;

    SdpaBlocks any = any_blocks(&random);
    any.keys.one_pass = any.keys.one_pass && !set.dBias;
    forward(any.rows, index_t(1) << 40);
    backward(any, index_t(1) << 40);
  }
  EXPECT_GT(in_one_pass, 300);
  EXPECT_GT(outer, 300);  // of L3, by blocks that L2 is too small for
}

// Blocks of pairs of tiles chosen for an M, in one pass and not, with the rest of `any`.
SdpaBlocks blocks_of_tiles(const SdpaShape& shape, const SdpaSet& set, bool one_pass, index_t M,
                           const TileShape& tile, const SdpaBlocks& any) {
  const LayerShape head = shape.head().without_mask();
  SdpaBlocks blocks = any;
  blocks.by_keys = Schedule::tile_fused;
  blocks.keys = plan::choose_tile_fused(head, set.key_kind(one_pass), M, tile);
  return blocks;
}

TEST(Sdpa, ForwardCountsOfTilesAreTheFormula) {
  RandomProblem random(75);
  const auto& table = odd_tile<float>();
  int masked = 0, several = 0;
  for (int trial = 0; trial < 1500 && !HasFailure(); ++trial) {
    const SdpaShape shape = random_shape(&random, 30, 12);
    const bool o = random.uniform(0, 3) > 0, lse = !o || random.uniform(0, 3) > 0;
    SdpaShape computed = shape;
    if (!o) computed.dv = 0;
    const LayerShape head = computed.head().without_mask();
    Blocks blocks;
    blocks.c = blocks.rho = blocks.w = 1;
    const index_t least_M = theory::tile_fused_forward_pass(head, blocks).footprint;
    const index_t M = trial % 5 == 0 ? least_M : random.logarithmic(least_M, 300 * least_M);
    blocks = plan::choose_tile_fused_forward(head, M, table.tile);
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + " M=" + std::to_string(M) +
                 " c=" + std::to_string(blocks.c) + " rho=" + std::to_string(blocks.rho) +
                 " w=" + std::to_string(blocks.w));
    SdpaCase<float> problem(shape, ref::Layout::bhsd, std::uint64_t(trial));
    instruments::IoCounter counter;
    ASSERT_OK(problem.forward(blocks, {&table, 1, &counter}, o, lse));
    const theory::ScheduleCost cost = theory::sdpa_forward_cost(computed, blocks, lse);
    hold_to_formula(counter, cost, shape);
    ASSERT_STREQ(cost.phases[0].name, "tile_fused");
    ASSERT_LE(cost.total().footprint, M);
    problem.check_forward(o, lse, std::max(limit(shape.m, blocks.c), limit(shape.d, blocks.w)));
    masked += shape.mask.hides();
    several += shape.n > blocks.rho && shape.m > blocks.c;
  }
  EXPECT_GT(masked, 400);
  EXPECT_GT(several, 400);
}

// Columns of one operand come a step before those of another, those of dO, V and dV by steps: the
// words are the same, and the formula has those that are there at once.
TEST(Sdpa, CountsOfColumnsThatComeAheadAreTheFormula) {
  RandomProblem random(79);
  const auto& table = odd_tile<float>();
  int ahead = 0, by_steps = 0, masked = 0, largest = 0;
  for (int trial = 0; trial < 400 && !HasFailure(); ++trial) {
    SdpaShape shape = random_shape(&random, 60, 24);
    shape.n += 20;
    shape.m += 20;
    shape.dv += 8;
    SdpaSet set = random_set(&random);
    set.dK = true;
    const bool one_pass = set.dQ && random.uniform(0, 2) > 0;
    SdpaBlocks blocks = any_blocks(&random);
    blocks.by_keys = Schedule::tile_fused;
    blocks.keys.c = random.uniform(14, 40);
    blocks.keys.share = 0;
    divide_keys(&random, &blocks.keys);
    blocks.keys.rho = random.uniform(14, 40);
    blocks.keys.w = random.uniform(1, 2);
    blocks.keys.parked = false;
    blocks.keys.one_pass = one_pass;
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + " c=" + std::to_string(blocks.keys.c) +
                 " rho=" + std::to_string(blocks.keys.rho) + " w=" + std::to_string(blocks.keys.w) +
                 (one_pass ? " one pass" : ""));
    SdpaCase<float> problem(shape, ref::Layout::bhsd, std::uint64_t(trial));
    instruments::IoCounter counter;
    ASSERT_OK(problem.backward(set, blocks, {&table, 1, &counter}));
    hold_to_formula(counter, theory::sdpa_backward_cost(shape, set, blocks), shape);
    problem.check_backward(set, std::max({limit(shape.group() * shape.n, blocks.keys.rho),
                                          limit(shape.m, blocks.keys.c),
                                          limit(std::max(shape.d, shape.dv), blocks.keys.w)}));
    const index_t c = keys_of_block(shape.head(), blocks.keys);
    const index_t rho = std::min(blocks.keys.rho, shape.n);
    const KeyPassKind kind = set.key_kind(one_pass);
    const index_t w = std::min(blocks.keys.w, std::max(shape.d, shape.dv));
    ahead += columns_come_ahead(kind, c, rho, w);
    if (!values_come_by_steps(kind, c, rho, w, shape.dv)) continue;
    ++by_steps;
    masked += shape.mask.hides();
    const IoCost keys = theory::tile_fused(shape.head(), blocks.keys, kind);
    largest += keys.footprint == 2 * rho * c + words_of_steps(c, rho, w);
  }
  EXPECT_GT(ahead, 60);
  EXPECT_GT(by_steps, 30);
  EXPECT_GT(masked, 10);
  EXPECT_EQ(largest, by_steps);
}

TEST(Sdpa, CountsOfPairsOfTilesAreTheFormula) {
  RandomProblem random(73);
  const auto& table = odd_tile<float>();
  int accumulated = 0, masked = 0, several = 0, least = 0, alone = 0;
  for (int trial = 0; trial < 2000 && !HasFailure(); ++trial) {
    const SdpaShape shape = random_shape(&random, 30, 12);
    SdpaSet set = random_set(&random);
    const bool one_pass = set.dQ && random.uniform(0, 2) > 0;
    if (!one_pass) set.dV = set.dV || !set.dK;  // dQ alone is made in one pass
    Blocks least_blocks;
    least_blocks.c = least_blocks.rho = least_blocks.w = 1;
    const index_t least_M =
        theory::tile_fused(shape.head(), least_blocks, set.key_kind(one_pass)).footprint;
    const index_t M = trial % 5 == 0 ? least_M : random.logarithmic(least_M, 300 * least_M);
    const SdpaBlocks blocks =
        blocks_of_tiles(shape, set, one_pass, M, table.tile, any_blocks(&random));
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + " M=" + std::to_string(M) +
                 " c=" + std::to_string(blocks.keys.c) + " rho=" + std::to_string(blocks.keys.rho) +
                 " w=" + std::to_string(blocks.keys.w) + (one_pass ? " one pass" : "") +
                 (set.accumulate ? " accumulate" : ""));
    SdpaCase<float> problem(shape, ref::Layout::bhsd, std::uint64_t(trial));
    instruments::IoCounter counter;
    ASSERT_OK(problem.backward(set, blocks, {&table, 1, &counter}));
    const theory::ScheduleCost cost = theory::sdpa_backward_cost(shape, set, blocks);
    hold_to_formula(counter, cost, shape);
    const theory::PhaseCost& keys = cost.phases[std::size_t(cost.phase_count - 1)];
    ASSERT_STREQ(keys.name, "tile_fused");
    ASSERT_LE(keys.cost.footprint, M);
    problem.check_backward(set, std::max({limit(shape.group() * shape.n, blocks.keys.rho),
                                          limit(shape.m, blocks.keys.c),
                                          limit(std::max(shape.d, shape.dv), blocks.keys.w)}));
    accumulated += set.accumulate;
    masked += shape.mask.hides();
    several += shape.n > blocks.keys.rho && shape.m > blocks.keys.c;
    least += M == least_M;
    alone += one_pass && !set.keys();
  }
  EXPECT_GT(alone, 100);
  EXPECT_GT(accumulated, 500);
  EXPECT_GT(masked, 500);
  EXPECT_GT(several, 500);
  EXPECT_GE(least, 400);
}

template <class T>
class SdpaValues : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SdpaValues, Types);

TYPED_TEST(SdpaValues, AreTheOraclesForEveryNumberOfThreads) {
  using T = TypeParam;
  const std::vector<const kernels::KernelTable<T>*> tables = tables_under_test<T>();
  RandomProblem random(71);
  for (std::uint64_t trial = 0; trial < 96 && !this->HasFailure(); ++trial) {
    const bool large = trial % 8 == 7;
    SdpaShape shape = random_shape(&random, large ? 130 : 40, large ? 40 : 20);
    const ref::Layout layout = ref::all_layouts[trial % 3];
    SdpaSet set = random_set(&random);
    add_random_bias(&random, &shape, &set);
    SdpaCase<T> problem(shape, layout, trial, trial % 5 == 4 ? -0.7 : 0);
    const auto& table = *tables[std::size_t(random.uniform(0, index_t(tables.size()) - 1))];
    SdpaBlocks blocks = any_blocks(&random);
    blocks.keys.one_pass = blocks.keys.one_pass && !set.dBias;
    blocks.rows.c = std::max<index_t>(blocks.rows.c, 8);
    blocks.keys.rho = std::max<index_t>(blocks.keys.rho, 8);
    SCOPED_TRACE(to_text(SdpaProblem{shape, dtype_of<T>::value}) + " layout " +
                 std::to_string(int(layout)) + " r=" + std::to_string(blocks.rows.r) +
                 " c=" + std::to_string(blocks.rows.c) + " rho=" + std::to_string(blocks.rows.rho) +
                 " keys " + std::to_string(blocks.keys.c) + "x" + std::to_string(blocks.keys.rho) +
                 (blocks.keys.one_pass ? " in one pass" : ""));
    const double allowed =
        std::max({limit(shape.m, blocks.rows.c), limit(shape.group() * shape.n, blocks.keys.rho),
                  limit(shape.m, blocks.keys.one_pass ? blocks.keys.c : blocks.rows.c)});
    const bool o = trial % 7 != 5, lse = trial % 7 != 6;
    std::vector<T> one;
    Blocks forward = blocks.rows;
    if (trial % 2 == 1) forward.r = 0;  // by tiles
    for (const int threads : thread_counts) {
      ASSERT_OK(problem.forward(forward, {&table, threads}, o, lse));
      if (threads == 1) problem.check_forward(o, lse, allowed);
      std::vector<T> all = problem.outputs();
      ASSERT_OK(problem.backward(set, blocks, {&table, threads}));
      if (threads == 1) problem.check_backward(set, allowed);
      const std::vector<T> gradients = problem.outputs();
      all.insert(all.end(), gradients.begin(), gradients.end());
      if (threads == 1) one = all;
      ASSERT_EQ(std::memcmp(one.data(), all.data(), all.size() * sizeof(T)), 0)
          << threads << " threads";
      problem.poison();
    }
  }
}

// A head computed alone has the bits that it has in a batch.
TYPED_TEST(SdpaValues, DoNotDependOnThePlaceOfAHead) {
  using T = TypeParam;
  SdpaShape shape;
  shape.batch = 3;
  shape.heads = shape.kv_heads = 2;
  shape.n = 45;
  shape.m = 70;
  shape.d = 13;
  shape.dv = 9;
  shape.mask = causal_bottom_right(shape.n, shape.m);
  SdpaShape alone = shape;
  alone.batch = alone.heads = alone.kv_heads = 1;
  const kernels::Kernels* kernels = nullptr;
  ASSERT_OK(kernels::select_kernels(machine::this_machine().isa, nullptr, &kernels));
  RandomProblem random(72);
  const SdpaBlocks blocks = any_blocks(&random);
  const typename SdpaCase<T>::Run run = {&kernels->table<T>(), 2};
  const SdpaSet set = {true, true, true, false};

  // The inputs of the first head, everywhere.
  ref::SdpaInputs<double> inputs = SdpaCase<T>::inputs_for(alone, 5, 0);
  const auto repeated = [](const ref::Tensor<double>& head) {
    ref::Tensor<double> all(3, 2, head.rows, head.cols);
    for (std::size_t i = 0; i < all.values.size(); ++i)
      all.values[i] = head.values[i % head.values.size()];
    return all;
  };
  SdpaCase<T> one(alone, ref::Layout::bhsd, inputs);
  inputs.Q = repeated(inputs.Q);
  inputs.K = repeated(inputs.K);
  inputs.V = repeated(inputs.V);
  inputs.dO = repeated(inputs.dO);
  SdpaCase<T> many(shape, ref::Layout::bshd, inputs);
  for (SdpaCase<T>* problem : {&one, &many}) {
    ASSERT_OK(problem->forward(blocks.rows, run));
  }
  const auto expect_repeated = [](const ref::StridedTensor<T>& part,
                                  const ref::StridedTensor<T>& whole) {
    const std::vector<T> head = part.dense().values, all = whole.dense().values;
    for (std::size_t i = 0; i < all.size(); i += head.size())
      EXPECT_EQ(std::memcmp(&all[i], head.data(), head.size() * sizeof(T)), 0);
  };
  expect_repeated(one.o(), many.o());
  for (SdpaCase<T>* problem : {&one, &many}) {
    ASSERT_OK(problem->backward(set, blocks, run));
  }
  expect_repeated(one.dq(), many.dq());
  expect_repeated(one.dk(), many.dk());
  expect_repeated(one.dv(), many.dv());
}

// A key that is NaN reaches no output of a query that does not see it, nor of keys that no query
// sees with it; a query that is NaN, no other query and no key that it does not see.
TYPED_TEST(SdpaValues, OfPairsOfTilesHideNaN) {
  using T = TypeParam;
  SdpaShape shape;
  shape.n = 37;
  shape.m = 41;
  shape.d = 19;
  shape.dv = 23;
  shape.mask = window(1, 5, 3);
  const kernels::Kernels* kernels = nullptr;
  ASSERT_OK(kernels::select_kernels(machine::this_machine().isa, nullptr, &kernels));
  const SdpaSet set = {true, true, true, false};
  RandomProblem random(74);
  for (int trial = 0; trial < 40; ++trial) {
    SdpaBlocks blocks = any_blocks(&random);
    blocks.by_keys = Schedule::tile_fused;
    blocks.keys.one_pass = true;
    blocks.keys.w = random.logarithmic(1, 40);
    const auto& table = trial % 2 == 0 ? odd_tile<T>() : kernels->table<T>();
    const typename SdpaCase<T>::Run run = {&table, 2};
    ref::SdpaInputs<double> inputs = SdpaCase<T>::inputs_for(shape, 6, 0);
    Blocks forward = blocks.rows;
    forward.r = 0;  // by tiles
    SdpaCase<T> clean(shape, ref::Layout::bhsd, inputs);
    ASSERT_OK(clean.forward(forward, run));
    const ref::StridedTensor<T> clean_o = clean.o();
    ASSERT_OK(clean.backward(set, blocks, run));
    const bool of_key = trial % 4 < 2;
    const index_t bad = random.uniform(0, (of_key ? shape.m : shape.n) - 1);
    const auto spoil = [&](ref::Tensor<double>* tensor) {
      std::fill_n(tensor->values.begin() + bad * index_t(tensor->cols), tensor->cols,
                  std::numeric_limits<double>::quiet_NaN());
    };
    if (of_key) {
      spoil(&inputs.K);
      spoil(&inputs.V);
    } else {
      spoil(&inputs.Q);
      spoil(&inputs.dO);
    }
    SdpaCase<T> spoilt(shape, ref::Layout::bhsd, inputs);
    ASSERT_OK(spoilt.forward(forward, run));
    const ref::StridedTensor<T> spoilt_o = spoilt.o();
    ASSERT_OK(spoilt.backward(set, blocks, run));
    // Queries that see the bad key, or the bad query; and keys that one of these sees.
    const Interval queries =
        of_key ? shape.mask.transposed().of_row(bad, shape.n) : Interval{bad, bad + 1};
    const Interval keys = shape.mask.of_any(queries, shape.m);
    const auto same = [&](const ref::StridedTensor<T>& a, const ref::StridedTensor<T>& b,
                          const Interval& but, index_t rows) {
      const std::vector<T> x = a.dense().values, y = b.dense().values;
      const std::size_t cols = x.size() / std::size_t(rows);
      for (index_t i = 0; i < rows; ++i) {
        if (i >= but.begin && i < but.end) continue;
        EXPECT_EQ(
            std::memcmp(&x[std::size_t(i) * cols], &y[std::size_t(i) * cols], cols * sizeof(T)), 0)
            << "row " << i << ", bad " << (of_key ? "key " : "query ") << bad;
      }
    };
    same(clean_o, spoilt_o, queries, shape.n);
    same(clean.dq(), spoilt.dq(), queries, shape.n);
    same(clean.dk(), spoilt.dk(), keys, shape.m);
    same(clean.dv(), spoilt.dv(), keys, shape.m);
  }
}

}  // namespace
}  // namespace ioattn_test
