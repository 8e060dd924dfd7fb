#pragma once

#include <algorithm>

#include "base/matrix_view.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/range.hpp"

// What a schedule does to memory itself, without a kernel. A table that traces its kernels is told,
// but for zeros in rows that see no key and sums over the entries of a batch.
namespace ioattn::schedules {

template <class T>
void tell_read(const kernels::KernelTable<T>& kernels, const T* first, index_t count) {
  if (kernels.touched != nullptr) kernels.touched(first, count, false);
}
template <class T>
void tell_written(const kernels::KernelTable<T>& kernels, const T* first, index_t count) {
  if (kernels.touched != nullptr) kernels.touched(first, count, true);
}

// Fetches the row some rows behind row i, which is about to be copied: to a CPU short rows far
// apart are no stream that it would fetch by itself. Into L2: rows a power of 2 apart share few
// sets of L1.
template <class T>
void fetch_row_behind(const T* row, index_t stride, index_t i, index_t rows, index_t cols) {
  constexpr index_t ahead = 4, line = 64 / sizeof(T);
  if (rows - i <= ahead) return;
  for (index_t k = 0; k < cols; k += line) __builtin_prefetch(row + ahead * stride + k, 0, 2);
}

// Rows that are read next, to be fetched by a product before.
template <class U>
kernels::RowsAhead rows_ahead(const MatrixView<U>& matrix, const Range& of) {
  if (!of) return {};
  const index_t size = index_t(sizeof(U));
  return {matrix.row(of.begin), of.size(), matrix.cols * size, matrix.stride * size};
}

// The same, or the first rows of the next matrix where there are no more of this one.
template <class U>
kernels::RowsAhead rows_ahead(const MatrixView<U>& matrix, const Range& of,
                              const MatrixView<U>& next, index_t most) {
  return of ? rows_ahead(matrix, of) : rows_ahead(next, Range(next.rows, most));
}

// Passes of no more rows of queries over keys wait for these, if they come from memory: the next
// are fetched beside products. To longer passes that is little, and L2 has no room for both.
constexpr index_t most_rows_fetching = 256;

template <class T>
void copy_words(const kernels::KernelTable<T>& kernels, const T* from, index_t count, T* to) {
  tell_read(kernels, from, count);
  tell_written(kernels, to, count);
  std::copy_n(from, count, to);
}
template <class T>
void fill_words(const kernels::KernelTable<T>& kernels, T* first, index_t count, T value) {
  tell_written(kernels, first, count);
  std::fill_n(first, count, value);
}
// Rows whose padding is read as lanes: where their columns are whole panels there is none.
template <class T>
void clear_padded_rows(const kernels::KernelTable<T>& kernels, const Slot<T>& rows, index_t cols,
                       void* memory) {
  if (cols % kernels.tile.cols != 0) fill_words(kernels, rows.in(memory), rows.count, T(0));
}

}  // namespace ioattn::schedules
