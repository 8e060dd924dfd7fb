#include "parallel/parallel.hpp"
#include "schedules/keys/col_stream_run.hpp"
#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/pass_types.hpp"
#include "schedules/range.hpp"
#include "schedules/softmax/score_bias.hpp"
#include "schedules/trace.hpp"

// What a block of queries adds to the gradients of the keys that stay, and of its own.
namespace ioattn::schedules {

template <class S, class P>
void ColStream<S, P>::Run::add_queries(index_t head, const Range& rows,
                                       const Range& next_rows) const {
  const Block streamed[] = {rows_of(Operand::S, rows, pass.d_),
                            rows_of(pass.g_form_ ? Operand::G : Operand::dO, rows, pass.v_),
                            rows_of(Operand::LSE, rows, 1), rows_of(Operand::delta, rows, 1)};
  const int count = pass.kind_.makes_p() ? 4 : 3;
  for (int i = 0; i < count; ++i) trace.read(streamed[i]);
  const T* lse = shifts_of(operands.lse + head * operands.lse_step + rows.begin, rows.size(),
                           pass.worker_.lse.in(memory));
  if (operands.bias.data != nullptr) load_bias_of(head, rows);
  const Block weights = {Operand::p, rows.begin, keys.begin, rows.size(), keys.size()};
  trace.create(weights);

  const MatrixView<const T> s = padded_s(head, rows);
  const MatrixView<const T> d_o = padded_d_o(head, rows);
  score(s, key_panels, rows, kernels::Epilogue::exp, lse, d_o);
  const bool begun = operands.accumulate || head > 0 || rows.begin > 0;
  // f is used before p takes its place.
  if (of_values) {
    hide_in_tile(rows);
    add(d_o, rows, summed ? d_keys : d_values, begun);
  }
  if (pass.kind_.makes_p()) {
    T* delta = pass.worker_.delta.in(memory);
    load_scaled_rows(kernels, operands.delta + head * operands.delta_step + rows.begin, 0, 1,
                     rows.size(), scale_of_products, delta, 0);
    score(d_o, value_panels, rows, kernels::Epilogue::gradient, delta, rows_of_s(head, next_rows));
    hide_in_tile(rows);
  }
  if (of_keys) add(s, rows, d_keys, summed || begun);
  if (pass.kind_.queries) add_to_queries(head, rows);
  trace.remove(weights);
  for (int i = 0; i < count; ++i) trace.remove(streamed[i]);
}

// Rows of S and dO that whole panels can be read from; G has them.
template <class S, class P>
auto ColStream<S, P>::Run::padded_s(index_t head, const Range& rows) const -> MatrixView<const T> {
  const MatrixView<const P>& s = operands.queries;
  const P* first = s.row(rows.begin) + head * operands.queries_step;
  if constexpr (!is_half_storage<P>) {
    if (in_place) return {first, rows.size(), pass.d_, s.stride};
  }
  T* copy = pass.worker_.s.in(memory);
  load_scaled_rows(kernels, first, s.stride, rows.size(), pass.d_, scale_of_rows, copy,
                   pass.s_stride_);
  return {copy, rows.size(), pass.d_, pass.s_stride_};
}

template <class S, class P>
auto ColStream<S, P>::Run::padded_d_o(index_t head, const Range& rows) const
    -> MatrixView<const T> {
  if constexpr (!is_half_storage<P>) {
    if (pass.g_form_) return {operands.g.row(rows.begin), rows.size(), pass.v_, operands.g.stride};
  }
  const MatrixView<const S>& d_o = operands.d_o;
  const S* first = d_o.row(rows.begin) + head * operands.d_o_step;
  if constexpr (!is_half_storage<S>) {
    if (are_lanes(first, d_o.stride, pass.v_, pass.nr_))
      return {first, rows.size(), pass.v_, d_o.stride};
  }
  T* copy = pass.worker_.d_o.in(memory);
  load_rows(kernels, first, d_o.stride, rows.size(), pass.v_, copy, pass.d_o_stride_);
  return {copy, rows.size(), pass.v_, pass.d_o_stride_};
}

// To be fetched.
template <class S, class P>
auto ColStream<S, P>::Run::rows_of_s(index_t head, const Range& rows) const -> MatrixView<const T> {
  if constexpr (is_half_storage<P>) {
    return {};
  } else {
    const MatrixView<const T>& s = operands.queries;
    if (!rows) return {};
    return {s.row(rows.begin) + head * operands.queries_step, 0, pass.d_, s.stride};
  }
}

// The tile becomes the bias of its queries and keys.
template <class S, class P>
void ColStream<S, P>::Run::load_bias_of(index_t head, const Range& rows) const {
  MatrixView<const S> bias = operands.bias;
  bias.data += head * operands.bias_step;
  load_bias_rows(kernels, trace, bias, rows, keys, round_up(keys.size(), pass.nr_), tile,
                 pass.tile_stride_);
}

// tile[query][key] = epilogue of the products of rows of queries and packed keys. `beside` are
// read next.
template <class S, class P>
void ColStream<S, P>::Run::score(const MatrixView<const T>& queries, const T* panels,
                                 const Range& rows, kernels::Epilogue epilogue, const T* shift,
                                 const MatrixView<const T>& beside) const {
  kernels::Product<T> p;
  p.rows = rows.size();
  p.cols = keys.size();
  p.depth = queries.cols;
  p.a = {queries.data, queries.stride, 1};
  p.b = {panels, queries.cols * pass.nr_, pass.nr_};
  p.c = {tile, pass.nr_, pass.tile_stride_};
  p.epilogue = epilogue;
  p.row = shift;
  p.scale = scale_of_products;
  if constexpr (!is_half_storage<S>) {
    p.beside = beside.data;
    p.beside_row = beside.stride;
  }
  p.padded = true;
  p.accumulate = epilogue == kernels::Epilogue::exp && operands.bias.data != nullptr;
  masked_scores(kernels, p, pass.mask_, rows, keys);
}

template <class S, class P>
void ColStream<S, P>::Run::hide_in_tile(const Range& rows) const {
  hide_weights(kernels, pass.mask_, rows, keys, tile, pass.tile_stride_);
}

// sums[key] (+)= the sum over queries of tile[query][key] terms[query].
template <class S, class P>
void ColStream<S, P>::Run::add(const MatrixView<const T>& terms, const Range& rows,
                               const MatrixView<T>& sums, bool accumulate) const {
  kernels::Product<T> p;
  p.rows = keys.size();
  p.cols = terms.cols;
  p.depth = terms.rows;
  p.a = {tile, 1, pass.tile_stride_};
  p.b = {terms.data, pass.nr_, terms.stride};
  p.c = {sums.data, pass.nr_, sums.stride};
  p.accumulate = accumulate || pass.seen_by_.hides();
  masked_product(kernels, p, pass.seen_by_, keys, rows);
}

// U_I += p A2_J when all earlier blocks of keys have been added.
template <class S, class P>
void ColStream<S, P>::Run::add_to_queries(index_t head, const Range& rows) const {
  const Block sums = rows_of(operands.d_queries_name, rows, pass.d_);
  const bool begun = operands.accumulate_queries || pass.mask_.hides() || keys.begin > 0;
  kernels::Product<T> p;
  p.rows = rows.size();
  p.cols = pass.d_;
  p.depth = keys.size();
  p.a = {tile, pass.tile_stride_, 1};
  p.b = {pass.worker_.key_rows.in(memory), pass.c_ * pass.nr_, pass.nr_};
  p.c = {operands.d_queries.row(rows.begin) + head * operands.d_queries_step, pass.nr_,
         operands.d_queries.stride};
  p.accumulate = begun;
  parallel::OrderedGate* gate = pass.gates_.at(problem, head, rows.begin, workspace);
  if (gate != nullptr) gate->wait_for(turn);
  trace.begin_sum(sums, begun);
  masked_product(kernels, p, pass.mask_, rows, keys);
  trace.write_and_remove(sums);
  if (gate != nullptr) gate->pass(turn);
}

#define IOATTN_INSTANTIATE(S, P) \
  template void ColStream<S, P>::Run::add_queries(index_t, const Range&, const Range&) const
IOATTN_FOR_PASS_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
