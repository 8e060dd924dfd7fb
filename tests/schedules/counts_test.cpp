// For every schedule: what an observer counts is the closed formula, the footprint fits in M, and
// no lower bound of the schedule's class exceeds the count.

#include <gtest/gtest.h>

#include <algorithm>

#include "instruments/io_counter.hpp"
#include "plan/blocks/blocking.hpp"
#include "schedules/layer_data.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_problem.hpp"
#include "schedules/variant_case.hpp"
#include "status_ok.hpp"
#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

std::string describe(const IoCost& count) {
  return "reads " + std::to_string(count.reads) + ", writes " + std::to_string(count.writes) +
         ", created " + std::to_string(count.created) + ", footprint " +
         std::to_string(count.footprint);
}

// Under a mask the formula of the footprint is an upper bound.
std::string formula_of(IoCost cost, const IoCost& count, const LayerShape& shape) {
  if (shape.mask.hides() && count.footprint < cost.footprint) cost.footprint = count.footprint;
  return describe(cost);
}

class Counts : public testing::TestWithParam<VariantCase> {
 protected:
  // Counts one run and holds it against the formula, phase by phase.
  void check(const LayerShape& shape, const Blocks& blocks, index_t M) {
    const Variant& v = GetParam().variant;
    SCOPED_TRACE(to_text(LayerProblem{shape, DType::f32}) + " M=" + std::to_string(M) +
                 " r=" + std::to_string(blocks.r) + " c=" + std::to_string(blocks.c) +
                 " rho=" + std::to_string(blocks.rho));
    LayerData<float> data(shape, 0, random_.engine());
    instruments::IoCounter counter;
    ASSERT_OK(run_pass(v.pass, v.schedule, shape, blocks, odd_tile<float>(), 1, &counter, &data));
    ASSERT_EQ(counter.violation(), "");
    const theory::ScheduleCost cost = theory::io_cost(v.pass, v.schedule, shape, blocks);
    ASSERT_EQ(describe(counter.total()), formula_of(cost.total(), counter.total(), shape));
    ASSERT_EQ(static_cast<int>(counter.phases().size()), cost.phase_count);
    for (int i = 0; i < cost.phase_count; ++i) {
      const auto& counted = counter.phases()[static_cast<std::size_t>(i)];
      const theory::PhaseCost& formula = cost.phases[static_cast<std::size_t>(i)];
      ASSERT_STREQ(counted.name, formula.name);
      ASSERT_EQ(describe(counted.count), formula_of(formula.cost, counted.count, shape))
          << formula.name;
    }
    if (GetParam().literal) {
      // As printed it need not fit; its own footprint is the memory that it was counted with.
      M = std::max(M, counter.total().footprint);
    }
    ASSERT_LE(counter.total().footprint, M);
    const theory::Bound bound =
        theory::lower_bound(v.pass, theory::class_of(v.pass, v.schedule), shape, M);
    ASSERT_LE(bound.words, static_cast<double>(counter.total().words())) << bound.name;
    ++cases_;
  }

  RandomProblem random_{20261121};
  int cases_ = 0;
};

// Blocks that the planner takes for a random M.
TEST_P(Counts, PlannedBlocks) {
  const Variant& v = GetParam().variant;
  while (cases_ < 2000 && !HasFatalFailure()) {
    LayerShape shape = random_.shape(40, 14);
    if (takes_masks(v.schedule) && cases_ % 2 == 1) shape.mask = random_.mask(shape.n, shape.m);
    const auto [n, m, d, e, tie, mask] = shape;
    const index_t most = 2 * (n * d + 2 * m * d + 2 * d * d + n * e + 2 * n * m);
    const index_t least = plan::least_fast_memory(v, shape);
    const index_t M = random_.logarithmic(least, std::max(least, most));
    Blocks blocks;
    ASSERT_TRUE(
        plan::choose_blocks(v, GetParam().literal, shape, M, odd_tile<float>().tile, &blocks));
    check(shape, blocks, M);
  }
}

// Blocks of any size, also larger than the matrix, as a plan given by hand may have them.
TEST_P(Counts, AnyBlocks) {
  const Variant& v = GetParam().variant;
  while (cases_ < 500 && !HasFatalFailure()) {
    LayerShape shape = random_.shape(30, 12);
    if (takes_masks(v.schedule) && cases_ % 2 == 1) shape.mask = random_.mask(shape.n, shape.m);
    Blocks blocks;
    blocks.form = v.form;
    blocks.products = v.products;
    blocks.literal = GetParam().literal;
    for (const SizeField& field : size_fields()) {
      if (uses(v, field.name)) blocks.*field.size = random_.logarithmic(1, 40);
    }
    for (const ProductField& field : product_fields()) {
      if (!uses(v, field.name)) continue;
      blocks.*field.product = {random_.logarithmic(1, 40), random_.logarithmic(1, 40),
                               random_.logarithmic(1, 40), random_.uniform(0, 1) == 1};
    }
    if (v.schedule == Schedule::naive) {
      blocks.r = random_.uniform(0, 1);
      blocks.c = random_.logarithmic(1, 40);
    }
    if (uses(v, "r") && uses(v, "rho")) {
      blocks.rho = std::min(blocks.rho, blocks.r);
      blocks.r = round_up(blocks.r, blocks.rho);
    }
    const bool may_park = v.schedule == Schedule::tile_fused && v.pass == Pass::backward;
    blocks.parked = may_park && random_.uniform(0, 1) == 1;
    const index_t M = theory::io_cost(v.pass, v.schedule, shape, blocks).total().footprint;
    check(shape, blocks, M);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Counts, testing::ValuesIn(cases_of_queries()), name_of_variant);

}  // namespace
}  // namespace ioattn_test
