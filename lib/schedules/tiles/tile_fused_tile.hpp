#pragma once

#include "base/matrix_view.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/words.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/range.hpp"
#include "schedules/tiles/tile_fused.hpp"
#include "schedules/trace.hpp"

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
  MatrixView<T> d_keys = {}, d_values = {};  // of these keys, while terms are added; or transposed

  void stream_queries();
  // Columns k of some rows: the rows, or the columns, as lanes; or as sums over queries take them.
  void pack_rows(const MatrixView<const S>& from, const Range& some, const Range& k, W* to) const;
  void pack_columns(const MatrixView<const S>& from, const Range& some, const Range& k,
                    W* to) const;
  void pack_terms(const MatrixView<const S>& from, const Range& some, const Range& k, W* to) const;
  void pack_keys() const;
  W* columns_in(const Slot<W>& panels, const Range& k) const;
  void place_sums();
  // For a kernel that then need not transpose the tile: columns of S and dO are in its place, of
  // which there are no more. Not for a block of keys that meets one tile alone.
  bool transposes_sums() const {
    if constexpr (are_pairs<W>)
      return pass.transposes_ && kernels.pairs_of_bf16->transpose != nullptr;
    return false;
  }
  void clear_sums(Operand name, const MatrixView<T>& sums) const;
  void round_sums(Operand name, const MatrixView<T>& sums, const MatrixView<S>& rounded) const;
  void round_transposed(Operand name, const MatrixView<T>& sums,
                        const MatrixView<S>& rounded) const;
};

template <class S, class W>
struct TileFused<S, W>::Tile {
  const Run& run;
  const TileFused& pass;
  const Trace& trace;
  Range rows, next_rows, keys;  // empty after the last
  index_t head;
  bool begun;  // gradients of the keys have terms of other queries
  MatrixView<const S> queries, rest, d_o, bias;  // rest: the second part of S, if it has two
  T *f, *q;
  W *pairs, *copy, *panels;

  // Columns k of the queries' rows, in one piece: rows a power of 2 apart would compete for the
  // same cache lines.
  struct Terms {
    const W* data;
    index_t row;
  };

  Tile(const Run& of, index_t query_head, const Range& queries_of, const Range& next_queries,
       bool has_terms);

  bool has_bias() const { return bias.data != nullptr; }
  bool has_rest() const { return are_pairs<W> && pass.kind_.parts; }
  void add() const;
  // f = exp(S K^T - LSE)
  void make_weights() const;
  const T* shift() const;  // LSE
  // dV += f^T dO and q = dO V^T while dO streams; then f becomes scale * p, p = f o (q - delta).
  void make_gradients() const;
  // The same one after the other, f in memory meanwhile; then q becomes scale * p.
  void make_gradients_of_parked() const;
  void stream_d_o(bool makes_q, bool of_values) const;
  // The same, dO a step before V and V before dV, of half of the rows or keys one step later still.
  void make_gradients_by_steps() const;
  void make_p_of_q() const;
  // Both, where one kernel makes f and p: scores and q are then never in memory. It leaves f in
  // `pairs` and p in the place of q.
  bool are_made_at_once() const;
  void make_weights_and_gradients() const;
  const T* deltas() const;
  void make_p() const;
  void make_pairs_of_p() const;
  bool is_cut() const;  // by the mask
  void hide_in(T* tile) const;
  // f rounded to pairs.
  void round_weights() const;
  // What products over queries multiply: f, then p; and those over keys.
  const W* weights_by_queries() const;
  const W* p_by_queries() const;
  const W* p_by_keys() const;
  T* p() const { return pass.parked_ ? q : f; }  // of numbers
  // dK += p^T Q, p scaled
  void add_to_keys() const;
  // dQ += p K, p scaled, when all earlier blocks of keys have been added.
  void add_to_queries() const;
  kernels::RowsAhead next_columns(const MatrixView<const S>& from) const;
  MatrixView<T> sums_of_queries() const;
  bool adds_to_queries() const;  // or makes the first terms
  // sums[key] += the sum over queries of tile[query][key] terms[query], columns k of it, which are
  // packed; and, if there is a rest of the terms, of that, which takes their place.
  void add_to_key_sums(const W* tile, const MatrixView<const S>& terms, const Range& some,
                       const Range& k, W* packed, const MatrixView<T>& sums, Operand name,
                       const kernels::RowsAhead& ahead = {},
                       const MatrixView<const S>* rest_of_terms = nullptr) const;
  // A product of the tile and columns of `terms` in panels, a sum over these.
  kernels::Product<T, W> sum_of(const Range& terms, const Range& k, const W* packed, T* sums,
                                index_t stride) const;
  void add_product(kernels::Product<T, W> p, const Block& sums, bool accumulate, const Mask& mask,
                   const Range& of_rows, const Range& terms, W* packed,
                   const MatrixView<const S>& matrix, const Range& cols) const;
  // tile[query][key] (+)= the copied columns k of rows of queries times those of the keys or
  // values, in panels.
  kernels::Product<T, W> score(const Range& some, const Range& k, const Terms& terms,
                               const W* packed, T* tile) const;
  // Those of some keys, read straight into `panels` or where the block's are.
  Operand key_name() const { return pass.packed_ ? Operand::A2_panels : Operand::A2; }
  Operand value_name() const { return pass.packed_ ? Operand::h_panels : Operand::h; }
  const W* keys_as_lanes(const Range& k, W* to) const;
  const W* values_as_lanes(const Range& some, const Range& k, W* to) const;
  Terms terms_of(const MatrixView<const S>& from, const Range& some, const Range& k, T scale,
                 W* to) const;
  // Columns k of the queries' rows as lanes, from a copy: those of a stride of a power of 2 may
  // have left a cache of few ways meanwhile.
  void pack_copied_columns(const W* copied, const Range& k, W* to) const;

  // bring(k, slot) and use(k, slot) of all columns. Columns of operands whose rows are a power of 2
  // apart lie in few of a cache's sets. Where `ahead`, the first operand's come while the second's
  // before them are used, so that both do not meet there and drive out the tile.
  template <class Bring, class Use>
  void stream(index_t cols, const Bring& bring, const Use& use) const;
  // Of rows of S, and of panels. q is not there while they are needed: several, one after the
  // other, keep its memory in the cache, where it would leave a copy beside it no room.
  W* ahead(index_t offset) const { return reinterpret_cast<W*>(q) + offset; }
  W* row_slot(int i) const {
    return pass.lends_q_ ? ahead(pass.panel_words_ + i * pass.rho_ * pass.row_stride_) : copy;
  }
  W* panel_slot(int i) const { return pass.lends_q_ ? ahead(i * pass.panel_words_) : panels; }
};

// Instantiates, in the file that has its body, what is of every S and W that there is a tile of.
#define IOATTN_OF_ALL_TILES(instantiate)                                         \
  instantiate(float, float) instantiate(double, double) instantiate(bf16, float) \
      instantiate(bf16, kernels::bf16x2) instantiate(f16, float)

}  // namespace ioattn::schedules
