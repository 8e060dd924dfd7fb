#pragma once

#include "kernels/generic/inlining.hpp"
#include "kernels/kernel_table.hpp"

// See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// Fetches the lines of rows that are read next into L2, in their order, evenly beside the steps of
// other work.
class RowsFetcher {
 public:
  IOATTN_INLINE RowsFetcher(const RowsAhead& rows, index_t steps) {
    index_t pieces = 0;
    for (const RowsAhead* each = &rows; each != nullptr; each = each->then) {
      begin(*each);
      pieces += rows_ * pieces_;
    }
    begin(rows);
    pace_ = steps > 0 ? pieces * whole / steps + 1 : 0;
  }

  // The rows that come `then`, if the others are done.
  IOATTN_INLINE void begin_tile() {
    if (rows_ == 0 && then_ != nullptr) begin(*then_);
  }

  IOATTN_INLINE void step() {
    step([](const char* address) { __builtin_prefetch(address, 0, 2); });
  }
  template <class Fetch>
  IOATTN_INLINE void step(const Fetch& fetch) {
    index_t due = due_ + pace_;
    for (; due >= whole && rows_ > 0; due -= whole) {
      fetch(at_);
      if (by_four_) {
#pragma GCC unroll 3
        for (index_t k = 1; k < 4; ++k) fetch(at_ + k * line);
      }
      at_ += piece_;
      if (--left_ > 0) continue;
      left_ = pieces_;
      at_ += gap_;
      --rows_;
    }
    due_ = due;
  }

 private:
  static constexpr index_t line = 64, whole = 1 << 16;

  IOATTN_INLINE void begin(const RowsAhead& rows) {
    const index_t lines = (rows.row_bytes + line - 1) / line;
    at_ = static_cast<const char*>(rows.first);
    by_four_ = lines % 4 == 0;
    piece_ = by_four_ ? 4 * line : line;
    left_ = pieces_ = by_four_ ? lines / 4 : lines;
    rows_ = at_ == nullptr || lines == 0 ? 0 : rows.rows;
    gap_ = rows.stride_bytes - lines * line;
    then_ = rows.then;
  }

  const char* at_;
  bool by_four_;          // a piece is four lines of a row, or one
  index_t piece_;         // in bytes
  index_t pieces_, gap_;  // of a row, and behind it
  index_t left_, rows_;   // of this row, and with it
  const RowsAhead* then_;
  index_t pace_, due_ = 0;  // pieces a step, and at once, in parts of a piece
};

}  // namespace
}  // namespace ioattn::kernels
