#pragma once

#include "schedules/tile_fused.hpp"

namespace ioattn::schedules {

template <class S, class W>
struct TileFused<S, W>::Run {
  const TileFused& pass;
  const kernels::KernelTable<T>& kernels;
  const Trace& trace;
  const KeyPassOperands<S>& operands;
  index_t problem, turn;
  void* workspace;
  void* memory;  // of the worker
  Range keys;
  MatrixView<T> d_keys = {}, d_values = {};  // of these keys, while terms are added

  void stream_queries();
  void place_sums();
  void clear_sums(Operand name, const MatrixView<T>& sums) const;
  void round_sums(Operand name, const MatrixView<T>& sums, const MatrixView<S>& rounded) const;
};

template <class S, class W>
struct TileFused<S, W>::Tile {
  const Run& run;
  const TileFused& pass;
  const Trace& trace;
  const Range &rows, keys;
  index_t head;
  bool begun;  // gradients of the keys have terms of other queries
  MatrixView<const S> queries, d_o, bias;
  T *f, *q;
  W *pairs, *copy, *panels;

  // Columns k of the queries' rows, in one piece: rows a power of 2 apart would compete for the
  // same cache lines.
  struct Terms {
    const W* data;
    index_t row;
  };

  Tile(const Run& of, index_t query_head, const Range& queries_of, bool has_terms);

  bool has_bias() const { return bias.data != nullptr; }
  void add() const;
  // f = exp(S K^T - LSE)
  void make_weights() const;
  const T* shift() const;  // LSE
  // dV += f^T dO and q = dO V^T while dO streams; then f becomes scale * p, p = f o (q - delta).
  void make_gradients() const;
  void make_p() const;
  void make_pairs_of_p() const;
  bool is_cut() const;  // by the mask
  // f rounded to pairs.
  void round_weights() const;
  // What products over queries and over keys multiply: f, then p.
  const W* weights_by_queries() const;
  const W* weights_by_keys() const;
  // dK += p^T Q, p scaled
  void add_to_keys() const;
  // dQ += p K, p scaled, when all earlier blocks of keys have been added.
  void add_to_queries() const;
  // sums[key] += the sum over queries of tile[query][key] terms[query], columns k of it, which are
  // packed.
  void add_to_key_sums(const MatrixView<const S>& terms, const Range& k, const MatrixView<T>& sums,
                       Operand name) const;
  // A product of the tile and packed columns of `terms`, a sum over these.
  kernels::Product<T, W> sum_of(const Range& terms, const Range& k, T* sums, index_t stride) const;
  void add_product(kernels::Product<T, W> p, const Block& sums, bool accumulate, const Mask& mask,
                   const Range& of_rows, const Range& terms, const MatrixView<const S>& matrix,
                   const Range& cols) const;
  // tile[query][key] (+)= the copied columns k of rows of queries times those of the keys, which
  // are read straight into panels.
  kernels::Product<T, W> score(Operand name, const MatrixView<const S>& of_keys, const Range& k,
                               const Terms& terms, T* tile) const;
  Terms terms_of(const MatrixView<const S>& from, const Range& k, T scale) const;
  // Columns k of some rows as lanes.
  void pack_columns(const MatrixView<const S>& from, const Range& some, const Range& k) const;
  // The same of the queries' rows in `copy`: those of a stride of a power of 2 may have left a
  // cache of few ways meanwhile.
  void pack_copied_columns(const Range& k) const;
};

}  // namespace ioattn::schedules
