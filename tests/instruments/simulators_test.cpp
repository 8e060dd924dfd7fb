// Simulated caches against traces whose traffic is known and against caches written down plainly.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>

#include "instruments/simulators/optimal_cache.hpp"
#include "instruments/simulators/set_associative.hpp"
#include "instruments/simulators/stack_distance.hpp"
#include "instruments/traces.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using namespace ioattn::instruments;

// In chunks, as a recorder hands it on.
template <class Sink>
void feed(const Trace& trace, Sink* sink) {
  for (std::size_t i = 0; i < trace.size(); i += 100) {
    sink->take(trace.data() + i, std::min<std::size_t>(100, trace.size() - i));
  }
}

std::string lru(const std::string& letters, std::uint64_t capacity) {
  StackDistance distances;
  feed(spelled(letters), &distances);
  return text(distances.traffic(capacity));
}

std::string opt(const std::string& letters, std::uint64_t capacity) {
  TraceBuffer buffer(1000);
  feed(spelled(letters), &buffer);
  return text(optimal_traffic(buffer, next_uses(buffer), capacity));
}

// ---- known answers

TEST(StackDistance, KnownAnswers) {
  EXPECT_EQ(lru("abcabcabc", 3), "3 fills, 0 write-backs");
  EXPECT_EQ(lru("abcabcabc", 2), "9 fills, 0 write-backs");  // a cycle is the worst for LRU
  EXPECT_EQ(lru("abacad", 2), "4 fills, 0 write-backs");     // a stays
  EXPECT_EQ(lru("abacad", 1), "6 fills, 0 write-backs");
  // Dirty once for good: A goes back when c evicts it and, after the second A, at the end.
  EXPECT_EQ(lru("AbcA", 2), "4 fills, 2 write-backs");
  EXPECT_EQ(lru("AbcA", 3), "3 fills, 1 write-backs");
  EXPECT_EQ(lru("Abca", 2), "4 fills, 1 write-backs");  // read again it is clean
  EXPECT_EQ(lru("AAAA", 1), "1 fills, 1 write-backs");
  // Read in between, A stays dirty in three lines and goes back from two before B.
  EXPECT_EQ(lru("AbcaBa", 2), "5 fills, 2 write-backs");
  EXPECT_EQ(lru("AbcaBa", 3), "3 fills, 2 write-backs");
}

TEST(Optimal, KnownAnswers) {
  EXPECT_EQ(opt("abcabcabc", 2), "6 fills, 0 write-backs");  // LRU: 9
  EXPECT_EQ(opt("abcabcabc", 3), "3 fills, 0 write-backs");
  // Belady's example of anomaly for FIFO.
  EXPECT_EQ(opt("abcdabeabcde", 3), "7 fills, 0 write-backs");
  EXPECT_EQ(opt("abcdabeabcde", 4), "6 fills, 0 write-backs");
  EXPECT_EQ(opt("AbcA", 2), "3 fills, 1 write-backs");
  EXPECT_EQ(opt("Abcd", 1), "4 fills, 1 write-backs");
}

TEST(SetAssociative, KnownAnswers) {
  const auto run = [](const std::string& letters, CacheGeometry geometry) {
    SetAssociative cache(geometry);
    feed(spelled(letters), &cache);
    return text(cache.traffic());
  };
  // Two sets of one line: a, c, e compete, b and d do.
  EXPECT_EQ(run("acacb", {2, 1}), "5 fills, 0 write-backs");
  EXPECT_EQ(run("ababab", {2, 1}), "2 fills, 0 write-backs");
  EXPECT_EQ(run("AcAcb", {2, 1}), "5 fills, 2 write-backs");
  // Four ways: after abcd the tree points at a, after a again at the other half, at c.
  EXPECT_EQ(run("abcdae", {1, 4, Replacement::tree_plru}), "5 fills, 0 write-backs");
  EXPECT_EQ(run("abcdaec", {1, 4, Replacement::tree_plru}), "6 fills, 0 write-backs");  // c went
  EXPECT_EQ(run("abcdaeb", {1, 4, Replacement::tree_plru}), "5 fills, 0 write-backs");
  EXPECT_EQ(run("abcdaeb", {1, 4, Replacement::lru}), "6 fills, 0 write-backs");  // b went
}

