#pragma once

#include "base/problem.hpp"
#include "base/status.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/blocked_product.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules::paper {

// Memory of the small-cache phases: intermediates of size n x m and so on, and vectors over the
// rows of one block.
template <class T>
class SquareBlocks {
 public:
  struct Matrix {
    Slot<T> slot;
    index_t stride;
  };

  // Blocks of `side` x `side` whose sums take `depth` terms at a time.
  SquareBlocks(const LayerShape& shape, index_t side, index_t depth, index_t nr);

  // Room for rows x cols, rows contiguous and readable nr elements beyond their end.
  Matrix by_row(index_t rows, index_t cols);
  // After the last by_row and before anything else.
  Status allocate(CallerMemory* caller) { return layout_.allocate(caller, &buffer_); }

  // The stored matrix itself, and its transpose: the latter has SIMD lanes along its rows.
  Factor<T> rows_first(Operand operand, const Matrix& matrix) const {
    return {operand, matrix.slot.in(buffer_.data()), matrix.stride, 1, false, true};
  }
  Factor<T> columns_first(Operand operand, const Matrix& matrix) const {
    return {operand, matrix.slot.in(buffer_.data()), 1, matrix.stride, false, true};
  }

  // The block (i, j) of a matrix stored key-major.
  kernels::ScoreTile<T> tile(const Factor<T>& matrix, const Range& i, const Range& j) const {
    return {matrix.at(i.begin, j.begin), matrix.col_stride, j.size(), i.size()};
  }

  // Phase 1b for the rows i: stores raw scores S_I A2^T in `scores` and leaves LSE_I in lse().
  // row_max and row_sum stay resident.
  void softmax_rows(const kernels::KernelTable<T>& kernels, const Trace& trace,
                    const Factor<const T>& s, const Factor<const T>& a2, const Factor<T>& scores,
                    const Range& i, index_t m, index_t d) const;

  // lse() of the queries of a tile that holds all their scores.
  void set_lse(const kernels::KernelTable<T>& kernels, const kernels::ScoreTile<T>& scores) const;

  T* pack() const { return pack_.in(buffer_.data()); }
  T* lse() const { return row_max_.in(buffer_.data()); }  // after softmax_rows or set_lse
  T* row_sum() const { return row_sum_.in(buffer_.data()); }

 private:
  void finish_statistics(const kernels::KernelTable<T>& kernels, index_t rows) const;

  index_t side_, depth_, nr_;
  Slot<T> pack_, row_max_, row_sum_;
  WorkspaceLayout layout_;
  WorkspaceMemory buffer_;
};

}  // namespace ioattn::schedules::paper
