#include "schedules/rows/forward_pass.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "parallel/parallel.hpp"
#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/pass_types.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/shared_blocks.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/softmax/score_bias.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

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
      value_rows_(value_rows),
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
  const bool never_copies =
      tied_ || (h_form_ && value_rows_ == ValueRows::padded && !is_half_storage<P>);
  worker_.value = workers_.add<T>(never_copies ? 0 : c_ * sum_stride_);
  worker_.tile = workers_.add<T>(c_ * tile_stride_);
  worker_.row_max = workers_.add<T>(lanes);
  worker_.row_sum = workers_.add<T>(lanes);
  worker_.rescale = workers_.add<T>(layout_.sub_lanes());
  worker_.y = workers_.add<T>(makes_z() ? d_ * round_up(std::min(blocks.w, e_), nr_) : 0);
  if (is_half_storage<S> && !stored_) {
    worker_.copy = workers_.add<T>(d_ * std::min(blocks.w, d_));
    worker_.o = workers_.add<T>(h_form_ ? 0 : r_ * o_stride_);
  }
  workers_.add_to(layout, workers.count);
}

template <class S, class P>
void ForwardPass<S, P>::run(const Trace& trace, const Operands& operands, void* workspace) const {
  const index_t count = block_count();
  const BlockOrder order(threads_, mask_, n_, m_);
  parallel::for_each(
      threads_, count, [&](int worker) { begin(worker, workspace); },
      [&](index_t i, int worker) {
        run_block(trace, operands, order.block(i, count), worker, workspace);
      });
}

template <class S, class P>
void ForwardPass<S, P>::begin(int worker, void* workspace) const {
  void* memory = workers_.of(worker, workspace);
  if (tied_) {
    clear_padded_rows(kernels_, worker_.key, d_, memory);
  } else {
    clear_padded_rows(kernels_, worker_.value, width_, memory);
  }
}

template <class S, class P>
void ForwardPass<S, P>::run_block(const Trace& trace, const Operands& operands, index_t block,
                                  int worker, void* workspace) const {
  const Range rows(block * r_, n_, r_);
  void* memory = workers_.of(worker, workspace);
  const Interval seen = mask_.of_any(interval_of(rows), m_);
  const Work work = {trace, operands, memory, rows, seen, sums_of(operands, rows, memory)};
  start(work);
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
  begin_softmax(kernels_, worker_.row_max.in(work.local), worker_.row_sum.in(work.local),
                worker_.row_max.count);
  if (!mask_.hides()) return;
  for (index_t i = 0; i < rows.size(); ++i)
    fill_words(kernels_, work.sums.row(i), round_up(width_, nr_), T(0));
}

template <class S, class P>
void ForwardPass<S, P>::stream_keys(const Work& work, const Range& keys) const {
  const Trace& trace = work.trace;
  const Operands& in = work.operands;
  const Operand value_name = h_form_ ? Operand::h : Operand::A3;
  trace.read(rows_of(Operand::A2, keys, d_));
  // Tied, they are read by whole panels too.
  const bool copies_far_rows = !is_panel(work.rows.size());
  const bool copies_keys =
      tied_ || is_half_storage<S> || (copies_far_rows && !are_close(in.keys.stride, d_));
  Streams streams;
  streams.key = copies_keys ? copied(in.keys, keys, worker_.key.in(work.local), d_stride_)
                            : where_they_lie(in.keys, keys);
  streams.value = streams.key;
  bool copies_next = false;
  if (!tied_) {
    trace.read(rows_of(value_name, keys, width_));
    const Streamed values = h_form_ ? where_they_lie(in.values, keys) : where_they_lie(in.a3, keys);
    copies_next = !h_form_ || copies_values(in, work.rows.size());
    streams.value = copies_next ? Streamed{worker_.value.in(work.local), sum_stride_} : values;
    if (!copies_keys) streams.beside = values;
  }
  // Once the first product with keys has fetched them.
  const auto bring_values = [&] {
    if (!copies_next) return;
    T* const to = worker_.value.in(work.local);
    if (h_form_) {
      copied(in.values, keys, to, sum_stride_);
    } else {
      copied(in.a3, keys, to, sum_stride_);
    }
    copies_next = false;
  };
  kernels::RowsAhead next_values;
  if (work.rows.size() <= most_rows_fetching) {
    const Range next(keys.end, work.seen.end, c_);
    streams.next = rows_ahead(in.keys, next, in.next_keys, c_);
    // No product with copied keys would fetch them.
    if (copies_keys && !tied_) {
      next_values =
          h_form_ ? rows_ahead(in.values, next, in.next_values, c_) : rows_ahead(in.a3, next);
      streams.next.then = &next_values;
    }
  }
  add_block(work, keys, streams, bring_values);
  trace.remove(rows_of(Operand::A2, keys, d_));
  if (!tied_) trace.remove(rows_of(value_name, keys, width_));
}

