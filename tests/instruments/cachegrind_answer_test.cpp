// Caches as Cachegrind takes them, and what it prints.

#include <gtest/gtest.h>

#include "instruments/cachegrind.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn::instruments;

TEST(CachegrindCaches, AreThoseOfTheMachineWhereSetsAreAPowerOfTwo) {
  EXPECT_EQ(cachegrind_cache(49152, 12, 64), (CachegrindCache{49152, 12, 64}));
  EXPECT_EQ(cachegrind_cache(1048576, 16, 128), (CachegrindCache{1048576, 16, 128}));
}

TEST(CachegrindCaches, AreRoundedToAPowerOfTwoOfSets) {
  EXPECT_EQ(cachegrind_cache(32768, 12, 64), (CachegrindCache{32768, 16, 64}));
  EXPECT_EQ(cachegrind_cache(16384, 0, 64), (CachegrindCache{16384, 8, 64}));  // unknown ways
  for (const int ways : {0, 1, 4, 8, 12, 20}) {
    for (ioattn::index_t bytes = 64; bytes < 4000000; bytes = bytes * 9 / 7 + 1) {
      const CachegrindCache cache = cachegrind_cache(bytes, ways, 64);
      const ioattn::index_t sets = cache.bytes / (cache.ways * 64);
      EXPECT_EQ(sets * cache.ways * 64, cache.bytes) << bytes;
      EXPECT_EQ(sets & (sets - 1), 0) << bytes;
      EXPECT_LE(cache.bytes, bytes);
      // Less than a line of each set is given away.
      EXPECT_GT(cache.bytes + 64 * (sets + 1), bytes);
      if (bytes >= 64 * ways) {
        EXPECT_GE(cache.ways, ways) << bytes;
      }
    }
  }
}

constexpr const char* printed =
    "==42== Cachegrind, a cache profiler\n"
    "--42-- warning: L3 cache found, using its data for the LL simulation.\n"
    "==42== D   refs:       1,105,013  (801,190 rd   + 303,823 wr)\n"
    "==42== D1  misses:        13,355  ( 12,518 rd   +     837 wr)\n"
    "==42== LLd misses:         2,900  (  2,118 rd   +     782 wr)\n"
    "==42== D1  miss rate:        1.2% (    1.6%     +     0.3%  )\n"
    "==42== LL misses:          4,600  (  3,818 rd   +     782 wr)\n";

TEST(CachegrindAnswer, HasMissesForData) {
  const auto misses = data_misses(printed);
  ASSERT_TRUE(misses.has_value());
  EXPECT_EQ(misses->first, 13355);
  EXPECT_EQ(misses->last, 2900);
}

TEST(CachegrindAnswer, IsNoneWithoutAnEnd) {
  const std::string all = printed;
  EXPECT_FALSE(data_misses("").has_value());
  EXPECT_FALSE(data_misses(all.substr(0, all.find("==42== LLd"))).has_value());
}

}  // namespace
}  // namespace ioattn_test
