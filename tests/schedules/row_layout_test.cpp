// Which rows are read as lanes where they lie.

#include <gtest/gtest.h>

#include "schedules/memory/row_layout.hpp"

namespace ioattn::schedules {
namespace {

template <class T>
bool are_lanes_at(index_t stride, index_t cols, index_t nr, index_t first = 0) {
  alignas(64) static const T memory[64 / sizeof(T)] = {};
  return are_lanes(memory + first, stride, cols, nr);
}

TEST(RowLayout, LanesBeginWithLinesAndAreWholePanelsCloseTogether) {
  EXPECT_TRUE(are_lanes_at<float>(96, 96, 32));
  EXPECT_TRUE(are_lanes_at<float>(144, 96, 32));
  EXPECT_FALSE(are_lanes_at<float>(96, 96, 32, 1));
  EXPECT_FALSE(are_lanes_at<float>(100, 96, 32));
  EXPECT_FALSE(are_lanes_at<float>(96, 80, 32));
  EXPECT_FALSE(are_lanes_at<float>(192, 96, 32));
}

// 64 rows of a sum, a line of each: in L1 of 64 sets and 8 ways 32 stay that are 1 KiB apart.
TEST(RowLayout, LanesOfOneLineDoNotShareSets) {
  for (const index_t cols : {64, 128, 192, 320, 384}) {
    EXPECT_TRUE(are_lanes_at<float>(cols, cols, 16)) << cols;
    EXPECT_TRUE(are_lanes_at<double>(cols / 2, cols / 2, 8)) << cols;
  }
  for (const index_t cols : {256, 512, 768}) {
    EXPECT_FALSE(are_lanes_at<float>(cols, cols, 16)) << cols;
    EXPECT_FALSE(are_lanes_at<double>(cols / 2, cols / 2, 8)) << cols;
    EXPECT_TRUE(are_lanes_at<float>(cols, cols, 32)) << cols;
    EXPECT_TRUE(are_lanes_at<float>(cols + 16, cols, 16)) << cols;
  }
  EXPECT_FALSE(are_lanes_at<float>(1024, 1024, 32));
}

}  // namespace
}  // namespace ioattn::schedules
