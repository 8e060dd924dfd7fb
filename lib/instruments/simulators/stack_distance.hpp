#pragma once

#include <vector>

#include "instruments/simulators/access.hpp"
#include "instruments/simulators/marked_positions.hpp"

namespace ioattn::instruments {

// Fully associative LRU caches of every size at once (Mattson et al. 1970, with the tree of Olken
// 1981): an access hits in all caches with more lines than its stack distance, the number of other
// lines touched since the last access to its own.
class StackDistance final : public AccessSink {
 public:
  StackDistance();
  void take(const Access* first, std::size_t count) override;

  std::uint64_t accesses() const { return accesses_; }
  std::uint64_t lines() const { return lines_.size(); }  // touched at all
  // Of a cache of so many lines, at least 1.
  LineTraffic traffic(std::uint64_t capacity) const;
  // The same for capacities 1, 2, ..., lines() and more: the last one is that of an infinite cache.
  std::vector<LineTraffic> curve() const;

 private:
  // A line is dirty in all caches of more than `clean` lines.
  struct Line {
    std::uint32_t position;
    std::uint32_t clean;
  };
  static constexpr std::uint32_t never = ~std::uint32_t{0};

  void compact();
  // Caches of `from` < lines <= `to` evict a dirty line.
  void count_write_backs(std::uint32_t from, std::uint32_t to);

  std::vector<Line> lines_;
  MarkedPositions recency_;  // a mark at the position of the last access to every line
  std::size_t next_ = 0;     // position
  std::uint64_t accesses_ = 0;
  std::vector<std::uint64_t> hits_;        // by stack distance
  std::vector<std::int64_t> write_backs_;  // differences by number of lines
};

}  // namespace ioattn::instruments
