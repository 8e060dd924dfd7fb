#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <vector>

#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/products/query_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/query_blocks.hpp"
#include "schedules/sharing/shared_blocks.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/tiles/tile_fused_forward.hpp"

// How problems and their blocks are shared out, against a count of what workers do that take blocks
// as they come.
namespace ioattn::schedules {
namespace {

// When the last worker ends, if every block takes as long as `time` says.
template <class Time>
index_t last_end(index_t size, index_t length, const Workers& workers, bool last_first,
                 const Time& time) {
  std::priority_queue<index_t, std::vector<index_t>, std::greater<>> ends;
  for (int i = 0; i < workers.count; ++i) ends.push(0);
  index_t last = 0;
  for (index_t problem = 0; problem < workers.problems; ++problem) {
    const index_t blocks = ceil_div(size, length);
    for (index_t i = 0; i < blocks; ++i) {
      const index_t first = (last_first ? blocks - 1 - i : i) * length;
      const index_t end = ends.top() + time({first, std::min(size, first + length)});
      ends.pop();
      ends.push(end);
      last = std::max(last, end);
    }
  }
  return last;
}

// In rows: every block takes as long as its rows and a pass.
index_t unmasked_end(index_t size, index_t length, const Workers& workers) {
  return last_end(size, length, workers, false,
                  [](const Interval& rows) { return rows.size() + 16; });
}

// In pairs of rows and what they see.
index_t masked_end(const Mask& mask, index_t size, index_t seen, index_t length,
                   const Workers& workers) {
  const bool last_first = see_more_at_the_end(mask, size, seen);
  return last_end(size, length, workers, last_first, [&](const Interval& rows) {
    index_t pairs = 16 * mask.of_any(rows, seen).size();
    for (index_t i = rows.begin; i < rows.end; ++i) pairs += mask.of_row(i, seen).size();
    return pairs;
  });
}

TEST(Sharing, LengthsAreStepsNoLongerThanTheBlock) {
  for (const int count : {1, 2, 3, 8, 64})
    for (const index_t problems : {1, 2, 9, 100})
      for (const index_t size : {1, 100, 1000})
        for (const index_t block : {1, 64, 300, 2000})
          for (const index_t step : {1, 32, 48}) {
            const index_t length = shared_block(size, block, step, {count, problems});
            ASSERT_GE(length, 1);
            ASSERT_LE(length, std::min(size, block));
            if (count == 1 || length % step != 0) {
              ASSERT_EQ(length, std::min(size, block));
            }
          }
}

// Hardly later than with the best of all lengths; at times much earlier than with blocks as long as
// they may be.
TEST(Sharing, TheLastWorkerEndsEarly) {
  double least = 1;
  for (const int count : {2, 4, 8, 16})
    for (index_t problems = 1; problems <= 5 * count; ++problems)
      for (const index_t size : {256, 1024, 2048, 4096})
        for (const index_t block : {128, 192, 384, 704, 1024}) {
          const Workers workers = {count, problems};
          constexpr index_t step = 64;
          const index_t whole = std::min(size, block);
          const index_t longest = unmasked_end(size, whole, workers);
          const index_t end = unmasked_end(size, shared_block(size, block, step, workers), workers);
          index_t best = longest;
          for (index_t length = step; length < whole; length += step)
            best = std::min(best, unmasked_end(size, length, workers));
          least = std::min(least, static_cast<double>(end) / static_cast<double>(longest));
          ASSERT_LE(static_cast<double>(end), 1.04 * static_cast<double>(best))
              << count << " workers, " << problems << " problems of " << size << " in " << block;
        }
  EXPECT_LT(least, 0.6);
}

TEST(Sharing, HeadsThatWorkersShareEvenlyAreNotCut) {
  EXPECT_EQ(shared_block(1024, 1024, 64, {2, 8}), 1024);
  EXPECT_EQ(shared_block(1024, 1024, 64, {2, 9}), 512) << "the ninth would keep one waiting";
  EXPECT_EQ(shared_block(1024, 1024, 64, {2, 1}), 512);
  EXPECT_EQ(shared_block(1024, 1024, 64, {2, 201}), 1024) << "one in a hundred is no matter";
}

// Halves of a triangle are a quarter and three.
TEST(Sharing, BlocksUnderAMaskAreCutUntilWorkersEndTogether) {
  const Mask causal = causal_top_left();
  EXPECT_EQ(shared_block(2048, 1024, 64, {1, 1}, causal, 2048), 1024);
  EXPECT_EQ(shared_block(2048, 1024, 64, {2, 4}, causal, 2048), 1024) << "eight for two";
  EXPECT_EQ(shared_block(2048, 1024, 64, {2, 1}, {}, 2048), 1024);
  double most = 0, least = 1;
  for (const int count : {2, 3, 4, 8, 16})
    for (const index_t problems : {1, 2, 3, 7})
      for (const index_t size : {256, 1000, 4096})
        for (const index_t block : {192, 704, 1024})
          for (const Mask& mask :
               {causal, causal.transposed(), window(0, 512, 0), causal_bottom_right(size, 5000)}) {
            const Workers workers = {count, problems};
            const index_t length = shared_block(size, block, 64, workers, mask, 5000);
            ASSERT_LE(length, std::min(size, block));
            ASSERT_TRUE(length % 64 == 0 || length == std::min(size, block)) << length;
            const index_t end = masked_end(mask, size, 5000, length, workers);
            const index_t whole = masked_end(mask, size, 5000, std::min(size, block), workers);
            const double ratio = static_cast<double>(end) / static_cast<double>(whole);
            ASSERT_LE(ratio, 1.03)
                << count << " workers, " << problems << " problems of " << size << " in " << block;
            if (problems > 1 || mask != causal || size < 4096) continue;
            const index_t alone = masked_end(mask, size, 5000, std::min(size, block), {1, 1});
            const double share = static_cast<double>(end * count) / static_cast<double>(alone);
            most = std::max(most, share);
            least = std::min(least, ratio);
          }
  EXPECT_LT(least, 0.7);
  EXPECT_LT(most, 1.15) << "times an even share of the time of one worker";
}

TEST(Sharing, PassesOverQueriesCutTheirBlocks) {
  LayerShape shape = {2048, 2048, 64, 64, Tie::none, causal_top_left()};
  Blocks blocks;
  blocks.r = blocks.rho = blocks.c = 1024;
  blocks.w = 64;
  blocks.form = Form::h;
  const auto tiles = [&](const Workers& workers) {
    WorkspaceLayout layout;
    const kernels::KernelTable<float>& table = ioattn_test::odd_tile<float>();
    return TileFusedForward<float>(shape, blocks, table, workers, &layout).block_count();
  };
  const auto rows = [&](const Workers& workers) {
    Blocks of_rows = blocks;
    of_rows.rho = 64;
    return ceil_div(shape.n, rows_per_block(shape, of_rows, workers));
  };
  EXPECT_EQ(rows({1, 1}), 2);
  EXPECT_EQ(tiles({1, 1}), 2);
  EXPECT_GT(rows({2, 1}), 2);
  EXPECT_GT(tiles({2, 1}), 2);
  shape.mask = {};
  EXPECT_EQ(rows({2, 1}), 2);
  EXPECT_EQ(tiles({2, 1}), 2);
}

TEST(Sharing, TheLongBlocksComeFirst) {
  EXPECT_TRUE(see_more_at_the_end(causal_top_left(), 100, 100));
  EXPECT_TRUE(see_more_at_the_end(causal_bottom_right(100, 300), 100, 300));
  EXPECT_FALSE(see_more_at_the_end(causal_top_left().transposed(), 100, 100));
  EXPECT_FALSE(see_more_at_the_end({}, 100, 100));
  EXPECT_FALSE(see_more_at_the_end(causal_top_left(), 0, 100));
}

// Whatever order they come in, they are those of blocks_within.
TEST(Sharing, BlocksOfQueriesAreAllOfThem) {
  for (const Mask& mask : {Mask{}, causal_top_left(), causal_top_left().transposed()})
    for (const Interval& some :
         {Interval{0, 100}, Interval{70, 300}, Interval{64, 128}, Interval{}}) {
      const QueryBlocks blocks(some, 64, mask);
      std::vector<Interval> expected, found;
      for (Range rows = blocks_within(some, 64); rows; rows.next())
        expected.push_back(interval_of(rows));
      for (index_t i = 0; i < blocks.count(); ++i) found.push_back(interval_of(blocks.at(i)));
      EXPECT_FALSE(blocks.at(blocks.count()));
      if (mask == causal_top_left()) std::reverse(found.begin(), found.end());
      EXPECT_EQ(found, expected);
    }
}

// Of 2 workers and 7 problems one would wait for a seventh of the time; of 9 for a ninth.
TEST(Sharing, WholeProblemsAreTakenWhereFewWait) {
  const auto whole = [](int count, index_t problems) {
    return Workers(count, problems).take_whole_problems();
  };
  for (const index_t problems : {1, 2, 3, 100}) EXPECT_TRUE(whole(1, problems));
  for (const index_t problems : {2, 4, 8, 9, 100}) EXPECT_TRUE(whole(2, problems)) << problems;
  for (const index_t problems : {1, 3, 5, 7}) EXPECT_FALSE(whole(2, problems)) << problems;
  for (const index_t problems : {15, 16, 31, 47, 1000}) EXPECT_TRUE(whole(16, problems));
  for (const index_t problems : {1, 14, 17, 40, 65}) EXPECT_FALSE(whole(16, problems));
}

}  // namespace
}  // namespace ioattn::schedules
