// The schedules that keep X and dX: weight_resident and resident.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "data_path.hpp"
#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"
#include "theory/word_level.hpp"

namespace ioattn::theory::word_level {
namespace {

// Made by an independent Python program: up to 33 rows walked word by word through a cache of M
// words, with values; above, by the formula that these walks confirm. reads = -1: M is too small.
TEST(WordLevel, WeightResidentMovesWhatTheWalkMoved) {
  std::ifstream file(ioattn_test::data_path("weight_resident.csv"));
  std::string line;
  std::getline(file, line);
  ASSERT_EQ(line, "n,m,d,M,tied,reads,writes");
  int fitting = 0, too_small = 0;
  while (std::getline(file, line)) {
    std::stringstream cells(line);
    index_t n, m, d, M, tied, reads, writes;
    char comma;
    cells >> n >> comma >> m >> comma >> d >> comma >> M >> comma >> tied >> comma >> reads >>
        comma >> writes;
    ASSERT_FALSE(cells.fail()) << line;
    const Cost cost = weight_resident_backward({n, m, d, d, tied != 0 ? Tie::kv : Tie::none}, M);
    ASSERT_EQ(cost.has_value(), reads >= 0) << line;
    if (!cost) {
      ++too_small;
      continue;
    }
    ++fitting;
    EXPECT_EQ(*cost, (Words{reads, writes})) << line;
  }
  EXPECT_GE(fitting, 130);
  EXPECT_EQ(too_small, 20);
}

const LayerShape shapes[] = {{5, 7, 3, 3, Tie::none},   {5, 7, 3, 3, Tie::kv},
                             {40, 9, 6, 2, Tie::none},  {9, 40, 6, 2, Tie::kv},
                             {30, 30, 4, 11, Tie::all}, {1, 1, 1, 1, Tie::none}};

// The words are those of the block schedule with as many rows, and need no more memory.
TEST(WordLevel, WeightResidentIsTheBlockScheduleOfAsManyPasses) {
  for (const LayerShape& shape : shapes) {
    Blocks blocks;
    blocks.c = blocks.w = blocks.o = 1;
    for (index_t rows = 1; rows <= shape.n; ++rows) {
      SCOPED_TRACE(testing::Message() << shape.n << " " << shape.m << " " << shape.d << " "
                                      << shape.dv << ", r = " << rows);
      blocks.r = blocks.rho = rows;
      const IoCost cost = io_cost(Pass::backward, Schedule::weight_resident, shape, blocks).total();
      const Cost words = weight_resident_backward(shape, cost.footprint);
      ASSERT_TRUE(words);
      EXPECT_LE(words->total(), cost.words());
    }
    const IoCost all = io_cost(Pass::backward, Schedule::weight_resident, shape, blocks).total();
    EXPECT_EQ(weight_resident_backward(shape, 1 << 20), (Words{all.reads, all.writes}));
  }
}

TEST(WordLevel, ResidentMovesEveryWordOnceWhateverIsTied) {
  for (LayerShape shape : shapes) {
    for (const Tie tie : {Tie::none, Tie::kv, Tie::all}) {
      shape.tie = tie;
      if (tie == Tie::all) shape.m = shape.n;
      Blocks blocks;
      blocks.r = blocks.c = 1;
      const IoCost cost = io_cost(Pass::backward, Schedule::resident, shape, blocks).total();
      EXPECT_EQ(double(cost.words()), compulsory_bound(Pass::backward, shape));
      EXPECT_EQ(resident_backward(shape, cost.footprint), (Words{cost.reads, cost.writes}));
    }
  }
}

TEST(WordLevel, ResidentSaysWhenMIsTooSmall) {
  // A2, h, X, dX and per row A1, dO, f, q; tied, A2 must fit beside Y when h is made; A1 = A2 is no
  // other row.
  for (const auto& [shape, M] : {std::pair{LayerShape{9, 20, 6, 5, Tie::none}, 343},
                                 {LayerShape{9, 20, 6, 5, Tie::kv}, 343},
                                 {LayerShape{20, 20, 6, 5, Tie::all}, 337},
                                 {LayerShape{9, 3, 4, 90, Tie::kv}, 642}}) {
    EXPECT_TRUE(resident_backward(shape, M));
    EXPECT_FALSE(resident_backward(shape, M - 1));
  }
}

}  // namespace
}  // namespace ioattn::theory::word_level
