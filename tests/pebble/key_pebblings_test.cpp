// The passes over the keys, and SDPA with either of its schedules, pebble their graphs.

#include <gtest/gtest.h>

#include "pebble/expect_pebbling.hpp"
#include "pebble/pebbler.hpp"
#include "schedules/keys/col_stream.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/sdpa_case.hpp"
#include "schedules/trace.hpp"
#include "status_ok.hpp"
#include "theory/block_costs.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using pebble::AttentionCdag;
using pebble::Pebbler;

// Runs col_stream on zeros: the events depend on sizes alone.
void run_col_stream(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                    Observer* observer) {
  const auto& table = odd_tile<float>();
  const index_t width = std::max(shape.d, shape.dv) + table.tile.cols;
  const index_t rows = std::max(shape.n, shape.m) + 1;
  std::vector<float> zeros(static_cast<std::size_t>(rows * width)), sums[3] = {zeros, zeros, zeros};
  const index_t value = blocks.form == Form::g ? shape.d : shape.dv;
  const auto in = [&](index_t count, index_t cols) {
    return MatrixView<const float>{zeros.data(), count, cols, width};
  };
  schedules::KeyPassOperands<float> operands;
  operands.keys = in(shape.m, shape.d);
  operands.queries = in(shape.n, shape.d);
  operands.d_o = in(shape.n, value);
  operands.g = in(shape.n, value);
  operands.a3 = operands.values = in(shape.m, value);
  operands.lse = operands.delta = zeros.data();
  operands.d_keys = {sums[0].data(), shape.m, shape.d, width};
  if (kind.is_sum()) operands.d_keys_name = Operand::dA;
  operands.d_values = {sums[1].data(), shape.m, value, width};
  operands.d_queries = {sums[2].data(), shape.n, shape.d, width};
  schedules::WorkspaceLayout layout;
  const schedules::ColStream<float> pass(shape, blocks, kind, table.tile.cols, 1, &layout);
  schedules::WorkspaceMemory buffer;
  ASSERT_OK(layout.allocate(nullptr, &buffer));
  pass.run(table, schedules::Trace(observer), operands, buffer.data());
}

TEST(KeyPebblings, ColStream) {
  RandomProblem random(61);
  for (int trial = 0; trial < 60 && !HasFatalFailure(); ++trial) {
    const LayerShape shape = random.shape(5, 4);
    Blocks blocks;
    blocks.c = random.uniform(1, 5);
    blocks.rho = random.uniform(1, 5);
    for (const Form form : {Form::g, Form::h}) {
      blocks.form = form;
      for (const KeyGradients wanted :
           {KeyGradients::keys, KeyGradients::values, KeyGradients::both, KeyGradients::sum}) {
        if (wanted == KeyGradients::sum && (form == Form::h || shape.tie == Tie::none)) continue;
        const KeyPassKind kind(wanted, random.uniform(0, 1) == 1);
        SCOPED_TRACE(to_text(LayerProblem{shape}) + " form " + name_of(form) + " " +
                     name_of(wanted) + (kind.queries ? " U" : ""));
        AttentionCdag cdag;
        const Status made = AttentionCdag::make(pebble::key_pass_recipe(shape, form, kind), &cdag);
        ASSERT_OK(made);
        Pebbler pebbler(cdag);
        run_col_stream(shape, blocks, kind, &pebbler);
        expect_pebbling(cdag, pebbler, theory::col_stream(shape, blocks, kind));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(KeyPebblings, SdpaWithEitherSchedule) {
  RandomProblem random(62);
  const auto& table = odd_tile<float>();
  int tiles = 0, one_pass = 0, queries_alone = 0;
  for (int trial = 0; trial < 150 && !HasFatalFailure(); ++trial) {
    const LayerShape sizes = random.shape(5, 4);
    SdpaShape shape;
    shape.n = sizes.n, shape.m = sizes.m, shape.d = sizes.d, shape.dv = sizes.dv;
    SdpaSet set = random_set(&random);
    set.accumulate = false;
    const SdpaBlocks blocks = any_blocks(&random);
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + (set.dQ ? " dQ" : "") + (set.dK ? " dK" : "") +
                 (set.dV ? " dV" : "") + " " + name_of(blocks.by_keys));
    SdpaCase<float> problem(shape, ref::Layout::bhsd, std::uint64_t(trial), 1.0);
    AttentionCdag forward, backward;
    ASSERT_OK(AttentionCdag::make(pebble::sdpa_forward_recipe(shape.head()), &forward));
    ASSERT_OK(AttentionCdag::make(pebble::sdpa_backward_recipe(shape.head(), set), &backward));

    for (const index_t r : {blocks.rows.r, index_t(0)}) {  // 0: tile_fused
      Blocks rows = blocks.rows;
      rows.r = r;
      Pebbler pebbler(forward);
      ASSERT_OK(problem.forward(rows, {&table, 1, &pebbler}));
      expect_pebbling(forward, pebbler, theory::sdpa_forward_cost(shape, rows).total());
      if (HasFatalFailure()) return;
    }
    Pebbler pebbler(backward);
    ASSERT_OK(problem.backward(set, blocks, {&table, 1, &pebbler}));
    expect_pebbling(backward, pebbler, theory::sdpa_backward_cost(shape, set, blocks).total());
    tiles += set.key_pass(blocks) && blocks.by_keys == Schedule::tile_fused;
    one_pass += set.in_one_pass(blocks);
    queries_alone += set.in_one_pass(blocks) && !set.keys();
  }
  EXPECT_GT(tiles, 30);
  EXPECT_GT(one_pass, 15);
  EXPECT_GT(queries_alone, 2);
}

}  // namespace
}  // namespace ioattn_test