template <class S, class P>
template <class U>
auto ForwardPass<S, P>::where_they_lie(const MatrixView<const U>& all, const Range& some)
    -> Streamed {
  if constexpr (std::is_same_v<U, T>) {
    return {all.row(some.begin), all.stride};
  } else {
    return {};
  }
}

template <class S, class P>
template <class U>
auto ForwardPass<S, P>::copied(const MatrixView<const U>& all, const Range& some, T* to,
                               index_t stride) const -> Streamed {
  load_rows(kernels_, all.row(some.begin), all.stride, some.size(), all.cols, to, stride);
  return {to, stride};
}

// The keys that each sub-block of queries sees.
template <class S, class P>
template <class BringValues>
void ForwardPass<S, P>::add_block(const Work& work, const Range& keys, Streams streams,
                                  const BringValues& bring_values) const {
  Caution caution;
  for (Range sub(work.rows.size(), layout_.rho); sub; sub.next()) {
    const Interval queries = {work.rows.begin + sub.begin, work.rows.begin + sub.end};
    const Interval seen = intersect(mask_.of_any(queries, m_), interval_of(keys));
    if (seen.is_empty()) continue;
    const index_t skipped = seen.begin - keys.begin;
    add_keys(work, sub, Range(seen.begin, seen.end, seen.size()), streams.from(skipped),
             bring_values, &caution);
    streams.beside = {};
    streams.next = {};
  }
}

// Scores of one tile, online softmax, and the weighted sum of the values.
template <class S, class P>
template <class BringValues>
void ForwardPass<S, P>::add_keys(const Work& work, const Range& sub, const Range& keys,
                                 const Streams& streams, const BringValues& bring_values,
                                 Caution* caution) const {
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
  const index_t lane = layout_.lane_offset(sub.begin);

  const Streamed& value = streams.value;
  const MatrixView<const T> key_rows = {streams.key.rows, keys.size(), d_, streams.key.stride};
  kernels::Product<T> product = score_product(layout_, key_rows, worker_.s.in(work.local), sub,
                                              {scores, tile_stride_, keys.size(), sub.size()});
  product.accumulate = bias.data != nullptr;
  product.beside = streams.beside.rows;
  product.beside_row = streams.beside.stride;
  const Weights weights = make_weights(work, {queries, keys, lane}, product, caution);
  bring_values();

  kernels::Product<T> update;
  update.rows = sub.size();
  update.cols = width_;
  update.depth = keys.size();
  update.a = {scores, 1, weights.stride};
  update.b = {value.rows, nr_, value.stride};
  update.c = {work.sums.row(sub.begin), nr_, work.sums.stride};
  update.accumulate = mask_.hides() || keys.begin > 0;
  update.row_scale = weights.rescale;
  update.padded = true;
  if (is_full(mask_, interval_of(queries), interval_of(keys))) update.ahead = streams.next;
  masked_product(kernels_, update, mask_, queries, keys);
  work.trace.remove(tile);
  work.trace.remove(factors);
}

