#pragma once

#include <vector>

#include "base/status.hpp"
#include "instruments/simulators/access.hpp"

namespace ioattn::instruments {

enum class Replacement : std::uint8_t {
  lru,
  tree_plru,  // a bit per node of a binary tree points away from the half that was touched last
};

struct CacheGeometry {
  std::uint64_t sets = 1;
  int ways = 1;
  Replacement replacement = Replacement::lru;
};

// One cache of write-back lines; the set of a line is its number modulo the number of sets.
class SetAssociativeCache {
 public:
  struct Outcome {
    bool hit = false;
    bool evicted_dirty = false;
    std::uint64_t victim = 0;  // a line, if evicted_dirty
  };

  // At least one set, 1 to 64 ways; tree_plru needs a power of two.
  static Status check(const CacheGeometry& geometry);
  explicit SetAssociativeCache(const CacheGeometry& geometry);

  Outcome access(std::uint64_t line, bool written);
  // A line that is here becomes dirty, without being touched. False: it is not here.
  bool write_back(std::uint64_t line);
  std::vector<std::uint64_t> dirty_lines() const;

 private:
  struct Way {
    std::uint64_t line = ~std::uint64_t{0};
    std::uint64_t used = 0;  // of LRU: when
    bool dirty = false;
  };
  Way* set_of(std::uint64_t line) { return &ways_[line % geometry_.sets * way_count_]; }
  std::size_t find(const Way* set, std::uint64_t line) const;
  std::size_t victim(std::uint64_t line, const Way* set) const;
  void touch(std::uint64_t line, Way* set, std::size_t way);

  CacheGeometry geometry_;
  std::size_t way_count_;
  std::uint64_t clock_ = 0;
  std::vector<Way> ways_;
  std::vector<std::uint64_t> trees_;  // of tree_plru: bits of the nodes of each set
};

// Counts what one cache brings in and writes back.
class SetAssociative final : public AccessSink {
 public:
  explicit SetAssociative(const CacheGeometry& geometry) : cache_(geometry) {}
  void take(const Access* first, std::size_t count) override;
  LineTraffic traffic() const;

 private:
  SetAssociativeCache cache_;
  LineTraffic traffic_;
};

// Two levels, neither inclusive nor exclusive, as Cachegrind has them: the second sees what misses
// the first. Dirty lines that the first evicts are written into the second if it holds them, else
// to memory.
class TwoLevel final : public AccessSink {
 public:
  TwoLevel(const CacheGeometry& first, const CacheGeometry& second)
      : first_(first), second_(second) {}
  void take(const Access* first, std::size_t count) override;
  LineTraffic first_level() const;   // between the levels
  LineTraffic second_level() const;  // between the second and memory

 private:
  SetAssociativeCache first_, second_;
  LineTraffic first_traffic_, second_traffic_;
};

}  // namespace ioattn::instruments
