// Knees of curves that are made up: caches that end at once or by and by, noise, caches that are
// shared or smaller than was told; and what is made of them.

#include "search/knees.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ioattn_test {
namespace {

using namespace ioattn;
using search::CacheVerdict;
using search::CurvePoint;
using search::Knee;

constexpr index_t KiB = 1024, MiB = 1024 * KiB;

// A cache's end: what fits takes `seconds`, what does not meets the next one.
struct Level {
  index_t bytes;
  double seconds;
};

enum class End { sudden, gradual };  // gradual: pages at random, from 0.7 of it to 1.6 times it

double missing(index_t size, const Level& level, End end) {
  const double ratio = static_cast<double>(size) / static_cast<double>(level.bytes);
  if (end == End::sudden) return ratio > 1 ? 1 : 0;
  return std::clamp(std::log(ratio / 0.7) / std::log(1.6 / 0.7), 0., 1.);
}

std::vector<CurvePoint> curve(const std::vector<Level>& levels, double last, End end = End::sudden,
                              index_t largest = 4 * MiB) {
  std::vector<CurvePoint> points;
  double size = 4096;
  while (size <= static_cast<double>(largest) * 1.01) {
    const auto bytes = static_cast<index_t>(size);
    double seconds = last;
    for (std::size_t i = levels.size(); i-- > 0;) {
      const double misses = missing(bytes, levels[i], end);
      seconds = misses * seconds + (1 - misses) * levels[i].seconds;
    }
    points.push_back({bytes, seconds});
    size *= std::pow(2, 0.25);
  }
  return points;
}

// Times are longer by a little, and sometimes by a lot.
std::vector<CurvePoint> noisy(std::vector<CurvePoint> points, unsigned seed) {
  std::mt19937 random(seed);
  std::exponential_distribution<double> slower(1);
  for (CurvePoint& point : points) {
    const bool disturbed = std::uniform_int_distribution<int>(0, 9)(random) == 0;
    point.seconds *= 1 + 0.02 * slower(random) + (disturbed ? 2 : 0);
  }
  return points;
}

const std::vector<Level> levels = {{32 * KiB, 1.2e-9}, {1 * MiB, 4e-9}};
constexpr double of_L3 = 16e-9;
const std::vector<index_t> told = {32 * KiB, 1 * MiB};

std::vector<CacheVerdict> verdicts(const std::vector<CurvePoint>& points,
                                   const std::vector<index_t>& sizes = told) {
  std::vector<CacheVerdict> list;
  for (const search::ProbedCache& cache : search::judge_caches(sizes, {search::find_knees(points)}))
    list.push_back(cache.verdict);
  return list;
}
using V = std::vector<CacheVerdict>;
constexpr CacheVerdict confirmed = CacheVerdict::confirmed, smaller = CacheVerdict::smaller,
                       larger = CacheVerdict::larger, unclear = CacheVerdict::unclear;

void expect_near(index_t bytes, index_t expected, double factor) {
  EXPECT_GT(static_cast<double>(bytes), static_cast<double>(expected) / factor);
  EXPECT_LT(static_cast<double>(bytes), static_cast<double>(expected) * factor);
}

TEST(Knees, AreWhereCachesEnd) {
  for (const End end : {End::sudden, End::gradual}) {
    const std::vector<Knee> knees = search::find_knees(curve(levels, of_L3, end));
    ASSERT_EQ(knees.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      expect_near(knees[i].bytes, levels[i].bytes, 1.25);
      EXPECT_NEAR(knees[i].before, levels[i].seconds, 0.25 * levels[i].seconds);
      const double next = i == 0 ? levels[1].seconds : of_L3;
      EXPECT_NEAR(knees[i].after, next, 0.25 * next);
    }
    EXPECT_EQ(verdicts(curve(levels, of_L3, end)), (V{confirmed, confirmed}));
  }
}

TEST(Knees, AreFoundInNoise) {
  for (const End end : {End::sudden, End::gradual}) {
    for (unsigned seed = 0; seed < 200; ++seed) {
      EXPECT_EQ(verdicts(noisy(curve(levels, of_L3, end), seed)), (V{confirmed, confirmed}))
          << seed;
    }
  }
}

TEST(Knees, AreNotInFlatOrRisingCurves) {
  EXPECT_TRUE(search::find_knees({}).empty());
  EXPECT_TRUE(search::find_knees({{4096, 1e-9}}).empty());
  EXPECT_TRUE(search::find_knees(curve({}, 1e-9)).empty());
  EXPECT_EQ(verdicts(curve({}, 1e-9)), (V{unclear, unclear}));
  for (unsigned seed = 0; seed < 200; ++seed)
    EXPECT_EQ(verdicts(noisy(curve({}, 1e-9), seed)), (V{unclear, unclear})) << seed;
  // Buffers of addresses make a load a little slower, octave by octave.
  std::vector<CurvePoint> drifting = curve({}, 1e-9);
  for (CurvePoint& point : drifting)
    point.seconds *= std::pow(static_cast<double>(point.bytes) / 4096, 0.05);
  EXPECT_TRUE(search::find_knees(drifting).empty());
}

// Two threads of a core have half of its caches each.
TEST(Knees, ContradictWhatThreadsShare) {
  const std::vector<CurvePoint> shared = curve({{16 * KiB, 1.2e-9}, {512 * KiB, 4e-9}}, of_L3);
  EXPECT_EQ(verdicts(shared), (V{smaller, smaller}));
  EXPECT_EQ(verdicts(shared, {16 * KiB, 512 * KiB}), (V{confirmed, confirmed}));
  EXPECT_EQ(verdicts(curve(levels, of_L3), {16 * KiB, 512 * KiB}), (V{larger, larger}));
}

// A virtual machine that tells of an L2 which it has an eighth of.
TEST(Knees, ContradictWhatAVirtualMachineTells) {
  const std::vector<CurvePoint> points =
      curve({{32 * KiB, 1.2e-9}, {256 * KiB, 4e-9}}, of_L3, End::gradual, 8 * MiB);
  EXPECT_EQ(verdicts(points, {32 * KiB, 2 * MiB}), (V{confirmed, smaller}));
  const auto caches = search::judge_caches({32 * KiB, 2 * MiB}, {search::find_knees(points)});
  expect_near(caches[1].found_bytes, 256 * KiB, 1.25);
  for (unsigned seed = 0; seed < 100; ++seed)
    EXPECT_EQ(verdicts(noisy(points, seed), {32 * KiB, 2 * MiB}), (V{confirmed, smaller})) << seed;
}

TEST(Knees, GoToTheNearestCache) {
  const auto knees = [](std::initializer_list<index_t> sizes) {
    std::vector<Knee> list;
    for (const index_t bytes : sizes) list.push_back({bytes, 1e-9, 2e-9});
    return list;
  };
  const auto found = [](const std::vector<std::vector<Knee>>& curves,
                        const std::vector<index_t>& sizes = told) {
    std::vector<index_t> bytes;
    for (const search::ProbedCache& cache : search::judge_caches(sizes, curves))
      bytes.push_back(cache.found_bytes);
    return bytes;
  };
  using Sizes = std::vector<index_t>;
  // One of a buffer of addresses, and one of L3.
  EXPECT_EQ(found({knees({33 * KiB, 290 * KiB, 1 * MiB, 30 * MiB})}), (Sizes{33 * KiB, 1 * MiB}));
  // None twice, none of a cache that is far away.
  EXPECT_EQ(found({knees({40 * KiB})}), (Sizes{40 * KiB, 0}));
  EXPECT_EQ(found({knees({40 * KiB, 20 * MiB})}), (Sizes{40 * KiB, 0}));
  EXPECT_EQ(found({knees({70 * KiB})}, {32 * KiB, 96 * KiB}), (Sizes{70 * KiB, 0}));
  // The second curve where the first has none.
  EXPECT_EQ(found({knees({33 * KiB}), knees({20 * KiB, 900 * KiB})}), (Sizes{33 * KiB, 900 * KiB}));
  EXPECT_EQ(found({}), (Sizes{0, 0}));
}

}  // namespace
}  // namespace ioattn_test
