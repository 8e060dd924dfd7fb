#include "plan/candidate_list.hpp"

#include <gtest/gtest.h>

#include "plan/sdpa/sdpa_candidates.hpp"

// Lists of what a search compares, of several instruction sets.
namespace ioattn::plan {
namespace {

SdpaCandidate candidate(index_t r, double time, Isa isa = Isa::avx512) {
  SdpaCandidate one;
  one.plan.blocks.rows.r = r;
  one.plan.tile.isa = isa;
  one.estimate.time = time;
  one.made_from = std::to_string(r);
  return one;
}
std::vector<std::string> names(const std::vector<SdpaCandidate>& list) {
  std::vector<std::string> names;
  for (const SdpaCandidate& one : list) names.push_back(one.made_from);
  return names;
}
using Names = std::vector<std::string>;

TEST(CandidateList, OfOtherKernelsIsOrderedByTime) {
  std::vector<SdpaCandidate> list = {candidate(1, 100), candidate(2, 90), candidate(3, 130)};
  // 4 and 5 take 80 and 250, 6 is hopeless; 1 has the blocks of the estimate, and other kernels.
  add_candidates(
      {candidate(4, 40, Isa::avx2), candidate(5, 125, Isa::avx2), candidate(6, 151, Isa::avx2),
       candidate(1, 50, Isa::avx2), candidate(4, 41, Isa::avx2)},
      "avx2", 2, &list);
  EXPECT_EQ(names(list), (Names{"1", "4 on avx2", "2", "1 on avx2", "3", "5 on avx2"}));
  EXPECT_DOUBLE_EQ(list[1].estimate.time, 80);
}

TEST(CandidateList, HasTheEstimateAndTheMostPromising) {
  std::vector<SdpaCandidate> list = {candidate(1, 100)}, others;
  for (index_t i = 0; i < 300; ++i)
    others.push_back(candidate(2 + i, 110 - static_cast<double>(i) / 10, Isa::avx2));
  add_candidates(others, "avx2", 1, &list);
  ASSERT_EQ(list.size(), most_candidates);
  EXPECT_EQ(list[0].made_from, "1");
  EXPECT_EQ(list[1].made_from, "301 on avx2");
  EXPECT_EQ(list.back().made_from, "103 on avx2");
}

TEST(CandidateList, IsWorthTimingUnlessHopelessOrThere) {
  const std::vector<SdpaCandidate> list = {candidate(1, 100), candidate(2, 110)};
  EXPECT_TRUE(is_worth_timing(list, candidate(3, 300), false));
  EXPECT_FALSE(is_worth_timing(list, candidate(3, 301), false));
  EXPECT_TRUE(is_worth_timing(list, candidate(3, 301), true)) << "words decide";
  EXPECT_FALSE(is_worth_timing(list, candidate(2, 50), false));
  EXPECT_TRUE(is_worth_timing(list, candidate(2, 50, Isa::avx2), false));
}

}  // namespace
}  // namespace ioattn::plan
