#include "schedules/tiles/tile_fused_forward.hpp"

#include <algorithm>
#include <limits>

#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/shared_blocks.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/softmax/online_softmax.hpp"
#include "schedules/softmax/score_bias.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

// A block begins its sums at the first key that any of its queries sees: where that is not the
// first of all, a shorter block for more threads would have other sums.
index_t queries_per_block(const LayerShape& shape, const Blocks& blocks, index_t nr,
                          const Workers& workers) {
  return shape.mask.hides_first_of(shape.n)
             ? std::min(blocks.rho, shape.n)
             : shared_block(shape.n, blocks.rho, nr, workers, shape.mask, shape.m);
}

}  // namespace

template <class S, class W>
TileFusedForward<S, W>::TileFusedForward(const LayerShape& shape, const Blocks& blocks,
                                         const kernels::KernelTable<T>& kernels,
                                         const Workers& workers, WorkspaceLayout* layout)
    : kernels_(kernels),
      n_(shape.n),
      m_(shape.m),
      d_(shape.d),
      e_(shape.dv),
      nr_(kernels.tile.cols),
      mask_(shape.mask),
      c_(std::min(blocks.c, shape.m)),
      rho_(queries_per_block(shape, blocks, nr_, workers)),
      w_(std::clamp(blocks.w, index_t(1), std::max({shape.d, shape.dv, index_t(1)}))),
      tile_stride_(padded_stride(rho_, nr_)),
      row_stride_(padded_stride(words_of<W>(w_), nr_)),
      sum_stride_(padded_stride(e_, nr_)) {
  const index_t lanes = round_up(rho_, nr_);
  worker_.tile = workers_.add<T>(c_ * tile_stride_);
  worker_.pairs = workers_.add<W>(are_pairs<W> ? words_of<W>(c_) * tile_stride_ : 0);
  worker_.rows = workers_.add<W>(c_ * row_stride_);
  worker_.panels =
      workers_.add<W>(std::max(lanes * words_of<W>(w_), words_of<W>(c_) * round_up(w_, nr_)));
  worker_.row_max = workers_.add<T>(lanes);
  worker_.row_sum = workers_.add<T>(lanes);
  worker_.rescale = workers_.add<T>(lanes);
  worker_.sums = workers_.add<T>(is_half_storage<S> ? rho_ * sum_stride_ : 0);
  workers_.add_to(layout, workers.count);
}

template <class S, class W>
void TileFusedForward<S, W>::run_block(const Trace& trace, const ForwardOperands<S>& operands,
                                       index_t block, int worker, void* workspace) const {
  const Work work = {trace, operands, workers_.of(worker, workspace),
                     Range(block * rho_, n_, rho_)};
  const Range& rows = work.rows;
  T* row_max = worker_.row_max.in(work.local);
  T* row_sum = worker_.row_sum.in(work.local);
  trace.create(rows_of(Operand::row_max, rows, 1));
  trace.create(rows_of(Operand::row_sum, rows, 1));
  begin_softmax(kernels_, row_max, row_sum, worker_.row_max.count);
  const Interval seen = mask_.of_any(interval_of(rows), m_);
  if (is_half_storage<S> && seen.is_empty()) {
    write_zero_rows(work);
  } else if (mask_.hides()) {
    write_zeros(kernels_, trace, sums_name, sums_of(work), from_0(rows), w_);
  }

  for (Range keys = blocks_within(seen, c_); keys; keys.next()) {
    if (operands.bias.data != nullptr) {
      load_bias(kernels_, trace, operands.bias, rows, keys, round_up(rows.size(), nr_),
                worker_.tile.in(work.local), tile_stride_);
    }
    const Block tile = part_of(Operand::scores, rows, keys);
    const Block factors = rows_of(Operand::rescale, rows, 1);
    trace.create(tile);
    make_scores(work, keys);
    trace.create(factors);
    const Block paired = part_of(Operand::p_pairs, rows, keys);
    if (are_pairs<W>) trace.create(paired);
    update_softmax(work, keys);
    add_values(work, keys, keys.end == seen.end);
    if (are_pairs<W>) trace.remove(paired);
    trace.remove(factors);
    trace.remove(tile);
  }

  trace.remove(rows_of(Operand::row_max, rows, 1));
  if (operands.lse != nullptr) {  // it takes the place of the sums
    tell_read(kernels_, row_sum, rows.size());
    for (index_t i = 0; i < rows.size(); ++i)
      write_lse(kernels_, row_max + i, row_sum + i, operands.lse + rows.begin + i);
    trace.write(rows_of(Operand::row_sum, rows, 1));
  }
  trace.remove(rows_of(Operand::row_sum, rows, 1));
}

