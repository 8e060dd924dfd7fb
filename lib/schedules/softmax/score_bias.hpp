#pragma once

#include "base/matrix_view.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

// The bias that is added to the scores of a head, and its gradient: [n, m] matrices.
namespace ioattn::schedules {

// Before the scores are added to it, a key-major tile (queries are lanes) becomes the bias of its
// queries and keys; lanes up to `lanes` become 0.
template <class S>
void load_bias(const kernels::KernelTable<Compute<S>>& kernels, const Trace& trace,
               const MatrixView<const S>& bias, const Range& queries, const Range& keys,
               index_t lanes, Compute<S>* tile, index_t stride);

// The same of a query-major tile, with keys as lanes.
template <class S>
void load_bias_rows(const kernels::KernelTable<Compute<S>>& kernels, const Trace& trace,
                    const MatrixView<const S>& bias, const Range& queries, const Range& keys,
                    index_t lanes, Compute<S>* tile, index_t stride);

// The gradient of the bias (+)= a key-major tile of p. Its words pass one at a time.
template <class T>
void store_d_bias(const kernels::KernelTable<T>& kernels, const Trace& trace, const T* tile,
                  index_t stride, const Range& queries, const Range& keys, bool add,
                  const MatrixView<T>& d_bias);

// The same of a query-major tile.
void store_d_bias_rows(const kernels::KernelTable<float>& kernels, const Trace& trace,
                       const float* tile, index_t stride, const Range& queries, const Range& keys,
                       bool add, const MatrixView<float>& d_bias);

// Zeros, a word at a time, where tiles that a mask hides will add nothing.
template <class T>
void clear_d_bias(const kernels::KernelTable<T>& kernels, const Trace& trace, const Range& queries,
                  const MatrixView<T>& d_bias);

// A gradient that was summed in f32, [queries, m], is rounded to what is stored in 16 bits, or
// added to it.
template <class S>
void round_d_bias(const kernels::KernelTable<Compute<S>>& kernels, const Trace& trace,
                  const MatrixView<const Compute<S>>& sums, index_t first_query, bool add,
                  const MatrixView<S>& d_bias);

// What scores are shifted by: the LSE, or, where one is -inf, as all scores of a query are where a
// bias or keys hide all, a copy by which its weights are 0, not NaN. In place too.
template <class T>
const T* shifts_of(const T* lse, index_t count, T* copy);

}  // namespace ioattn::schedules
