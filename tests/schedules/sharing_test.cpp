#include <gtest/gtest.h>

#include <numeric>
#include <queue>
#include <vector>

#include "schedules/task.hpp"

// How problems and their blocks are shared out, against a count of what workers do that take blocks
// as they come.
namespace ioattn::schedules {
namespace {

// When the last worker ends, in rows: every block takes as long as its rows and a pass.
index_t end_of_last(index_t size, index_t length, const Workers& workers) {
  constexpr index_t pass = 16;
  std::priority_queue<index_t, std::vector<index_t>, std::greater<>> ends;
  for (int i = 0; i < workers.count; ++i) ends.push(0);
  index_t last = 0;
  for (index_t problem = 0; problem < workers.problems; ++problem) {
    for (Range rows(size, length); rows; rows.next()) {
      const index_t end = ends.top() + rows.size() + pass;
      ends.pop();
      ends.push(end);
      last = std::max(last, end);
    }
  }
  return last;
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

// No later than with blocks as long as they may be, nor than with as many as make whole rounds of
// the workers; at times much earlier.
TEST(Sharing, TheLastWorkerEndsEarly) {
  double least = 1, most = 0;
  for (const int count : {2, 4, 8, 16})
    for (index_t problems = 1; problems <= 5 * count; ++problems)
      for (const index_t size : {256, 1024, 4096})
        for (const index_t block : {128, 704, 1024}) {
          const Workers workers = {count, problems};
          constexpr index_t step = 64;
          const index_t whole = std::min(size, block);
          const index_t blocks = round_up(ceil_div(size, whole), index_t(count));
          const index_t even = std::min(whole, round_up(ceil_div(size, blocks), step));
          const index_t end = end_of_last(size, shared_block(size, block, step, workers), workers);
          const index_t other =
              std::min(end_of_last(size, whole, workers), end_of_last(size, even, workers));
          const double ratio = static_cast<double>(end) / static_cast<double>(other);
          least = std::min(least, ratio);
          most = std::max(most, ratio);
          ASSERT_LE(ratio, 1.05) << count << " workers, " << problems << " problems of " << size
                                 << " in " << block;
        }
  EXPECT_LT(least, 0.85);
  EXPECT_LE(most, 1.05);
}

TEST(Sharing, HeadsThatWorkersShareEvenlyAreNotCut) {
  EXPECT_EQ(shared_block(1024, 1024, 64, {2, 8}), 1024);
  EXPECT_EQ(shared_block(1024, 1024, 64, {2, 9}), 512) << "the ninth would keep one waiting";
  EXPECT_EQ(shared_block(1024, 1024, 64, {2, 1}), 512);
  EXPECT_EQ(shared_block(1024, 1024, 64, {2, 201}), 1024) << "one in a hundred is no matter";
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
