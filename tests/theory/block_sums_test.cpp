#include "theory/block_sums.hpp"

#include <gtest/gtest.h>

#include "theory/random_shapes.hpp"

namespace ioattn::theory {
namespace {

using ioattn_test::Random;

// By a look at every block.
BlockSums counted(const Mask& mask, index_t n, index_t m, index_t height, index_t strip,
                  index_t width) {
  BlockSums sums;
  for (index_t block = 0; block < n; block += height) {
    const index_t end = std::min(block + height, n);
    for (index_t i = block; i < end; i += strip) {
      const Interval rows = {i, std::min(i + strip, end)};
      const Interval seen = mask.of_any(rows, m);
      if (seen.is_empty()) continue;
      index_t tiles = 0;
      for (index_t j = 0; j < m; j += width)
        tiles += intersect(seen, {j, j + width}).is_empty() ? 0 : 1;
      sums += {rows.size(), seen.size(), rows.size() * seen.size(), rows.size() * tiles};
    }
  }
  return sums;
}

TEST(BlockSums, AreThoseOfEveryBlock) {
  Random random(5);
  int empty = 0;
  for (int i = 0; i < 60000; ++i) {
    const index_t n = random.below(90), m = random.below(90);
    const index_t height = 1 + random.below(30), strip = 1 + random.below(30);
    const index_t width = 1 + random.below(30);
    Mask mask;
    if (random.coin()) mask.first = random.below(240) - 120;
    if (random.coin()) mask.last = random.below(240) - 120;
    SCOPED_TRACE(testing::Message() << n << "x" << m << " in " << height << "/" << strip << "x"
                                    << width << ", keys " << mask.first << " to " << mask.last);
    const BlockSums blocks = counted(mask, n, m, height, height, width);
    const BlockSums strips = counted(mask, n, m, height, strip, width);
    ASSERT_EQ(block_sums(mask, n, m, height, width), blocks);
    ASSERT_EQ(strip_sums(mask, n, m, height, strip, width), strips);
    empty += strips == BlockSums() ? 1 : 0;
  }
  EXPECT_LT(empty, 30000);
}

// n m 2^50 pairs.
TEST(BlockSums, OfLongSequences) {
  const index_t n = index_t(1) << 25, m = n;
  const BlockSums sums = strip_sums(causal_top_left(), n, m, 3 << 20, 3 << 10, 1 << 10);
  const BlockSums whole = block_sums(causal_top_left(), n, m, 1 << 10, 1 << 10);
  EXPECT_EQ(whole.pairs, n * (n + 1024) / 2);
  EXPECT_EQ(whole.row_tiles, n * (n / 1024 + 1) / 2);
  EXPECT_EQ(whole.rows, n);
  EXPECT_GT(sums.pairs, whole.pairs);
}

}  // namespace
}  // namespace ioattn::theory
