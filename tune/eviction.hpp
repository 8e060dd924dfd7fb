#pragma once

#include <vector>

#include "base/types.hpp"

namespace ioattn::tune {

// Other lines take the places of those that a run left in the caches.
class Eviction {
 public:
  explicit Eviction(index_t capacity_bytes)
      : bytes_(static_cast<std::size_t>(times_capacity * capacity_bytes)) {}
  void operator()() {
    constexpr std::size_t line = 64;
    for (std::size_t i = 0; i < bytes_.size(); i += line) ++bytes_[i];
    asm volatile("" ::"r"(bytes_.data()) : "memory");
  }

 private:
  static constexpr index_t times_capacity = 4;  // enough for a cache that is not quite LRU
  std::vector<unsigned char> bytes_;
};

}  // namespace ioattn::tune
