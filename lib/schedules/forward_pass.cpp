#include "schedules/forward_pass.hpp"

#include <algorithm>
#include <limits>

#include "parallel/parallel.hpp"
#include "schedules/masked_tile.hpp"
#include "schedules/memory_moves.hpp"
#include "schedules/score_bias.hpp"
#include "schedules/softmax_end.hpp"

namespace ioattn::schedules::row_stream {
namespace {

// Whether a block of rows is as good where it lies as in a copy: it fills the caches' sets evenly,
// and the lines of a tile's rows do not share a few sets of L1.
template <class T>
bool are_dense(index_t stride, index_t cols) {
  constexpr index_t page = 4096 / sizeof(T);
  return stride < 2 * cols && stride % page != 0;
}

}  // namespace

template <class S, class P>
ForwardPass<S, P>::ForwardPass(const LayerShape& shape, const Blocks& blocks,
                               const kernels::KernelTable<T>& kernels, const Workers& workers,
                               WorkspaceLayout* layout, ValueRows value_rows)
    : blocks_(blocks),
      kernels_(kernels),
      n_(shape.n),
      m_(shape.m),
      d_(shape.d),
      e_(shape.dv),
      mask_(shape.mask),
      nr_(kernels.tile.cols),
      threads_(workers.count),
      h_form_(blocks.form == Form::h),
      tied_(!h_form_ && shape.tie != Tie::none),
      stored_(blocks.products == Products::stored),
      copies_values_(!tied_ && (!h_form_ || value_rows == ValueRows::copied || is_half_storage<S>)),
      width_(h_form_ ? e_ : d_),
      r_(rows_per_block(shape, blocks, workers)),
      c_(std::min(blocks.c, m_)),
      layout_{std::min(blocks.rho, r_), nr_},
      d_stride_(padded_stride(d_, nr_)),
      sum_stride_(padded_stride(width_, nr_)),
      tile_stride_(padded_stride(layout_.sub_lanes(), nr_)),
      o_stride_(padded_stride(e_, nr_)) {
  const index_t lanes = layout_.lanes(r_);
  worker_.s = workers_.add<T>(lanes * d_);
  // A1 is dead before the first sum is made.
  const index_t a1_words = stored_ ? 0 : lanes * d_, sum_words = r_ * sum_stride_;
  worker_.sum = workers_.add<T>(std::max(a1_words, sum_words));
  worker_.a1 = {worker_.sum.offset, a1_words};
  worker_.sum.count = sum_words;
  worker_.key = workers_.add<T>(c_ * d_stride_);
  worker_.value = workers_.add<T>(copies_values_ ? c_ * sum_stride_ : 0);
  worker_.tile = workers_.add<T>(c_ * tile_stride_);
  worker_.row_max = workers_.add<T>(lanes);
  worker_.row_sum = workers_.add<T>(lanes);
  worker_.rescale = workers_.add<T>(layout_.sub_lanes());
  worker_.y = workers_.add<T>(h_form_ || stored_ ? 0 : d_ * round_up(std::min(blocks.w, e_), nr_));
  if (is_half_storage<S> && !stored_) {
    worker_.copy = workers_.add<T>(d_ * std::min(blocks.w, d_));
    worker_.o = workers_.add<T>(h_form_ ? 0 : r_ * o_stride_);
  }
  all_workers_ = layout->add<std::byte>(workers_.bytes() * workers.count);
}

template <class S, class P>
void ForwardPass<S, P>::run(const Trace& trace, const Operands& operands, void* workspace) const {
  parallel::Dispenser blocks;
  const index_t count = block_count();
  auto body = [&](int worker) {
    begin(worker, workspace);
    for (index_t block = blocks.take(); block < count; block = blocks.take())
      run_block(trace, operands, block, worker, workspace);
  };
  parallel::run(threads_, body);
}

template <class S, class P>
void ForwardPass<S, P>::begin(int worker, void* workspace) const {
  // The padding of the rows is read as lanes.
  for (const Slot<T>& rows : {worker_.key, worker_.value})
    fill_words(kernels_, rows.in(local(worker, workspace)), rows.count, T(0));
}

template <class S, class P>
void ForwardPass<S, P>::run_block(const Trace& trace, const Operands& operands, index_t block,
                                  int worker, void* workspace) const {
  const Work work = {trace, operands, local(worker, workspace), Range(block * r_, n_, r_)};
  start(work);
  const Interval seen = mask_.of_any(interval_of(work.rows), m_);
  for (Range keys = blocks_within(seen, c_); keys; keys.next()) stream_keys(work, keys);
  finish(work);
}

template <class S, class P>
void ForwardPass<S, P>::start(const Work& work) const {
  const Range& rows = work.rows;
  const Trace& trace = work.trace;
  if (stored_) {
    trace.read(rows_of(Operand::S, rows, d_));
    pack_rows(kernels_, layout_, work.operands.queries, rows, worker_.s.in(work.local),
              work.operands.scale);
  } else {
    project_queries(kernels_, trace, layout_, *work.operands.layer, rows, blocks_.w,
                    worker_.a1.in(work.local), worker_.s.in(work.local),
                    worker_.copy.in(work.local));
  }
  trace.create(accumulator(rows));
  trace.create(rows_of(Operand::row_max, rows, 1));
  trace.create(rows_of(Operand::row_sum, rows, 1));
  fill_words(kernels_, worker_.row_max.in(work.local), worker_.row_max.count,
             -std::numeric_limits<T>::infinity());
  fill_words(kernels_, worker_.row_sum.in(work.local), worker_.row_sum.count, T(0));
  if (mask_.hides()) fill_words(kernels_, worker_.sum.in(work.local), worker_.sum.count, T(0));
}

template <class S, class P>
void ForwardPass<S, P>::stream_keys(const Work& work, const Range& keys) const {
  const Trace& trace = work.trace;
  const Operands& in = work.operands;
  const auto copy_rows = [&](const auto& from, index_t stride, T* to) {
    load_rows(kernels_, from.row(keys.begin), from.stride, keys.size(), from.cols, to, stride);
    return Streamed{to, stride};
  };
  const Operand value_name = h_form_ ? Operand::h : Operand::A3;
  trace.read(rows_of(Operand::A2, keys, d_));
  Streamed key = {};
  if constexpr (!is_half_storage<S>) key = {in.keys.row(keys.begin), in.keys.stride};
  // Tied, they are read by whole panels too.
  if (tied_ || is_half_storage<S> || !are_dense<T>(in.keys.stride, d_)) {
    key = copy_rows(in.keys, d_stride_, worker_.key.in(work.local));
  }
  Streamed value = key;
  if (!tied_) {
    trace.read(rows_of(value_name, keys, width_));
    if constexpr (!is_half_storage<S>) {
      if (!copies_values_) value = {in.values.row(keys.begin), in.values.stride};
    }
  }
  if (copies_values_) {
    T* copy = worker_.value.in(work.local);
    value = h_form_ ? copy_rows(in.values, sum_stride_, copy) : copy_rows(in.a3, sum_stride_, copy);
  }
  for (Range sub(work.rows.size(), layout_.rho); sub; sub.next()) {
    const Interval queries = {work.rows.begin + sub.begin, work.rows.begin + sub.end};
    const Interval seen = intersect(mask_.of_any(queries, m_), interval_of(keys));
    if (seen.is_empty()) continue;
    const index_t skipped = seen.begin - keys.begin;
    add_keys(work, sub, Range(seen.begin, seen.end, seen.size()), key.from(skipped),
             value.from(skipped));
  }
  trace.remove(rows_of(Operand::A2, keys, d_));
  if (!tied_) trace.remove(rows_of(value_name, keys, width_));
}

// Scores of one tile, online softmax, and the weighted sum of the values.
template <class S, class P>
void ForwardPass<S, P>::add_keys(const Work& work, const Range& sub, const Range& keys,
                                 const Streamed& key, const Streamed& value) const {
  const index_t first = work.rows.begin + sub.begin;
  const Range queries(first, first + sub.size(), sub.size());
  const Block tile = {Operand::scores, queries.begin, keys.begin, sub.size(), keys.size()};
  const Block factors = {Operand::rescale, queries.begin, 0, sub.size(), 1};
  T* scores = worker_.tile.in(work.local);
  const MatrixView<const S>& bias = work.operands.bias;
  if (bias.data != nullptr) {
    load_bias(kernels_, work.trace, bias, queries, keys, layout_.sub_lanes(), scores, tile_stride_);
  }
  work.trace.create(tile);
  work.trace.create(factors);
  T* rescale = worker_.rescale.in(work.local);
  const index_t lane = layout_.lane_offset(sub.begin);

  const MatrixView<const T> key_rows = {key.rows, keys.size(), d_, key.stride};
  kernels::Product<T> product = score_product(layout_, key_rows, worker_.s.in(work.local), sub,
                                              {scores, tile_stride_, keys.size(), sub.size()});
  product.accumulate = bias.data != nullptr;
  kernels_.product(product);
  if (!is_full(mask_, interval_of(queries), interval_of(keys))) {
    hide(kernels_, mask_, queries, keys, -std::numeric_limits<T>::infinity(), scores, tile_stride_);
  }

  kernels_.softmax_update({scores, tile_stride_, keys.size(), layout_.sub_lanes()}, true,
                          worker_.row_max.in(work.local) + lane,
                          worker_.row_sum.in(work.local) + lane, rescale);

  kernels::Product<T> update;
  update.rows = sub.size();
  update.cols = width_;
  update.depth = keys.size();
  update.a = scores;
  update.a_row = 1;
  update.a_depth = tile_stride_;
  update.b = value.rows;
  update.b_panel = nr_;
  update.b_row = value.stride;
  update.c = worker_.sum.in(work.local) + sub.begin * sum_stride_;
  update.c_panel = nr_;
  update.c_row = sum_stride_;
  update.accumulate = mask_.hides() || keys.begin > 0;
  update.row_scale = rescale;
  update.padded = true;
  masked_product(kernels_, update, mask_, queries, keys);
  work.trace.remove(tile);
  work.trace.remove(factors);
}

// Divides by the sums and writes LSE and O or, stored in the g-form, Z.
template <class S, class P>
void ForwardPass<S, P>::finish(const Work& work) const {
  const Range& rows = work.rows;
  const Trace& trace = work.trace;
  T* sum = worker_.sum.in(work.local);
  const T* row_max = worker_.row_max.in(work.local);
  const T* row_sum = worker_.row_sum.in(work.local);
  T* lse = work.operands.lse;
  trace.remove(rows_of(Operand::S, rows, d_));
  for (index_t i = 0; i < rows.size(); ++i) {
    const index_t lane = layout_.lane_offset(i - i % layout_.rho) + i % layout_.rho;
    divide_by_sum(kernels_, row_sum + lane, sum + i * sum_stride_, width_);
    if (lse != nullptr) {
      write_lse(kernels_, row_max + lane, row_sum + lane, lse + rows.begin + i);
    }
  }
  // LSE takes the place of the running sum.
  trace.remove(rows_of(Operand::row_max, rows, 1));
  if (lse != nullptr) trace.write(rows_of(Operand::row_sum, rows, 1));
  trace.remove(rows_of(Operand::row_sum, rows, 1));
  if (!h_form_ && !stored_) {
    multiply_by_y(work);
    return;
  }
  const auto store = [&](const auto& result) {
    store_rows(kernels_, sum, sum_stride_, rows.size(), width_, T(1), false, result.row(rows.begin),
               result.stride, trace.counted(Operand::O));
  };
  const bool rounds = work.operands.rounded.data != nullptr;
  if (rounds) {
    store(work.operands.rounded);
  } else {
    store(work.operands.result);
  }
  if (rounds || is_half_storage<P>) {
    trace.write_rounded_and_remove(accumulator(rows));
  } else {
    trace.write_and_remove(accumulator(rows));
  }
}

// O_I = Z_I Y, Y streams by blocks of w columns.
template <class S, class P>
void ForwardPass<S, P>::multiply_by_y(const Work& work) const {
  const Range& rows = work.rows;
  const MatrixView<const S>& all = work.operands.layer->y;
  MatrixView<T> o = {worker_.o.in(work.local), rows.size(), e_, o_stride_};
  if constexpr (!is_half_storage<S>) {
    o = {work.operands.result.row(rows.begin), rows.size(), e_, work.operands.result.stride};
  }
  work.trace.create(rows_of(Operand::O, rows, e_));
  for (Range y(e_, blocks_.w); y; y.next()) {
    const Block streamed = {Operand::Y, 0, y.begin, d_, y.size()};
    work.trace.read(streamed);
    T* panels = worker_.y.in(work.local);
    load_panels(kernels_, all.at(0, y.begin), 1, all.stride, y.size(), d_, panels);
    kernels::Product<T> p;
    p.rows = rows.size();
    p.cols = y.size();
    p.depth = d_;
    p.a = worker_.sum.in(work.local);
    p.a_row = sum_stride_;
    p.a_depth = 1;
    p.b = panels;
    p.b_panel = d_ * nr_;
    p.b_row = nr_;
    p.c = o.at(0, y.begin);
    p.c_panel = nr_;
    p.c_row = o.stride;
    kernels_.product(p);
    work.trace.remove(streamed);
  }
  if constexpr (is_half_storage<S>) {
    store_rows(kernels_, o.data, o.stride, rows.size(), e_, T(1), false,
               work.operands.rounded.row(rows.begin), work.operands.rounded.stride,
               work.trace.counted(Operand::O));
  }
  work.trace.write_rounded_and_remove(rows_of(Operand::O, rows, e_));
  work.trace.remove(accumulator(rows));
}

template class ForwardPass<float>;
template class ForwardPass<double>;
template class ForwardPass<bf16>;
template class ForwardPass<f16>;
template class ForwardPass<bf16, float>;
template class ForwardPass<f16, float>;

}  // namespace ioattn::schedules::row_stream
