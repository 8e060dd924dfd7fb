#pragma once

#include <cstdint>

#include "base/types.hpp"

// How rows have to lie for kernels to read them there.
namespace ioattn::schedules {

// A row stride in elements for rows of `cols`: an odd number of panels, so that a column of panels
// is spread over all sets of a cache and not over a few.
inline index_t padded_stride(index_t cols, index_t nr) {
  const index_t panels = ceil_div(cols, nr);
  return (panels + 1 - panels % 2) * nr;
}

// Whether a block of rows fills most of the memory that it spans.
inline bool are_close(index_t stride, index_t cols) { return stride < 2 * cols; }

// Whether a block of rows is as good where it lies as in a copy: it fills the caches' sets evenly,
// and the lines of a tile's rows do not share a few sets of L1.
template <class T>
bool is_dense(index_t stride, index_t cols) {
  constexpr index_t page = 4096 / sizeof(T);
  return are_close(stride, cols) && stride % page != 0;
}

// Whether rows may also be read, and written, by whole panels of nr lanes where they lie.
template <class T>
bool are_panels(index_t stride, index_t cols, index_t nr) {
  return cols % nr == 0 && is_dense<T>(stride, cols);
}

// Whether every row begins with a cache line. Vectors of other rows may lie in two lines each.
template <class T>
bool begin_lines(const T* first, index_t stride) {
  constexpr index_t line = 64;
  return reinterpret_cast<std::uintptr_t>(first) % line == 0 &&
         stride * index_t(sizeof(T)) % line == 0;
}

// Whether the lines of a panel's rows share a few sets of L1, for a product whose panels are at
// most one line wide: it reads one of every row where others read two, with as many more sums.
// Measured with AVX2, where L1 has 64 sets of 8 ways; no other CPU with such panels was.
template <class T>
bool share_sets(index_t stride, index_t nr) {
  constexpr index_t line = 64 / sizeof(T), sets = 1024 / sizeof(T);
  return nr <= line && stride % sets == 0;
}

// Whether rows are as good as in a copy where they lie, to a product that reads them as lanes, by
// whole panels, again and again.
template <class T>
bool are_lanes(const T* first, index_t stride, index_t cols, index_t nr) {
  return are_panels<T>(stride, cols, nr) && !share_sets<T>(stride, nr) &&
         begin_lines(first, stride);
}

}  // namespace ioattn::schedules
