// Blocks for any M: they fit, they exist from least_fast_memory on, and they keep the rules that
// the schedules rely on.

#include "plan/blocks/blocking.hpp"

#include <gtest/gtest.h>

#include "reference/sanitizer.hpp"
#include "schedules/random_problem.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn::plan {
namespace {

constexpr TileShape tiles[] = {{Isa::scalar, 4, 4},
                               {Isa::avx2, 6, 16},
                               {Isa::avx512, 8, 32},
                               {Isa::neon, 8, 8},
                               {Isa::scalar, 3, 5}};

index_t footprint(Pass pass, Schedule schedule, const LayerShape& shape, const Blocks& blocks) {
  return theory::io_cost(pass, schedule, shape, blocks).total().footprint;
}

std::string describe(const Variant& variant, const LayerShape& shape, index_t M) {
  LayerProblem problem;
  problem.shape = shape;
  return std::string(name_of(variant.pass)) + " " + to_text(variant) + ", " + to_text(problem) +
         ", M = " + std::to_string(M);
}

// Fields that the schedule uses are at least 1.
void check_positive(const Variant& variant, const Blocks& blocks) {
  for (const SizeField& field : size_fields()) {
    if (!uses(variant, field.name)) continue;
    EXPECT_GE(blocks.*field.size, 1) << field.name;
  }
  for (const ProductField& field : product_fields()) {
    if (!uses(variant, field.name)) continue;
    EXPECT_GE((blocks.*field.product).rows, 1) << field.name;
    EXPECT_GE((blocks.*field.product).cols, 1) << field.name;
    EXPECT_GE((blocks.*field.product).depth, 1) << field.name;
  }
  EXPECT_EQ(variant_of(variant.pass, variant.schedule, blocks), variant);
}

bool whole_or_small(index_t size, int tile) { return size < tile || size % tile == 0; }

void check_rows(const LayerShape& shape, const TileShape& tile, const Blocks& blocks) {
  EXPECT_TRUE(blocks.r >= shape.n || blocks.r % blocks.rho == 0);
  EXPECT_TRUE(blocks.rho <= blocks.r || blocks.r >= shape.n);
  EXPECT_TRUE(whole_or_small(blocks.w, tile.rows));
  EXPECT_TRUE(whole_or_small(blocks.a, tile.rows));
  EXPECT_TRUE(whole_or_small(blocks.b, tile.cols));
}

TEST(Blocking, FitsFromTheLeastFastMemoryOn) {
  ioattn_test::RandomProblem random(20);
  int refused = 0, granted = 0;
  for (int round = 0; round < ioattn_test::cases(3000); ++round) {
    const bool large = round % 2 == 0;
    const LayerShape shape = random.shape(large ? 5000 : 60, large ? 900 : 40);
    const index_t M = random.logarithmic(1, large ? 1 << 20 : 1 << 14);
    const TileShape& tile = tiles[round % 4];
    for (const Variant& choice : variants()) {
      SCOPED_TRACE(describe(choice, shape, M));
      const auto [pass, schedule, form, products] = choice;
      const index_t least = least_fast_memory(choice, shape);
      Blocks before;
      before.r = -1;
      before.literal = true;
      Blocks blocks = before;
      const bool exists_here = choose_blocks(choice, false, shape, M, tile, &blocks);
      ASSERT_EQ(exists_here, M >= least) << "least " << least;
      if (!exists_here) {
        ++refused;
        ASSERT_EQ(blocks, before) << "touched";
        continue;
      }
      ++granted;
      ASSERT_FALSE(blocks.literal);
      check_positive(choice, blocks);
      ASSERT_LE(footprint(pass, schedule, shape, blocks), M);
      if (uses(choice, "r") && uses(choice, "rho")) check_rows(shape, tile, blocks);
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_GT(refused, ioattn_test::cases(3000));
  EXPECT_GT(granted, ioattn_test::cases(3000));
}

// The boundary itself, which a random M seldom meets.
TEST(Blocking, ExistsAtTheLeastAndNotBelow) {
  ioattn_test::RandomProblem random(21);
  for (int round = 0; round < 500; ++round) {
    const LayerShape shape = random.shape(300, 100);
    for (const Variant& choice : variants()) {
      const auto [pass, schedule, form, products] = choice;
      const index_t least = least_fast_memory(choice, shape);
      SCOPED_TRACE(describe(choice, shape, least));
      Blocks blocks;
      ASSERT_TRUE(choose_blocks(choice, false, shape, least, tiles[1], &blocks));
      ASSERT_LE(footprint(pass, schedule, shape, blocks), least);
      ASSERT_FALSE(choose_blocks(choice, false, shape, least - 1, tiles[1], &blocks));
    }
  }
}

// Sizes of the results of the products of stationary and score_stored.
struct ResultSize {
  index_t rows, cols;
};
ResultSize result_size(const Variant& v, std::string_view product, const LayerShape& shape) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool forward = v.pass == Pass::forward;
  if (product == "s" || product == "g") return {n, d};
  if (product == "h") return {m, e};
  if (product == "f" || product == "q") return {n, m};
  if (product == "u") return {n, forward && v.form == Form::h ? e : d};
  return forward ? ResultSize{n, e} : ResultSize{d, d};
}

void check_one_tile(const Variant& v, const LayerShape& shape, const Blocks& blocks) {
  for (const ProductField& field : product_fields()) {
    if (!uses(v, field.name)) continue;
    const ProductBlocks& tile = blocks.*field.product;
    const ResultSize size = result_size(v, field.name, shape);
    ASSERT_GE(tile.rows, size.rows) << field.name;
    ASSERT_TRUE(tile.keep_a || tile.cols >= size.cols) << field.name;
  }
}

TEST(Blocking, HoldsEverythingWhereMemoryHasNoEnd) {
  ioattn_test::RandomProblem random(22);
  constexpr index_t M = index_t(1) << 40;
  for (int round = 0; round < 100; ++round) {
    const LayerShape shape = random.shape(3000, 500);
    for (const Variant& choice : variants()) {
      SCOPED_TRACE(describe(choice, shape, M));
      const auto [pass, schedule, form, products] = choice;
      Blocks blocks;
      ASSERT_TRUE(choose_blocks(choice, false, shape, M, tiles[1], &blocks));
      ASSERT_LE(footprint(pass, schedule, shape, blocks), M);
      if (schedule == Schedule::naive) {
        ASSERT_EQ(blocks, Blocks());  // no blocks: resident
      } else if (pass == Pass::backward_keys) {
        ASSERT_GE(blocks.c, shape.m);
      } else if (schedule == Schedule::resident) {
        // its rows stream whatever M is
        ASSERT_GT(blocks.r, std::min<index_t>(shape.n, 64) - tiles[1].cols);
      } else if (schedule == Schedule::paper_large && pass == Pass::backward) {
        ASSERT_GE(blocks.r, std::min(shape.n, shape.d));  // the paper's B_r is at most d
      } else if (uses(choice, "r")) {
        ASSERT_GE(blocks.r, shape.n);
      } else {
        check_one_tile(choice, shape, blocks);
      }
      ASSERT_FALSE(HasFailure());
    }
  }
}

// What sets the two apart: score_stored keeps whole rows, stationary one tile of n x m products.
TEST(Blocking, WhatStaysInTheLargeProducts) {
  ioattn_test::RandomProblem random(24);
  for (int round = 0; round < 500; ++round) {
    const LayerShape shape = random.shape(3000, 500);
    for (const Variant& v : variants()) {
      const bool rows_stay = v.schedule == Schedule::score_stored;
      if (!rows_stay && v.schedule != Schedule::stationary) continue;
      const index_t M = least_fast_memory(v, shape) * random.logarithmic(1, 1000);
      SCOPED_TRACE(describe(v, shape, M));
      Blocks blocks;
      ASSERT_TRUE(choose_blocks(v, false, shape, M, tiles[1], &blocks));
      ASSERT_EQ(blocks.f.keep_a, rows_stay);
      ASSERT_FALSE(blocks.u.keep_a || blocks.q.keep_a);
      if (rows_stay) {
        ASSERT_EQ(blocks.u.cols, result_size(v, "u", shape).cols);
      }
      if (v.pass == Pass::backward && v.form == Form::g && shape.tie != Tie::none) {
        ASSERT_EQ(blocks.q, blocks.f);  // one pair of tiles
      }
    }
  }
}

// naive takes the paper's blocks of one row where its matrices do not fit.
TEST(Blocking, NaiveIsResidentWhereItFits) {
  ioattn_test::RandomProblem random(23);
  for (int round = 0; round < 500; ++round) {
    const LayerShape shape = random.shape(60, 30);
    Blocks resident;
    const index_t needed = footprint(Pass::backward, Schedule::naive, shape, resident);
    for (const index_t M : {needed, needed - 1}) {
      Blocks blocks;
      if (!choose_blocks({Pass::backward, Schedule::naive, Form::g}, false, shape, M, tiles[0],
                         &blocks)) {
        continue;
      }
      ASSERT_EQ(blocks.r, M == needed ? 0 : 1);
    }
  }
}

// Theory's sides: B = sqrt(M) / 2 for the small cache, B_r = min(ceil(M / 4d), d), B_c = ceil(M /
// 4d) for the large one as printed, whether it fits or not.
TEST(Blocking, PaperSidesAreThePapers) {
  ioattn_test::RandomProblem random(24);
  int overflows = 0;
  for (int round = 0; round < 2000; ++round) {
    const LayerShape shape = random.shape(500, 100);
    const index_t M = random.logarithmic(5, 1 << 20);
    Blocks blocks;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      ASSERT_TRUE(
          choose_blocks({pass, Schedule::paper_small, Form::g}, true, shape, M, tiles[1], &blocks));
      ASSERT_FALSE(blocks.literal);  // the small blocks fit as printed
      ASSERT_EQ(blocks.r, blocks.c);
      ASSERT_TRUE(blocks.r == 1 || 4 * blocks.r * blocks.r <= M);
      ASSERT_GT(4 * (blocks.r + 1) * (blocks.r + 1), M);

      ASSERT_TRUE(
          choose_blocks({pass, Schedule::paper_large, Form::g}, true, shape, M, tiles[1], &blocks));
      ASSERT_TRUE(blocks.literal);
      const index_t side = (M + 4 * shape.d - 1) / (4 * shape.d);
      ASSERT_EQ(blocks.c, side);
      ASSERT_EQ(blocks.r, pass == Pass::backward ? std::min(side, shape.d) : side);
      overflows += footprint(pass, Schedule::paper_large, shape, blocks) > M;
    }
  }
  EXPECT_GT(overflows, 100);  // the reason why there is a literal form
}

TEST(Blocking, OnlyPaperLargeHasALiteralForm) {
  const LayerShape shape = {50, 40, 12, 7, Tie::none};
  for (const Variant& choice : variants()) {
    const auto [pass, schedule, form, products] = choice;
    const index_t least = least_fast_memory(choice, shape);
    SCOPED_TRACE(describe(choice, shape, least));
    Blocks blocks;
    const bool large = schedule == Schedule::paper_large;
    EXPECT_EQ(choose_blocks(choice, true, shape, least - 1, tiles[1], &blocks), large);
    ASSERT_TRUE(choose_blocks(choice, true, shape, least, tiles[1], &blocks));
    EXPECT_EQ(blocks.literal, large);
  }
}

TEST(Blocking, LargeBlocksAreTheLargestThatFit) {
  ioattn_test::RandomProblem random(25);
  int larger = 0;
  for (int round = 0; round < 500; ++round) {
    const LayerShape shape = random.shape(300, 60);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const index_t least = least_fast_memory({pass, Schedule::paper_large, Form::g}, shape);
      const index_t M = least * random.logarithmic(1, 50);
      Blocks blocks;
      ASSERT_TRUE(choose_blocks({pass, Schedule::paper_large, Form::g}, false, shape, M, tiles[1],
                                &blocks));
      const index_t side = blocks.c;
      if (side >= std::max({shape.n, shape.m, shape.d, shape.dv})) continue;
      ++blocks.c;
      blocks.r = pass == Pass::backward ? std::min(side + 1, shape.d) : side + 1;
      ASSERT_GT(footprint(pass, Schedule::paper_large, shape, blocks), M);
      ++larger;
    }
  }
  EXPECT_GT(larger, 100);
}

}  // namespace
}  // namespace ioattn::plan