template <class S, class W>
MatrixView<Compute<S>> TileFusedForward<S, W>::sums_of(const Work& work) const {
  if constexpr (is_half_storage<S>) {
    return {worker_.sums.in(work.local), work.rows.size(), e_, sum_stride_};
  } else {  // of 0 columns where O is not wanted
    const MatrixView<T>& o = work.operands.result;
    return {o.data != nullptr ? o.row(work.rows.begin) : nullptr, work.rows.size(), e_, o.stride};
  }
}

// tile[key][query] = scale K Q^T
template <class S, class W>
void TileFusedForward<S, W>::make_scores(const Work& work, const Range& keys) const {
  const Range& rows = work.rows;
  const ForwardOperands<S>& in = work.operands;
  T* tile = worker_.tile.in(work.local);
  W* copy = worker_.rows.in(work.local);
  Range k(d_, w_);
  do {  // also where d is 0
    work.trace.read(part_of(Operand::A2, keys, k));
    load_terms(kernels_, in.keys.at(keys.begin, k.begin), in.keys.stride, keys.size(), k.size(),
               T(1), copy, row_stride_);
    work.trace.read(part_of(Operand::S, rows, k));
    kernels::Product<T, W> p;
    p.rows = keys.size();
    p.cols = rows.size();
    p.depth = words_of<W>(k.size());
    if (are_pairs<W> && !in.scales_late()) p.scale = in.scale;
    p.a = {copy, row_stride_, 1};
    p.b = {worker_.panels.in(work.local), p.depth * nr_, nr_};
    p.c = {tile, nr_, tile_stride_};
    p.accumulate = k.begin > 0 || in.bias.data != nullptr;
    p.padded = true;
    load_word_panels(kernels_, in.queries.at(rows.begin, k.begin), in.queries.stride, 1,
                     rows.size(), k.size(), worker_.panels.in(work.local), in.scale);
    masked_scores(kernels_, p, mask_.transposed(), keys, rows);
    if (are_pairs<W> && in.rest_of_queries != 0) {
      load_word_panels(kernels_, in.queries.at(rows.begin, k.begin) + in.rest_of_queries,
                       in.queries.stride, 1, rows.size(), k.size(), worker_.panels.in(work.local));
      p.accumulate = true;
      masked_scores(kernels_, p, mask_.transposed(), keys, rows);
    }
    work.trace.remove(part_of(Operand::S, rows, k));
    work.trace.remove(part_of(Operand::A2, keys, k));
    k.next();
  } while (k);
  if (!is_full(mask_, interval_of(rows), interval_of(keys))) {
    hide(kernels_, mask_.transposed(), keys, rows, -std::numeric_limits<T>::infinity(), tile,
         tile_stride_);
  }
}

