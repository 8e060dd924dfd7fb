#include "schedules/tile_fused_forward.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedules/score_bias.hpp"

namespace ioattn::schedules {

template <class T>
TileFusedForward<T>::TileFusedForward(const LayerShape& shape, const Blocks& blocks,
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
      rho_(shared_block(shape.n, blocks.rho, nr_, workers.per_head)),
      w_(std::clamp(blocks.w, index_t(1), std::max({shape.d, shape.dv, index_t(1)}))),
      tile_stride_(row_stream::padded_stride<T>(rho_, nr_)),
      row_stride_(row_stream::padded_stride<T>(w_, nr_)) {
  const index_t lanes = round_up(rho_, nr_);
  worker_.tile = worker_layout_.add<T>(c_ * tile_stride_);
  worker_.rows = worker_layout_.add<T>(c_ * row_stride_);
  worker_.panels = worker_layout_.add<T>(std::max(lanes * w_, c_ * round_up(w_, nr_)));
  worker_.row_max = worker_layout_.add<T>(lanes);
  worker_.row_sum = worker_layout_.add<T>(lanes);
  worker_.rescale = worker_layout_.add<T>(lanes);
  const CheckedSize bytes = CheckedSize(worker_layout_.bytes()) * CheckedSize(workers.count);
  workers_ = layout->add<std::byte>(bytes.value());
}

template <class T>
void TileFusedForward<T>::run_block(const Trace& trace,
                                    const row_stream::ForwardOperands<T>& operands, index_t block,
                                    int worker, void* workspace) const {
  const Work work = {trace, operands, workers_.in(workspace) + worker * worker_layout_.bytes(),
                     Range(block * rho_, n_, rho_)};
  const Range& rows = work.rows;
  T* row_max = worker_.row_max.in(work.local);
  T* row_sum = worker_.row_sum.in(work.local);
  trace.create(rows_of(Operand::row_max, rows, 1));
  trace.create(rows_of(Operand::row_sum, rows, 1));
  std::fill_n(row_max, worker_.row_max.count, -std::numeric_limits<T>::infinity());
  std::fill_n(row_sum, worker_.row_sum.count, T(0));
  if (mask_.hides()) clear(work);

  const Interval seen = mask_.of_any(interval_of(rows), m_);
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
    kernels_.softmax_update(
        {worker_.tile.in(work.local), tile_stride_, keys.size(), round_up(rows.size(), nr_)}, true,
        row_max, row_sum, worker_.rescale.in(work.local));
    add_values(work, keys, keys.end == seen.end);
    trace.remove(factors);
    trace.remove(tile);
  }

  trace.remove(rows_of(Operand::row_max, rows, 1));
  if (operands.lse != nullptr) {  // it takes the place of the sums
    for (index_t i = 0; i < rows.size(); ++i)
      operands.lse[rows.begin + i] = row_max[i] + std::log(row_sum[i]);
    trace.write(rows_of(Operand::row_sum, rows, 1));
  }
  trace.remove(rows_of(Operand::row_sum, rows, 1));
}

// Zeros: the first keys that a query of the block sees need not be in its first tile.
template <class T>
void TileFusedForward<T>::clear(const Work& work) const {
  for (Range row(work.rows.begin, work.rows.end, 1); row; row.next()) {
    for (Range k(e_, w_); k; k.next()) {
      work.trace.create(part_of(Operand::O, row, k));
      std::fill_n(work.operands.result.at(row.begin, k.begin), k.size(), T(0));
      work.trace.write_and_remove(part_of(Operand::O, row, k));
    }
  }
}

// tile[key][query] = scale K Q^T
template <class T>
void TileFusedForward<T>::make_scores(const Work& work, const Range& keys) const {
  const Range& rows = work.rows;
  const row_stream::ForwardOperands<T>& in = work.operands;
  T* tile = worker_.tile.in(work.local);
  T* copy = worker_.rows.in(work.local);
  Range k(d_, w_);
  do {  // also where d is 0
    work.trace.read(part_of(Operand::A2, keys, k));
    for (index_t j = 0; j < keys.size(); ++j) {
      const T* key = in.keys.at(keys.begin + j, k.begin);
      T* to = copy + j * row_stride_;
      for (index_t l = 0; l < k.size(); ++l) to[l] = in.scale * key[l];
    }
    work.trace.read(part_of(Operand::S, rows, k));
    kernels::Product<T> p;
    p.rows = keys.size();
    p.cols = rows.size();
    p.depth = k.size();
    p.a = copy;
    p.a_row = row_stride_;
    p.a_depth = 1;
    p.b = worker_.panels.in(work.local);
    p.b_panel = k.size() * nr_;
    p.b_row = nr_;
    p.c = tile;
    p.c_panel = nr_;
    p.c_row = tile_stride_;
    p.accumulate = k.begin > 0 || in.bias.data != nullptr;
    p.padded = true;
    kernels_.pack(in.queries.at(rows.begin, k.begin), in.queries.stride, 1, rows.size(), k.size(),
                  worker_.panels.in(work.local));
    kernels_.product(p);
    work.trace.remove(part_of(Operand::S, rows, k));
    work.trace.remove(part_of(Operand::A2, keys, k));
    k.next();
  } while (k);
  if (!is_full(mask_, interval_of(rows), interval_of(keys))) {
    hide(mask_, rows, keys, -std::numeric_limits<T>::infinity(), tile, tile_stride_);
  }
}

// O = rescale O + f V; divided by the sums in the last tile.
template <class T>
void TileFusedForward<T>::add_values(const Work& work, const Range& keys, bool is_last) const {
  const Range& rows = work.rows;
  const MatrixView<const T>& values = work.operands.values;
  T* panels = worker_.panels.in(work.local);
  for (Range k(e_, w_); k; k.next()) {
    work.trace.read(part_of(Operand::h, keys, k));
    kernels_.pack(values.at(keys.begin, k.begin), 1, values.stride, k.size(), keys.size(), panels);
    kernels::Product<T> p;
    p.rows = rows.size();
    p.cols = k.size();
    p.depth = keys.size();
    p.a = worker_.tile.in(work.local);
    p.a_row = 1;
    p.a_depth = tile_stride_;
    p.b = panels;
    p.b_panel = keys.size() * nr_;
    p.b_row = nr_;
    p.c = work.operands.result.at(rows.begin, k.begin);
    p.c_panel = nr_;
    p.c_row = work.operands.result.stride;
    p.accumulate = mask_.hides() || keys.begin > 0;
    if (p.accumulate) {
      p.row_scale = worker_.rescale.in(work.local);
      work.trace.read(part_of(Operand::O, rows, k));
    } else {
      work.trace.create(part_of(Operand::O, rows, k));
    }
    masked_product(kernels_, p, mask_, rows, keys);
    if (is_last) scale_rows(work, k);
    work.trace.write_and_remove(part_of(Operand::O, rows, k));
    work.trace.remove(part_of(Operand::h, keys, k));
  }
}

template <class T>
void TileFusedForward<T>::scale_rows(const Work& work, const Range& cols) const {
  const T* row_sum = worker_.row_sum.in(work.local);
  for (index_t i = 0; i < work.rows.size(); ++i) {
    // A row that sees no key, or scores of -inf alone: O = 0, LSE = -inf.
    const T inverse = row_sum[i] == T(0) ? T(0) : T(1) / row_sum[i];
    T* row = work.operands.result.at(work.rows.begin + i, cols.begin);
    for (index_t l = 0; l < cols.size(); ++l) row[l] *= inverse;
  }
}

template class TileFusedForward<float>;
template class TileFusedForward<double>;

}  // namespace ioattn::schedules
