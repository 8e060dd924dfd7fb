#pragma once

#include "base/types.hpp"

namespace ioattn::search {

// A ring of pointers, one in each line of so much memory (aligned to lines): every load has to wait
// for the one before it, and none tells where the next one is. Page after page, so that few loads
// meet another page; pages, and lines within a page, in an order that follows no pattern.
class PointerRing {
 public:
  static constexpr index_t line_bytes = 64, page_bytes = 4096;

  PointerRing(void* memory, index_t bytes);
  index_t length() const { return lines_; }
  // Follows so many pointers from where the last chase ended.
  void chase(index_t steps);

 private:
  void* next_ = nullptr;
  index_t lines_;
};

}  // namespace ioattn::search