// The online softmax of the scores.
template <class S, class P>
auto ForwardPass<S, P>::make_weights(const Work& work, const Meeting& meeting,
                                     const kernels::Product<T>& scores, Caution* caution) const
    -> Weights {
  const auto& [queries, keys, lane] = meeting;
  constexpr T least = -std::numeric_limits<T>::infinity();
  const Softmax softmax = {worker_.row_max.in(work.local) + lane,
                           worker_.row_sum.in(work.local) + lane, worker_.rescale.in(work.local)};
  if (!is_full(mask_, interval_of(queries), interval_of(keys))) {
    masked_scores(kernels_, scores, mask_.transposed(), keys, queries);
    hide(kernels_, mask_.transposed(), keys, queries, least, scores.c.data, tile_stride_);
    update(softmax, scores);
    return {tile_stride_, softmax.rescale};
  }
  kernels::Product<T> made = scores;
  if (!scores.accumulate && queries.size() <= kernels_.few_queries &&
      keys.size() <= kernels::KernelTable<T>::most_keys_of_few) {
    made.c.row = queries.size();
  }
  const index_t first_keys = kernels_.first_keys;
  constexpr index_t least_others = 3;  // times as many keys
  if (first_keys > 0 && made.rows >= (1 + least_others) * first_keys && !made.accumulate &&
      made.depth <= kernels::KernelTable<T>::most_terms_weighed &&
      std::all_of(softmax.max, softmax.max + made.cols, [](T max) { return max == least; })) {
    make_first_weights(softmax, made, caution);
    return {made.c.row, nullptr};
  }
  if (weigh(softmax, made, caution)) return {made.c.row, nullptr};
  multiply_and_update(softmax, made);
  return {made.c.row, softmax.rescale};
}

template <class S, class P>
void ForwardPass<S, P>::update(const Softmax& softmax, const kernels::Product<T>& scores) const {
  const index_t lanes = std::min(layout_.sub_lanes(), kernels_.tile.computed(scores.cols));
  kernels_.softmax_update({scores.c.data, tile_stride_, scores.rows, lanes}, true, softmax.max,
                          softmax.sum, softmax.rescale);
}

template <class S, class P>
void ForwardPass<S, P>::multiply_and_update(const Softmax& softmax,
                                            const kernels::Product<T>& scores) const {
  if (are_few(scores)) {
    kernels_.few_weights(scores, softmax.max, softmax.sum, softmax.rescale);
  } else {
    multiply(kernels_, scores);
    update(softmax, scores);
  }
}

// Whether maxima stay: weights then are made beside the product, of whole panels.
template <class S, class P>
bool ForwardPass<S, P>::weigh(const Softmax& softmax, const kernels::Product<T>& scores,
                              Caution* caution) const {
  if (kernels_.weights == nullptr || scores.accumulate || are_few(scores)) return false;
  if (kernels_.tile.computed(scores.cols) % nr_ != 0 || !caution->allows()) return false;
  if (kernels_.weights(scores, softmax.max, softmax.sum)) return true;
  caution->was_in_vain();
  return false;
}

// Of queries that have seen no key: weights refer to the largest scores of the first few keys, as
// long as others do not rise above them by too much. Of a query with such a score the first weights
// are rescaled: each by itself, lest its bits depend on the queries beside it.
template <class S, class P>
void ForwardPass<S, P>::make_first_weights(const Softmax& softmax,
                                           const kernels::Product<T>& scores,
                                           Caution* caution) const {
  const index_t count = kernels_.first_keys;
  kernels::Product<T> first = scores, others = scores;
  first.rows = count;
  others.rows -= count;
  others.a.data = scores.a.at(count, 0);
  others.c.data = scores.c.row_of(0, count);
  if (scores.beside != nullptr) others.beside += count * scores.beside_row;
  multiply_and_update(softmax, first);
  if (weigh(softmax, others, caution)) return;
  multiply_and_update(softmax, others);
  for (index_t j = 0; j < count; ++j) {
    T* const weights = first.c.row_of(0, j);
    tell_written(kernels_, weights, scores.cols);
    for (index_t i = 0; i < scores.cols; ++i) weights[i] *= softmax.rescale[i];
  }
}

// What stays is defined in forward_pass_sums.cpp, which instantiates these members.
#define IOATTN_INSTANTIATE(S, P)                                                                   \
  template ForwardPass<S, P>::ForwardPass(const LayerShape&, const Blocks&,                        \
                                          const kernels::KernelTable<Compute<S>>&, const Workers&, \
                                          WorkspaceLayout*, ValueRows);                            \
  template void ForwardPass<S, P>::run(const Trace&, const ForwardOperands<S, P>&, void*) const;   \
  template void ForwardPass<S, P>::begin(int, void*) const;                                        \
  template void ForwardPass<S, P>::run_block(const Trace&, const ForwardOperands<S, P>&, index_t,  \
                                             int, void*) const
IOATTN_FOR_PASS_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
