// Results that overflow when they are rounded to 16 bits are counted: as many as the same results
// in f32 have beyond the largest number, whatever the schedule and the number of threads, and
// counting changes no bit.

#include "base/overflow_counts.hpp"
#include "schedules/layer_half_case.hpp"
#include "schedules/pairs_case.hpp"
#include "schedules/random_gradients.hpp"
#include "schedules/random_sdpa.hpp"
#include "schedules/tables.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

// From here on numbers of f16 become infinite: halfway from the largest one to the next power of 2.
index_t beyond_limit(const GapTensor<float>& results) {
  index_t count = 0;
  for (const float x : results.values())
    if (std::isfinite(x) && std::fabs(x) >= 65520.0F) ++count;
  return count;
}

// So that results come near the limit.
void enlarge(GapTensor<f16>* tensor, float factor) {
  for (f16& x : tensor->values()) {
    const float value = to_float(x);
    if (!std::isnan(value)) x = from_float<f16>(std::clamp(factor * value, -65504.0F, 65504.0F));
  }
}

struct Counted {
  const char* name;
  Operand operand;
  const GapTensor<f16>* rounded;
  const GapTensor<float>* results;
};

// Runs with counts and without; adds up what was found.
template <class Run>
void expect_counts(const std::vector<Counted>& all, const Run& run, index_t* found) {
  std::vector<std::vector<f16>> uncounted;
  ASSERT_OK(run(1, nullptr));
  for (const Counted& each : all) uncounted.push_back(each.rounded->values());
  for (const int threads : thread_counts) {
    OverflowCounts counts;
    ASSERT_OK(run(threads, &counts));
    index_t sum = 0;
    for (std::size_t k = 0; k < all.size(); ++k) {
      const index_t expected = beyond_limit(*all[k].results);
      EXPECT_EQ(counts.of(all[k].operand), expected) << all[k].name << " with " << threads;
      EXPECT_TRUE(same_bytes(all[k].rounded->values(), uncounted[k])) << all[k].name;
      sum += expected;
    }
    for (int operand = 0; operand < operand_count; ++operand)
      sum -= counts.of(static_cast<Operand>(operand));
    EXPECT_EQ(sum, 0) << "of another result";
  }
  for (const Counted& each : all) *found += beyond_limit(*each.results);
}

TEST(Overflow, OfSdpaIsCounted) {
  static const auto tables = tables_under_test<float>();
  RandomProblem random(180);
  index_t found = 0, by_rows = 0;
  for (int number = 0; number < 80 && !this->HasFailure(); ++number) {
    SdpaShape shape = random_shape(&random, 40, 20);
    SdpaSet set = random_set(&random);
    add_random_bias(&random, &shape, &set);
    set.accumulate = false;
    SdpaBlocks blocks = any_blocks(&random);
    blocks.keys.one_pass = blocks.keys.one_pass && !set.dBias;
    const auto* table = tables[std::size_t(random.uniform(0, index_t(tables.size()) - 1))];
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + " " + name_of(blocks.by_keys));
    HalfCase<f16> half(shape);
    HalfCase<f16, float> wide(shape);
    half.randomise(unsigned(number));
    enlarge(&half.d_o, 0x1p14F);
    enlarge(&half.v, 16);
    ASSERT_OK(half.forward(blocks.rows, {table}));
    wide.set_inputs(half);
    wide.set_forward(half);
    ASSERT_OK(wide.backward(set, blocks, {table}));
    expect_counts(
        {{"dQ", Operand::dQ, &half.dq, &wide.dq},
         {"dK", Operand::dA2, &half.dk, &wide.dk},
         {"dV", Operand::W, &half.dv, &wide.dv},
         {"dBias", Operand::dBias, &half.d_bias, &wide.d_bias}},
        [&](int threads, OverflowCounts* overflows) {
          return half.backward(set, blocks, {table, threads, nullptr, overflows});
        },
        &found);
    if (set.dQ && set.query_pass(blocks)) by_rows += beyond_limit(wide.dq);
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(by_rows, 10);
}

