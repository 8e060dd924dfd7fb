#pragma once

#include <array>
#include <atomic>

#include "base/observer.hpp"

namespace ioattn {

// Elements of results that were finite in f32 and became infinite when they were rounded to 16
// bits. Several threads may add at once; what they add up to does not depend on them. Of SDPA dK is
// dA2, and dV is W.
class OverflowCounts {
 public:
  void add(Operand result, index_t count) {
    of_[index(result)].fetch_add(count, std::memory_order_relaxed);
  }
  index_t of(Operand result) const { return of_[index(result)].load(std::memory_order_relaxed); }
  void clear() {
    for (std::atomic<index_t>& count : of_) count.store(0, std::memory_order_relaxed);
  }

 private:
  static std::size_t index(Operand operand) { return static_cast<std::size_t>(operand); }
  std::array<std::atomic<index_t>, operand_count> of_ = {};
};

// Whose elements are rounded, and who counts them; null: nobody.
struct CountedResult {
  OverflowCounts* counts = nullptr;
  Operand result = Operand::O;
};

}  // namespace ioattn
