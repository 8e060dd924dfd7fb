#include "schedules/forward_pass.hpp"
#include "schedules/pass_types.hpp"
#include "schedules/softmax_end.hpp"

// Where rows of a forward pass lie, and what becomes of its sums.
namespace ioattn::schedules::row_stream {

template <class S, class P>
bool ForwardPass<S, P>::copies_values(const Operands& operands) const {
  if constexpr (is_half_storage<P>) {
    return true;
  } else {
    const MatrixView<const T>& values = operands.values;
    return value_rows_ == ValueRows::bare && !are_lanes(values.data, values.stride, width_, nr_);
  }
}

template <class S, class P>
bool ForwardPass<S, P>::sums_in_place(const Operands& operands) const {
  const bool are_result = h_form_ || stored_;
  return !is_half_storage<P> && are_result && operands.rounded.data == nullptr &&
         are_panels<T>(operands.result.stride, width_, nr_);
}

template <class S, class P>
auto ForwardPass<S, P>::sums_of(const Operands& operands, const Range& rows, void* local) const
    -> Sums {
  if constexpr (!is_half_storage<P>) {
    if (sums_in_place(operands)) return {operands.result.row(rows.begin), operands.result.stride};
  }
  return {worker_.sum.in(local), sum_stride_};
}

// Divides by the sums and writes LSE and O or, stored in the g-form, Z.
template <class S, class P>
void ForwardPass<S, P>::finish(const Work& work) const {
  const Range& rows = work.rows;
  const Trace& trace = work.trace;
  const T* row_max = worker_.row_max.in(work.local);
  const T* row_sum = worker_.row_sum.in(work.local);
  const auto write = is_binary(work.operands) ? write_binary_lse<T> : write_lse<T>;
  T* lse = work.operands.lse;
  trace.remove(rows_of(Operand::S, rows, d_));
  for (index_t i = 0; i < rows.size(); ++i) {
    const index_t lane = layout_.lane_offset(i - i % layout_.rho) + i % layout_.rho;
    divide_by_sum(kernels_, row_sum + lane, work.sums.row(i), width_);
    if (lse != nullptr) {
      write(kernels_, row_max + lane, row_sum + lane, lse + rows.begin + i);
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
  store_sums(work);
}

// Where they were not made in the result.
template <class S, class P>
void ForwardPass<S, P>::store_sums(const Work& work) const {
  const Trace& trace = work.trace;
  const Range& rows = work.rows;
  const bool rounds = work.operands.rounded.data != nullptr;
  const auto store = [&](const auto& result) {
    store_rows(kernels_, work.sums.rows, work.sums.stride, rows.size(), width_, T(1), false,
               result.row(rows.begin), result.stride, trace.counted(Operand::O));
  };
  if (rounds) {
    store(work.operands.rounded);
  } else if (!sums_in_place(work.operands)) {
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
    p.a = work.sums.rows;
    p.a_row = work.sums.stride;
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

#define IOATTN_INSTANTIATE(S, P) template class ForwardPass<S, P>
IOATTN_FOR_PASS_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules::row_stream