// O = rescale O + f V; divided by the sums in the last tile.
template <class S, class W>
void TileFusedForward<S, W>::add_values(const Work& work, const Range& keys, bool is_last) const {
  const Range& rows = work.rows;
  const MatrixView<const S>& values = work.operands.values;
  const MatrixView<T> sums = sums_of(work);
  W* panels = worker_.panels.in(work.local);
  const W* weights = weights_of(work);
  for (Range k(e_, w_); k; k.next()) {
    work.trace.read(part_of(Operand::h, keys, k));
    load_word_panels(kernels_, values.at(keys.begin, k.begin), 1, values.stride, k.size(),
                     keys.size(), panels);
    kernels::Product<T, W> p;
    p.rows = rows.size();
    p.cols = k.size();
    p.depth = words_of<W>(keys.size());
    p.a = {weights, 1, tile_stride_};
    p.b = {panels, p.depth * nr_, nr_};
    p.c = {sums.at(0, k.begin), nr_, sums.stride};
    p.accumulate = mask_.hides() || keys.begin > 0;
    if (p.accumulate) p.row_scale = worker_.rescale.in(work.local);
    work.trace.begin_sum(part_of(sums_name, rows, k), p.accumulate);
    masked_product(kernels_, p, mask_, rows, keys, panels, values, k);
    if (is_last) {
      finish_rows(work, k);
      work.trace.write_rounded_and_remove(part_of(sums_name, rows, k));
    } else {
      work.trace.write_and_remove(part_of(sums_name, rows, k));
    }
    work.trace.remove(part_of(Operand::h, keys, k));
  }
}

template <class S, class W>
void TileFusedForward<S, W>::update_softmax(const Work& work, const Range& keys) const {
  const kernels::ScoreTile<T> tile = {worker_.tile.in(work.local), tile_stride_, keys.size(),
                                      kernels_.tile.computed(work.rows.size())};
  T* row_max = worker_.row_max.in(work.local);
  T* row_sum = worker_.row_sum.in(work.local);
  T* rescale = worker_.rescale.in(work.local);
  if constexpr (are_pairs<W>) {
    const T scale = work.operands.scales_late() ? work.operands.scale : T(1);
    kernels_.pairs_of_bf16->softmax_update(tile, scale, row_max, row_sum, rescale,
                                           worker_.pairs.in(work.local), tile_stride_);
  } else {
    kernels_.softmax_update(tile, true, row_max, row_sum, rescale);
  }
}

template <class S, class W>
const W* TileFusedForward<S, W>::weights_of(const Work& work) const {
  if constexpr (are_pairs<W>) {
    return worker_.pairs.in(work.local);
  } else {
    return worker_.tile.in(work.local);
  }
}

// Divided by the sums: O.
template <class S, class W>
void TileFusedForward<S, W>::finish_rows(const Work& work, const Range& cols) const {
  const T* row_sum = worker_.row_sum.in(work.local);
  const MatrixView<T> sums = sums_of(work);
  const MatrixView<S>& o = work.operands.result;  // sums lie there unless they are rounded
  for (Range some(work.rows.size(), InverseSums<T>::most_rows); some; some.next()) {
    const InverseSums<T> inverse(kernels_, row_sum + some.begin, some.size());
    store_rows(kernels_, sums.at(some.begin, cols.begin), sums.stride, some.size(), cols.size(),
               inverse.factors(), false, o.at(work.rows.begin + some.begin, cols.begin), o.stride,
               work.trace.counted(Operand::O));
  }
}

// O of queries that see no key.
template <class S, class W>
void TileFusedForward<S, W>::write_zero_rows(const Work& work) const {
  for (Range row(work.rows.begin, work.rows.end, 1); row; row.next()) {
    for (Range k(e_, w_); k; k.next()) {
      work.trace.create(part_of(sums_name, row, k));
      std::fill_n(work.operands.result.at(row.begin, k.begin), k.size(), S{});
      work.trace.write_rounded_and_remove(part_of(sums_name, row, k));
    }
  }
}

template class TileFusedForward<float>;
template class TileFusedForward<double>;
template class TileFusedForward<bf16>;
template class TileFusedForward<bf16, kernels::bf16x2>;
template class TileFusedForward<f16>;

}  // namespace ioattn::schedules
