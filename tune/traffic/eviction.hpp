#pragma once

#include <vector>

#include "base/types.hpp"
#include "instruments/flush_lines.hpp"

namespace ioattn::tune {

// Other lines take the places of those that a run left in the caches. They are clean: what a run
// pushes out of them is no write-back of its own.
class Eviction {
 public:
  explicit Eviction(index_t capacity_bytes)
      : bytes_(static_cast<std::size_t>(times_capacity * capacity_bytes)) {
    instruments::flush_lines(bytes_.data(), bytes_.size());
  }
  void operator()() const {
    constexpr std::size_t line = 64;
    unsigned sum = 0;
    for (std::size_t i = 0; i < bytes_.size(); i += line) sum += bytes_[i];
    asm volatile("" ::"r"(sum) : "memory");
  }

 private:
  static constexpr index_t times_capacity = 4;  // enough for a cache that is not quite LRU
  std::vector<unsigned char> bytes_;
};

}  // namespace ioattn::tune
