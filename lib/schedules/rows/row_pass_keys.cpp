#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/pass_types.hpp"
#include "schedules/range.hpp"
#include "schedules/rows/row_pass.hpp"
#include "schedules/softmax/score_bias.hpp"
#include "schedules/trace.hpp"

// What a block of keys does to the rows that stay, in a backward pass over rows.
namespace ioattn::schedules {

// U_I += p A2_J, a score tile of rho queries at a time.
template <class S, class P>
void RowPass<S, P>::stream_keys(const Work& work, const Range& keys) const {
  const Trace& trace = work.trace;
  const Block values =
      kind_.values == Values::h ? rows_of(Operand::h, keys, e_) : rows_of(Operand::A3, keys, d_);
  const bool has_bias = work.operands.bias.data != nullptr;
  trace.read(inner_rows(Operand::A2, keys));
  const MatrixView<const T> rows = load_keys(work, keys);
  bool are_far = rows.data != worker_.key.in(work.local);
  if (streams_values()) {
    trace.read(values);
    if constexpr (is_half_storage<S>) load_values(work, keys);
  }

  for (Range sub(work.rows.size(), layout_.rho); sub; sub.next()) {
    const index_t first = work.rows.begin + sub.begin;
    const Interval seen =
        intersect(mask_.of_any({first, first + sub.size()}, m_), interval_of(keys));
    if (seen.is_empty()) continue;
    const Range part(seen.begin, seen.end, seen.size());
    const Range queries(first, first + sub.size(), sub.size());
    const Block block = {Operand::p, first, part.begin, sub.size(), part.size()};
    kernels::ScoreTile<T> tile = {worker_.tile.in(work.local), tile_stride_, part.size(),
                                  sub.size()};
    if (kind_.first_col > 0) {
      trace.read(block);
      tile.data = work.operands.p.at(part.begin, first);
      tile.stride = work.operands.p.stride;
    } else {
      if (has_bias) {
        load_bias(kernels_, trace, work.operands.bias, queries, part, layout_.sub_lanes(),
                  tile.data, tile.stride);
      }
      trace.create(block);
    }
    const StreamedKeys key = {{rows.row(part.begin - keys.begin), part.size(), width_, rows.stride},
                              are_far};
    are_far = false;
    make_weights(work, keys, part, queries, sub, key, tile);
    hide_weights(kernels_, mask_.transposed(), part, queries, tile.data, tile.stride);
    if (kind_.makes_u) add_to_u(work, part, sub, key, tile);
    if (work.operands.d_bias.data != nullptr) add_to_d_bias(work, queries, part, tile);
    if (kind_.first_col > 0) trace.write(block);
    trace.remove(block);
  }
  if (streams_values()) trace.remove(values);
  trace.remove(inner_rows(Operand::A2, keys));
}

// As whole panels of lanes can be read: where they lie, or in a copy.
template <class S, class P>
MatrixView<const Compute<S>> RowPass<S, P>::load_keys(const Work& work, const Range& keys) const {
  const MatrixView<const S>& a2 = work.task.in.a2;
  if constexpr (!is_half_storage<S>) {
    if (kind_.first_col == 0 && are_lanes(a2.data, a2.stride, width_, nr_))
      return {a2.row(keys.begin), keys.size(), width_, a2.stride};
  }
  T* copy = worker_.key.in(work.local);
  load_rows(kernels_, a2.at(keys.begin, kind_.first_col), a2.stride, keys.size(), width_, copy,
            stride_);
  return {copy, keys.size(), width_, stride_};
}

template <class S, class P>
void RowPass<S, P>::load_values(const Work& work, const Range& keys) const {
  const auto load = [&](const auto& all) {
    load_rows(kernels_, all.row(keys.begin), all.stride, keys.size(), value_width_,
              worker_.value.in(work.local), value_stride_);
  };
  if (kind_.values == Values::h) {
    load(work.operands.values);
  } else {
    load(work.task.in.a3);
  }
}

// The tile becomes p = f o (q - delta) of a part of the keys that stream.
template <class S, class P>
void RowPass<S, P>::make_weights(const Work& work, const Range& streamed, const Range& keys,
                                 const Range& queries, const Range& sub, const StreamedKeys& key,
                                 const kernels::ScoreTile<T>& tile) const {
  const bool h_form = kind_.values == Values::h;
  MatrixView<const T> value = key.rows;
  if constexpr (is_half_storage<S>) {
    if (streams_values()) {
      value = {worker_.value.in(work.local) + (keys.begin - streamed.begin) * value_stride_,
               keys.size(), value_width_, value_stride_};
    }
  } else if (streams_values()) {
    const MatrixView<const T>& source = h_form ? work.operands.values : work.task.in.a3;
    value = {source.row(keys.begin), keys.size(), source.cols, source.stride};
  }
  const T* delta = worker_.delta.in(work.local) + layout_.lane_offset(sub.begin);
  const bool in_memory = kind_.first_col > 0;

  kernels::Product<T> f = score_product(layout_, key.rows, worker_.s.in(work.local), sub, tile);
  f.padded = !in_memory;
  f.accumulate = in_memory || work.operands.bias.data != nullptr;
  f.epilogue = kernels::Epilogue::exp;
  f.lane = worker_.lse.in(work.local) + layout_.lane_offset(sub.begin);
  if (key.are_far) {
    f.beside = value.data;
    f.beside_row = value.stride;
  }
  masked_scores(kernels_, f, mask_.transposed(), keys, queries);

  if (kind_.values == Values::q) {
    const index_t first = work.rows.begin + sub.begin;
    for (index_t j = 0; j < keys.size(); ++j) {
      const Block q = {Operand::q, first, keys.begin + j, sub.size(), 1};
      const kernels::ScoreTile<T> row = {tile.data + j * tile.stride, tile.stride, 1, sub.size()};
      work.trace.read(q);
      kernels_.gradient_tile(row, {work.operands.q.at(keys.begin + j, first), 0, 1, sub.size()},
                             delta, row);
      work.trace.remove(q);
    }
    return;
  }
  kernels::Product<T> q =
      score_product(layout_, value, (h_form ? worker_.d_o : worker_.g).in(work.local), sub, tile);
  q.padded = !in_memory;
  q.epilogue = kernels::Epilogue::gradient;
  q.lane = delta;
  masked_scores(kernels_, q, mask_.transposed(), keys, queries);
}

template <class S, class P>
void RowPass<S, P>::add_to_u(const Work& work, const Range& keys, const Range& sub,
                             const StreamedKeys& key, const kernels::ScoreTile<T>& weights) const {
  kernels::Product<T> p;
  p.rows = sub.size();
  p.cols = width_;
  p.depth = keys.size();
  p.a = {weights.data, 1, weights.stride};
  p.b = {key.rows.data, nr_, key.rows.stride};
  p.c = {worker_.u.in(work.local) + sub.begin * stride_, nr_, stride_};
  p.accumulate = mask_.hides() || keys.begin > 0;
  p.padded = true;
  const index_t first = work.rows.begin + sub.begin;
  masked_product(kernels_, p, mask_, Range(first, first + sub.size(), sub.size()), keys);
}

template <class S, class P>
void RowPass<S, P>::add_to_d_bias(const Work& work, const Range& queries, const Range& keys,
                                  const kernels::ScoreTile<T>& weights) const {
  const bool add = mask_.hides() || work.operands.add_to_d_bias;
  store_d_bias(kernels_, work.trace, weights.data, weights.stride, queries, keys, add,
               work.operands.d_bias);
}

#define IOATTN_INSTANTIATE(S, P) \
  template void RowPass<S, P>::stream_keys(const Work&, const Range&) const
IOATTN_FOR_PASS_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
