#pragma once

#include "base/mask.hpp"
#include "base/matrix_view.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/words.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

// Score tiles that a mask cuts through. What a mask hides takes no part in any sum: a weight of 0
// would let a NaN of a hidden key through.
namespace ioattn::schedules {

// Whether every query of a tile sees every key.
inline bool is_full(const Mask& mask, const Interval& queries, const Interval& keys) {
  const Interval seen = mask.of_every(queries, keys.end);
  return seen.begin <= keys.begin && seen.end >= keys.end;
}

// Zeros for terms to be added to, `width` columns at a time: under a mask the first terms of a
// block of rows need not be of all of them.
template <class T>
void write_zeros(const kernels::KernelTable<T>& kernels, const Trace& trace, Operand name,
                 const MatrixView<T>& sums, const Range& rows, index_t width);

// Of a tile whose rows see some of its lanes, entries that are hidden become `value`.
template <class T>
void hide(const kernels::KernelTable<T>& kernels, const Mask& mask, const Range& rows,
          const Range& lanes, T value, T* tile, index_t stride);

// The same of a tile of weights or their gradients, for products with it.
template <class T>
void hide_weights(const kernels::KernelTable<T>& kernels, const Mask& mask, const Range& rows,
                  const Range& lanes, T* tile, index_t stride) {
  if (!is_full(mask, interval_of(rows), interval_of(lanes)))
    hide(kernels, mask, rows, lanes, T(0), tile, stride);
}

// Of score tiles in pairs (kernels::PairGradient), queries by keys: hidden terms become 0.
void hide_in_row_pairs(const Mask& mask, const Range& queries, const Range& keys,
                       kernels::bf16x2* tile, index_t stride);
void hide_in_col_pairs(const Mask& mask, const Range& queries, const Range& keys,
                       kernels::bf16x2* tile, index_t stride);

// C = A B (+ C) of score tiles, where `mask` says which lanes a row sees and rows and lanes say
// where the tile lies in the whole matrices: of blocks of rows, the panels that one of them sees.
// What no row of a block sees may be left as it is.
template <class T, class W>
void masked_scores(const kernels::KernelTable<T>& kernels, const kernels::Product<T, W>& product,
                   const Mask& mask, const Range& rows, const Range& lanes);

// C[row] += the sum over the visible terms of A[row][term] B[term], where `mask` says which terms a
// row sees and rows and terms say where the product lies in the whole matrices. A has 0 for what is
// hidden: terms that one row of a group sees are taken by all of it, if they are finite, else row
// by row. Groups depend on the rows' indices alone, so a row's result does not depend on the
// others.
template <class T>
void masked_product(const kernels::KernelTable<T>& kernels, const kernels::Product<T>& product,
                    const Mask& mask, const Range& rows, const Range& terms);

// Rows whose products of pairs take the same terms, all that one of them sees: as many as two tiles
// of AMX have, and some register tiles.
constexpr index_t rows_of_pair_group = 32;

// The same of pairs, where A has 0 for what is hidden. Terms that one row of a group sees are taken
// by all of it: 0 times what is finite. If there is anything else among them, `panels`, which are
// B, lose it, and rows that see it get it from the terms as they are stored: true.
bool masked_product(const kernels::KernelTable<float>& kernels,
                    const kernels::Product<float, kernels::bf16x2>& product, const Mask& mask,
                    const Range& rows, const Range& terms, kernels::bf16x2* panels,
                    const MatrixView<const bf16>& stored);

// Whichever they are: B's panels are columns `cols` of some rows of a matrix.
template <class S, class W>
void masked_product(const kernels::KernelTable<Compute<S>>& kernels,
                    const kernels::Product<Compute<S>, W>& product, const Mask& mask,
                    const Range& rows, const Range& terms, W* panels,
                    const MatrixView<const S>& matrix, const Range& cols) {
  if constexpr (are_pairs<W>) {
    const MatrixView<const S> stored = {matrix.at(terms.begin, cols.begin), terms.size(),
                                        cols.size(), matrix.stride};
    masked_product(kernels, product, mask, rows, terms, panels, stored);
  } else {
    masked_product(kernels, product, mask, rows, terms);
  }
}

}  // namespace ioattn::schedules
