#pragma once

#include "schedules/task.hpp"

// The bias that is added to the scores of a head, and its gradient: [n, m] matrices.
namespace ioattn::schedules {

// Before the scores are added to it, a key-major tile (queries are lanes) becomes the bias of its
// queries and keys; lanes up to `lanes` become 0.
template <class T>
void load_bias(const kernels::KernelTable<T>& kernels, const Trace& trace,
               const MatrixView<const T>& bias, const Range& queries, const Range& keys,
               index_t lanes, T* tile, index_t stride);

// The same of a query-major tile, with keys as lanes.
template <class T>
void load_bias_rows(const Trace& trace, const MatrixView<const T>& bias, const Range& queries,
                    const Range& keys, index_t lanes, T* tile, index_t stride);

// The gradient of the bias (+)= a key-major tile of p. Its words pass one at a time.
template <class T>
void store_d_bias(const kernels::KernelTable<T>& kernels, const Trace& trace, const T* tile,
                  index_t stride, const Range& queries, const Range& keys, bool add,
                  const MatrixView<T>& d_bias);

// Zeros, a word at a time, where tiles that a mask hides will add nothing.
template <class T>
void clear_d_bias(const Trace& trace, const Range& queries, const MatrixView<T>& d_bias);

// A bias may hide all keys of a query: its LSE is -inf and its weights are to be 0, not NaN.
template <class T>
void hide_rows_without_keys(index_t count, T* lse);

}  // namespace ioattn::schedules