TEST(TwoLevel, KnownAnswers) {
  const auto run = [](const std::string& letters, CacheGeometry first, CacheGeometry second) {
    TwoLevel caches(first, second);
    feed(spelled(letters), &caches);
    return text(caches.first_level()) + "; " + text(caches.second_level());
  };
  EXPECT_EQ(run("abab", {1, 1}, {1, 2}), "4 fills, 0 write-backs; 2 fills, 0 write-backs");
  // A is written into the second level when b evicts it, and from there to memory at the end.
  EXPECT_EQ(run("Abab", {1, 1}, {1, 2}), "4 fills, 1 write-backs; 2 fills, 1 write-backs");
  // What is dirty in the first level alone at the end goes to memory, too: once.
  EXPECT_EQ(run("A", {1, 1}, {1, 2}), "1 fills, 1 write-backs; 1 fills, 1 write-backs");
  EXPECT_EQ(run("AbA", {1, 1}, {1, 2}), "3 fills, 2 write-backs; 2 fills, 1 write-backs");
  // c has driven a out of the second level.
  EXPECT_EQ(run("AbaCA", {1, 3}, {1, 2}), "3 fills, 2 write-backs; 3 fills, 2 write-backs");
  // Hits of the first level are not seen by the second, so c evicts a there, which the first has.
  EXPECT_EQ(run("abacac", {1, 2}, {1, 2}), "3 fills, 0 write-backs; 3 fills, 0 write-backs");
  EXPECT_EQ(run("abacb", {1, 2}, {1, 2}), "4 fills, 0 write-backs; 3 fills, 0 write-backs");
}

TEST(SetAssociative, RefusesWhatIsNoCache) {
  EXPECT_FALSE(SetAssociativeCache::check({0, 4}).is_ok());
  EXPECT_FALSE(SetAssociativeCache::check({4, 0}).is_ok());
  EXPECT_FALSE(SetAssociativeCache::check({4, 65}).is_ok());
  EXPECT_FALSE(SetAssociativeCache::check({4, 12, Replacement::tree_plru}).is_ok());
  EXPECT_OK(SetAssociativeCache::check({4, 12, Replacement::lru}));
  EXPECT_OK(SetAssociativeCache::check({4, 16, Replacement::tree_plru}));
}

// ---- random traces

TEST(StackDistance, IsThatOfAPlainCacheOfEverySize) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 60; ++round) {
    const std::uint64_t lines = 1 + random() % 200;
    const Trace trace = random_trace(1 + random() % 3000, lines, &random);
    StackDistance distances;
    feed(trace, &distances);
    EXPECT_EQ(distances.accesses(), trace.size());
    for (std::uint64_t capacity = 1; capacity <= distances.lines() + 2;
         capacity += 1 + random() % 7) {
      ASSERT_EQ(text(distances.traffic(capacity)), text(plain_lru(trace, 1, capacity))) << capacity;
    }
  }
}

// More accesses than positions: they are renumbered again and again. 16 rounds through many lines.
TEST(StackDistance, RenumbersPositions) {
  // Few lines in many rounds, and more lines than there were positions.
  for (const auto& [lines, rounds] :
       {std::pair<std::uint64_t, std::uint64_t>{30000, 16}, {70000, 3}}) {
    std::vector<std::pair<std::uint64_t, bool>> touched;
    for (std::uint64_t round = 0; round < rounds; ++round)
      for (std::uint64_t line = 0; line < lines; ++line) touched.emplace_back(line, line % 3 == 0);
    StackDistance distances;
    feed(numbered(touched), &distances);
    const std::uint64_t written = (lines + 2) / 3;
    EXPECT_EQ(distances.traffic(lines), (LineTraffic{lines, written}));
    EXPECT_EQ(distances.traffic(lines - 1), (LineTraffic{rounds * lines, rounds * written}));
  }
}

TEST(SetAssociative, IsThatOfAPlainCache) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    const Trace trace = random_trace(3000, 1 + random() % 400, &random);
    const std::uint64_t sets = 1 + random() % 20;
    const int ways = static_cast<int>(1 + random() % 12);
    SetAssociative cache({sets, ways});
    feed(trace, &cache);
    ASSERT_EQ(text(cache.traffic()), text(plain_lru(trace, sets, static_cast<std::size_t>(ways))));
  }
}

TEST(TwoLevel, IsThatOfTwoPlainCaches) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 60; ++round) {
    const Trace trace = random_trace(3000, 1 + random() % 400, &random);
    const std::uint64_t sets[] = {1 + random() % 4, 1 + random() % 16};
    const std::size_t ways[] = {1 + random() % 4, 1 + random() % 8};
    PlainLru first(sets[0], ways[0]), second(sets[1], ways[1]);
    LineTraffic between, beyond;
    for (const Access& access : trace) {
      std::int64_t victim = -1;
      if (first.access(access.line, access.written, &victim)) continue;
      ++between.fills;
      if (victim >= 0) {
        ++between.write_backs;
        beyond.write_backs += !second.make_dirty(static_cast<std::uint64_t>(victim));
      }
      beyond.fills += !second.access(access.line, false, &victim);
      beyond.write_backs += victim >= 0;
    }
    between.write_backs += first.dirty();
    // Every line that is dirty in either goes to memory.
    for (const std::uint64_t line : first.dirty_lines()) {
      beyond.write_backs += !second.make_dirty(line);
    }
    beyond.write_backs += second.dirty();
    TwoLevel caches({sets[0], static_cast<int>(ways[0])}, {sets[1], static_cast<int>(ways[1])});
    feed(trace, &caches);
    ASSERT_EQ(text(caches.first_level()), text(between));
    ASSERT_EQ(text(caches.second_level()), text(beyond));
  }
}

