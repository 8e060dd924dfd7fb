#pragma once

#include "base/matrix_view.hpp"
#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// A matrix of a product: element (r, c) at data[r * row_stride + c * col_stride], one stride is 1.
template <class T>
struct Factor {
  Operand operand;
  T* data = nullptr;
  index_t row_stride = 0, col_stride = 1;
  bool named_transposed = false;  // events name the transpose of this matrix
  bool padded = false;            // readable nr elements beyond its end

  T* at(index_t row, index_t col) const { return data + row * row_stride + col * col_stride; }
  Block block(const Range& row, const Range& col) const {
    if (named_transposed) return {operand, col.begin, row.begin, col.size(), row.size()};
    return {operand, row.begin, col.begin, row.size(), col.size()};
  }
};

template <class T>
Factor<const T> factor(Operand operand, const MatrixView<const T>& view) {
  return {operand, view.data, view.stride};
}

template <class T>
Factor<const T> as_const(const Factor<T>& f) {
  return {f.operand, f.data, f.row_stride, f.col_stride, f.named_transposed, f.padded};
}

template <class T>
Factor<T> transposed_result(const Factor<T>& f) {
  return {f.operand, f.data, f.col_stride, f.row_stride, !f.named_transposed, f.padded};
}

template <class T>
Factor<const T> transposed(const Factor<T>& f) {
  return as_const(transposed_result(f));
}

// The part of a factor from (row, col) on, whose own rows and columns are counted from 0.
template <class T>
Factor<T> part_from(Factor<T> f, index_t row, index_t col) {
  f.data = f.at(row, col);
  return f;
}

// The block (row, col) of a factor, whose own rows and columns are counted from 0: itself, or in
// f32.
template <class T, class S>
Factor<const T> in_compute(const kernels::KernelTable<T>& kernels, const Factor<const S>& factor,
                           const Range& row, const Range& col, T* copy) {
  if constexpr (!is_half_storage<S>) {
    return part_from(factor, row.begin, col.begin);
  } else {
    const bool by_rows = factor.col_stride == 1;
    const index_t rows = by_rows ? row.size() : col.size();
    const index_t cols = by_rows ? col.size() : row.size();
    load_rows(kernels, factor.at(row.begin, col.begin),
              by_rows ? factor.row_stride : factor.col_stride, rows, cols, copy, cols);
    return {factor.operand,          copy, by_rows ? cols : 1, by_rows ? 1 : cols,
            factor.named_transposed, false};
  }
}

// Elements of scratch that multiply_block needs for blocks of these sizes.
index_t pack_elements(index_t rows, index_t depth, index_t cols, index_t nr);

// The block (q, lane) of a factor, whose columns are SIMD lanes: itself where its rows can be read
// as lanes, or packed.
template <class T>
kernels::Panels<const T> lane_panels(const kernels::KernelTable<T>& kernels,
                                     const Factor<const T>& lanes, const Range& q,
                                     const Range& lane, T* pack);

// C_IJ (+)= A_IQ B_QJ, B in panels and the columns of C contiguous.
template <class T>
void multiply_panels(const kernels::KernelTable<T>& kernels, const Factor<const T>& a,
                     const kernels::Panels<const T>& b, const Factor<T>& c, const Range& i,
                     const Range& q, const Range& j, bool accumulate);

// C_IJ (+)= A_IQ B_QJ for one block, values only. SIMD lanes run along the rows of C in memory.
template <class T>
void multiply_lanes(const kernels::KernelTable<T>& kernels, const Factor<const T>& a,
                    const Factor<const T>& b, const Factor<T>& c, const Range& i, const Range& q,
                    const Range& j, bool accumulate, T* pack);

// The same; a block of one element is a dot product.
template <class T>
void multiply_block(const kernels::KernelTable<T>& kernels, const Factor<const T>& a,
                    const Factor<const T>& b, const Factor<T>& c, const Range& i, const Range& q,
                    const Range& j, bool accumulate, T* pack);

// One block of a product by tiles. Whether tiles are single elements is decided for the whole
// product, so that the order of a sum depends neither on tails nor on the split over threads.
template <class T>
void multiply_part(bool elementwise, const kernels::KernelTable<T>& kernels,
                   const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                   const Range& i, const Range& q, const Range& j, bool accumulate, T* pack) {
  if (elementwise) {
    multiply_block(kernels, a, b, c, i, q, j, accumulate, pack);
  } else {
    multiply_lanes(kernels, a, b, c, i, q, j, accumulate, pack);
  }
}

// C = A B with one block of C resident and blocks of A and B read: the paper's product. C is n1 x
// n2, the sum has k terms.
template <class T>
void blocked_product(const kernels::KernelTable<T>& kernels, const Trace& trace,
                     const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                     index_t n1, index_t k, index_t n2, const ProductBlocks& blocks, T* pack);

// C = A B without reuse: for each element of C, `depth` words of a row of A and of a column of B at
// a time. The values are those of one multiply_block, as the elements alone would leave the SIMD
// lanes empty.
template <class T>
void unblocked_product(const kernels::KernelTable<T>& kernels, const Trace& trace,
                       const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                       index_t n1, index_t k, index_t n2, index_t depth, T* pack);

}  // namespace ioattn::schedules
