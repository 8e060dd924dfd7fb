#include "base/mask.hpp"

#include <gtest/gtest.h>

namespace ioattn {
namespace {

TEST(Mask, CountsVisiblePairsAsItsRowsDo) {
  const index_t limits[] = {-Mask::unbounded, -30, -7, -1, 0, 1, 5, 12, 40, Mask::unbounded};
  for (const index_t first : limits)
    for (const index_t last : limits)
      for (const index_t n : {0, 1, 7, 20})
        for (const index_t m : {0, 1, 6, 25}) {
          const Mask mask = {first, last};
          index_t pairs = 0;
          for (index_t i = 0; i < n; ++i) pairs += mask.of_row(i, m).size();
          EXPECT_EQ(visible_pairs(mask, n, m), pairs)
              << first << " to " << last << ", n " << n << ", m " << m;
        }
}

// Not row by row.
TEST(Mask, CountsVisiblePairsOfLongSequences) {
  const index_t n = index_t(1) << 30;
  EXPECT_EQ(visible_pairs(causal_top_left(), n, n), n / 2 * (n + 1));
  EXPECT_EQ(visible_pairs(window(0, 100, 0), n, n), n * 101 - 100 * 101 / 2);
  EXPECT_EQ(visible_pairs(causal_top_left(), index_t(1) << 40, 1), index_t(1) << 40);
}

}  // namespace
}  // namespace ioattn
