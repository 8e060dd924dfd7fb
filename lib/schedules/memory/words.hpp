#pragma once

#include "kernels/kernel_table.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/storage.hpp"

// What products multiply, W: numbers in T = Compute<S> or, of bf16 on an ISA that can, pairs of
// terms in 16 bits as they are stored.
namespace ioattn::schedules {

template <class W>
constexpr bool are_pairs = std::is_same_v<W, kernels::bf16x2>;

// What a product on an ISA with products of pairs takes.
template <class S>
using PairsOf = std::conditional_t<std::is_same_v<S, bf16>, kernels::bf16x2, Compute<S>>;
template <class S>
bool multiplies_pairs(const kernels::KernelTable<Compute<S>>& kernels) {
  return are_pairs<PairsOf<S>> && kernels.pairs_of_bf16 != nullptr;
}

// Words of a sum of so many terms; a last odd term is paired with 0.
template <class W>
constexpr index_t words_of(index_t terms) {
  return are_pairs<W> ? ceil_div(terms, 2) : terms;
}

// Whether rows of so many terms, `stride` apart, can be multiplied as words where they lie, and are
// no slower there: pages apart, they would share a few sets of L1.
template <class W, class S>
bool are_words(const S* first, index_t stride, index_t cols) {
  return stride % 2 == 0 && cols % 2 == 0 && is_dense<S>(stride, cols) &&
         reinterpret_cast<std::uintptr_t>(first) % alignof(W) == 0;
}

template <class T, class W>
void multiply(const kernels::KernelTable<T>& kernels, const kernels::Product<T, W>& product) {
  if constexpr (are_pairs<W>) {
    kernels.pairs_of_bf16->product(product);
  } else {
    kernels.product(product);
  }
}

// Rows of terms times `scale`, which has to wait for the product where they are pairs.
template <class S, class W>
void load_terms(const kernels::KernelTable<Compute<S>>& kernels, const S* from, index_t from_stride,
                index_t rows, index_t cols, Compute<S> scale, W* to, index_t to_stride) {
  if constexpr (are_pairs<W>) {
    kernels.pairs_of_bf16->copy(from, from_stride, rows, cols, to, to_stride);
  } else {
    load_scaled_rows(kernels, from, from_stride, rows, cols, scale, to, to_stride);
  }
}

// As KernelTable::pack, times a factor unless words are pairs; panels of words_of<W>(depth) rows.
template <class S, class W>
void load_word_panels(const kernels::KernelTable<Compute<S>>& kernels, const S* from,
                      index_t lane_stride, index_t depth_stride, index_t lanes, index_t depth,
                      W* to, Compute<S> scale = 1) {
  if constexpr (are_pairs<W>) {
    kernels.pairs_of_bf16->pack(from, lane_stride, depth_stride, lanes, depth, to);
  } else {
    load_panels(kernels, from, lane_stride, depth_stride, lanes, depth, to, scale);
  }
}

}  // namespace ioattn::schedules