// A node of the tree points to the half that was not touched last, as a plain recursion has it.
struct PlainTree {
  bool points_right = false;
  int way = -1;
  std::unique_ptr<PlainTree> left, right;

  PlainTree(int first, int last) {
    if (last - first == 1) {
      way = first;
      return;
    }
    left = std::make_unique<PlainTree>(first, (first + last) / 2);
    right = std::make_unique<PlainTree>((first + last) / 2, last);
  }
  int victim() const { return way >= 0 ? way : points_right ? right->victim() : left->victim(); }
  bool touch(int touched) {
    if (way >= 0) return way == touched;
    const bool in_left = left->touch(touched), in_right = right->touch(touched);
    if (in_left) points_right = true;
    if (in_right) points_right = false;
    return in_left || in_right;
  }
};

TEST(SetAssociative, TreePlruIsThatOfAPlainTree) {
  std::mt19937_64 random(5);
  for (const int ways : {1, 2, 4, 8, 16, 64}) {
    const Trace trace = random_trace(5000, 3 * static_cast<std::uint64_t>(ways), &random);
    PlainTree tree(0, ways);
    std::vector<std::int64_t> held(static_cast<std::size_t>(ways), -1);
    std::uint64_t fills = 0;
    for (const Access& access : trace) {
      const auto line = static_cast<std::int64_t>(access.line);
      auto place = std::find(held.begin(), held.end(), line);
      if (place == held.end()) {
        ++fills;
        place = std::find(held.begin(), held.end(), -1);
        if (place == held.end()) place = held.begin() + tree.victim();
        *place = line;
      }
      tree.touch(static_cast<int>(place - held.begin()));
    }
    SetAssociative cache({1, ways, Replacement::tree_plru});
    feed(trace, &cache);
    EXPECT_EQ(cache.traffic().fills, fills) << ways;
  }
}

// The least fills of any choice of victims, by trying all.
class EveryChoice {
 public:
  EveryChoice(const Trace& trace, std::size_t capacity) : trace_(trace), capacity_(capacity) {}
  std::uint64_t least(std::size_t i, std::uint32_t held) {
    if (i == trace_.size()) return 0;
    const std::uint32_t line = 1u << trace_[i].id;
    if ((held & line) != 0) return least(i + 1, held);
    const auto known = known_.find({i, held});
    if (known != known_.end()) return known->second;
    std::uint64_t best = ~std::uint64_t{0};
    if (static_cast<std::size_t>(std::popcount(held)) < capacity_) {
      best = least(i + 1, held | line);
    } else {
      for (std::uint32_t victim = 1; victim <= held; victim <<= 1) {
        if ((held & victim) != 0) best = std::min(best, least(i + 1, (held & ~victim) | line));
      }
    }
    return known_[{i, held}] = best + 1;
  }

 private:
  const Trace& trace_;
  std::size_t capacity_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::uint64_t> known_;
};

TEST(Optimal, IsTheLeastOfEveryChoice) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 300; ++round) {
    const Trace trace = random_trace(1 + random() % 30, 1 + random() % 7, &random);
    TraceBuffer buffer(1000);
    feed(trace, &buffer);
    for (std::size_t capacity = 1; capacity <= 4; ++capacity) {
      ASSERT_EQ(optimal_traffic(buffer, next_uses(buffer), capacity).fills,
                EveryChoice(trace, capacity).least(0, 0));
    }
  }
}

// No cache of the same size has fewer fills, and lines are written back at least once if written.
TEST(Optimal, IsNeverWorseThanLru) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 30; ++round) {
    const Trace trace = random_trace(5000, 1 + random() % 500, &random);
    TraceBuffer buffer(10000);
    feed(trace, &buffer);
    const std::vector<std::uint32_t> next = next_uses(buffer);
    StackDistance distances;
    feed(trace, &distances);
    const std::uint64_t capacity = 1 + random() % 100;
    EXPECT_LE(optimal_traffic(buffer, next, capacity).fills, distances.traffic(capacity).fills);
    EXPECT_EQ(text(optimal_traffic(buffer, next, distances.lines())),
              text(distances.traffic(distances.lines())));
  }
}

TEST(TraceBuffer, KeepsNoPartOfATrace) {
  TraceBuffer buffer(5);
  feed(spelled("abcde"), &buffer);
  EXPECT_FALSE(buffer.overflowed());
  EXPECT_EQ(buffer.size(), 5u);
  feed(spelled("a"), &buffer);
  EXPECT_TRUE(buffer.overflowed());
  EXPECT_EQ(buffer.size(), 0u);
}

}  // namespace
}  // namespace ioattn_test
