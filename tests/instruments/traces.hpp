#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "instruments/simulators/access.hpp"
#include "instruments/simulators/line_numbers.hpp"

// Traces of lines, and caches written down as plainly as can be.
namespace ioattn_test {

using ioattn::instruments::Access;
using ioattn::instruments::LineTraffic;
using Trace = std::vector<Access>;

inline Trace numbered(const std::vector<std::pair<std::uint64_t, bool>>& lines) {
  ioattn::instruments::LineNumbers numbers;
  Trace trace;
  for (const auto& [line, written] : lines) trace.push_back({line, numbers.of(line), written});
  return trace;
}

// One access a letter: its line; capitals are written. "abA" reads line a, reads b, writes a.
inline Trace spelled(const std::string& letters) {
  std::vector<std::pair<std::uint64_t, bool>> lines;
  for (const char letter : letters) {
    const bool written = letter >= 'A' && letter <= 'Z';
    lines.emplace_back(static_cast<std::uint64_t>(letter - (written ? 'A' : 'a')), written);
  }
  return numbered(lines);
}

// Lines near those touched last, far ones now and then, and runs through many.
inline Trace random_trace(std::size_t length, std::uint64_t lines, std::mt19937_64* random) {
  std::vector<std::pair<std::uint64_t, bool>> touched;
  std::uint64_t line = 0;
  while (touched.size() < length) {
    const std::uint64_t kind = (*random)() % 16;
    if (kind == 0) {
      line = (*random)() % lines;
    } else if (kind < 8 && !touched.empty()) {
      const std::size_t back = 1 + (*random)() % (1 + (*random)() % 40);
      line = touched[touched.size() - std::min(back, touched.size())].first;
    } else {
      line = (line + 1) % lines;
    }
    touched.emplace_back(line, (*random)() % 4 == 0);
  }
  return numbered(touched);
}

// A cache of `ways` lines per set that are in a list, the one touched last first.
class PlainLru {
 public:
  PlainLru(std::uint64_t sets, std::size_t ways) : ways_(ways), sets_(sets) {}

  // Whether it was there; *victim is the dirty line that went, or -1.
  bool access(std::uint64_t line, bool written, std::int64_t* victim) {
    *victim = -1;
    auto& set = sets_[line % sets_.size()];
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (set[i].first != line) continue;
      const bool dirty = set[i].second || written;
      set.erase(set.begin() + static_cast<std::ptrdiff_t>(i));
      set.insert(set.begin(), {line, dirty});
      return true;
    }
    if (set.size() == ways_) {
      if (set.back().second) *victim = static_cast<std::int64_t>(set.back().first);
      set.pop_back();
    }
    set.insert(set.begin(), {line, written});
    return false;
  }
  bool make_dirty(std::uint64_t line) {
    for (auto& [held, dirty] : sets_[line % sets_.size()]) {
      if (held != line) continue;
      dirty = true;
      return true;
    }
    return false;
  }
  std::vector<std::uint64_t> dirty_lines() const {
    std::vector<std::uint64_t> lines;
    for (const auto& set : sets_)
      for (const auto& [line, dirty] : set)
        if (dirty) lines.push_back(line);
    return lines;
  }
  std::uint64_t dirty() const { return dirty_lines().size(); }

 private:
  std::size_t ways_;
  std::vector<std::vector<std::pair<std::uint64_t, bool>>> sets_;
};

inline LineTraffic plain_lru(const Trace& trace, std::uint64_t sets, std::size_t ways) {
  PlainLru cache(sets, ways);
  LineTraffic traffic;
  for (const Access& access : trace) {
    std::int64_t victim = -1;
    traffic.fills += !cache.access(access.line, access.written, &victim);
    traffic.write_backs += victim >= 0;
  }
  traffic.write_backs += cache.dirty();
  return traffic;
}

inline std::string text(const LineTraffic& traffic) {
  return std::to_string(traffic.fills) + " fills, " + std::to_string(traffic.write_backs) +
         " write-backs";
}

}  // namespace ioattn_test