TEST(Overflow, OfGradientsOfALayerIsCounted) {
  static const auto tables = tables_under_test<float>();
  RandomProblem random(181);
  index_t found = 0;
  for (int number = 0; number < 60 && !this->HasFailure(); ++number) {
    LayerProblem problem;
    problem.shape = random.shape(40, 20);
    if (number % 4 == 2) problem.batch = random.uniform(2, 3);
    const auto* table = tables[std::size_t(random.uniform(0, index_t(tables.size()) - 1))];
    const index_t dk = random.logarithmic(1, 20);
    const GradientSet set = random_set(&random, problem.shape.tie, dk);
    const LayerBlocks blocks = any_blocks(&random, problem.shape, set);
    SCOPED_TRACE(to_text(problem) + " " + describe(set));
    LayerHalfCase<f16> half(problem, dk);
    LayerHalfCase<f16, float> wide(problem, dk);
    half.randomise(unsigned(number));
    enlarge(&half.d_o, 0x1p14F);
    ASSERT_OK(half.forward(blocks.rows, {table}));
    wide.set_inputs(half);
    wide.set_forward(half);
    ASSERT_OK(wide.backward(set, blocks, {table}));
    expect_counts(
        {{"dX", Operand::dX, &half.dx, &wide.dx},
         {"dY", Operand::dY, &half.dy, &wide.dy},
         {"dA1", Operand::dA1, &half.da1, &wide.da1},
         {"dA2", Operand::dA2, &half.da2, &wide.da2},
         {"dA3", Operand::dA3, &half.da3, &wide.da3},
         {"dA", Operand::dA, &half.da, &wide.da},
         {"dW_Q", Operand::dW_Q, &half.dw_q, &wide.dw_q},
         {"dW_K", Operand::dW_K, &half.dw_k, &wide.dw_k}},
        [&](int threads, OverflowCounts* overflows) {
          return half.backward(set, blocks, {table, threads, nullptr, overflows});
        },
        &found);
  }
  EXPECT_GT(found, 100);
}

// O of a layer is no mean of rows that are there: A3 Y may be large.
TEST(Overflow, OfTheOutputOfALayerIsCounted) {
  static const auto tables = tables_under_test<float>();
  RandomProblem random(182);
  index_t found = 0;
  for (int number = 0; number < 50 && !this->HasFailure(); ++number) {
    LayerProblem problem;
    problem.shape = random.shape(40, 20);
    const auto* table = tables[std::size_t(random.uniform(0, index_t(tables.size()) - 1))];
    GradientSet any;
    any.dX = true;
    Blocks blocks = any_blocks(&random, problem.shape, any).rows;
    if (number % 5 < 3) blocks.products = Products::fused;
    SCOPED_TRACE(to_text(problem) + " " + name_of(blocks.form) + " " + name_of(blocks.products));
    LayerHalfCase<f16> half(problem, 1);
    LayerHalfCase<float> full(problem, 1);
    half.randomise(unsigned(number));
    enlarge(&half.y, 0x1p14F);
    full.set_inputs(half);
    ASSERT_OK(full.forward(blocks, {table}));
    expect_counts(
        {{"O", Operand::O, &half.o, &full.o}},
        [&](int threads, OverflowCounts* overflows) {
          return half.forward(blocks, {table, threads, nullptr, overflows});
        },
        &found);
  }
  EXPECT_GT(found, 100);
}

// A sum of two numbers, of products of pairs too: half a unit in the last place beyond the largest
// number, and a quarter.
TEST(Overflow, OfBf16IsCounted) {
  auto tables = tables_of_pairs();
  for (const auto* table : tables_under_test<float>()) tables.push_back(table);
  SdpaShape shape = {1, 1, 1, 2, 1, 1, 2, {}};
  SdpaSet set;
  set.dV = true;
  for (const auto* table : tables) {
    for (const Schedule by_keys : {Schedule::col_stream, Schedule::tile_fused}) {
      HalfCase<bf16> half(shape);
      half.randomise(1);
      const auto set_row = [&](index_t row, float first, float second) {
        *half.d_o.view().matrix(0, 0).at(row, 0) = from_float<bf16>(first);
        *half.d_o.view().matrix(0, 0).at(row, 1) = from_float<bf16>(second);
      };
      set_row(0, 0x1.fep127F, 0x1.fep127F);
      set_row(1, 0x1p119F, 0x1p118F);
      SdpaBlocks blocks;
      blocks.rows.form = blocks.keys.form = Form::h;
      blocks.rows.products = Products::stored;
      for (index_t Blocks::*size : {&Blocks::r, &Blocks::c, &Blocks::rho, &Blocks::w, &Blocks::o})
        blocks.rows.*size = blocks.keys.*size = 2;
      blocks.by_keys = by_keys;
      ASSERT_OK(half.forward(blocks.rows, {table}));
      OverflowCounts counts;
      ASSERT_OK(half.backward(set, blocks, {table, 1, nullptr, &counts}));
      EXPECT_EQ(counts.of(Operand::W), 1) << name_of(table->tile.isa) << " " << name_of(by_keys);
    }
  }
}

}  // namespace
}  // namespace ioattn_test
