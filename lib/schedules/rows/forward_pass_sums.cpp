#include "schedules/memory/row_layout.hpp"
#include "schedules/pass_types.hpp"
#include "schedules/range.hpp"
#include "schedules/rows/forward_pass.hpp"
#include "schedules/trace.hpp"

// Where rows of a forward pass lie, and what becomes of its sums.
namespace ioattn::schedules {

template <class S, class P>
bool ForwardPass<S, P>::copies_values(const Operands& operands, index_t rows) const {
  if constexpr (is_half_storage<P>) {
    return true;
  } else {
    const MatrixView<const T>& values = operands.values;
    if (value_rows_ != ValueRows::bare) return false;
    return is_panel(rows) ? width_ % nr_ != 0 : !are_lanes(values.data, values.stride, width_, nr_);
  }
}

template <class S, class P>
bool ForwardPass<S, P>::sums_in_place(const Operands& operands) const {
  return !is_half_storage<P> && !makes_z() && operands.rounded.data == nullptr &&
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
  T* lse = work.operands.lse;
  trace.remove(rows_of(Operand::S, rows, d_));
  for (Range sub(rows.size(), layout_.rho); sub; sub.next()) {
    for (Range some(sub.begin, sub.end, InverseSums<T>::most_rows); some; some.next()) {
      const index_t lane = layout_.lane_offset(sub.begin) + some.begin - sub.begin;
      divide(work, some, InverseSums<T>(kernels_, row_sum + lane, some.size()));
      for (index_t i = 0; lse != nullptr && i < some.size(); ++i)
        write_lse(kernels_, row_max + lane + i, row_sum + lane + i,
                  lse + rows.begin + some.begin + i);
    }
  }
  // LSE takes the place of the running sum.
  trace.remove(rows_of(Operand::row_max, rows, 1));
  if (lse != nullptr) trace.write(rows_of(Operand::row_sum, rows, 1));
  trace.remove(rows_of(Operand::row_sum, rows, 1));
  if (makes_z()) {
    multiply_by_y(work);
  } else if (is_half_storage<P> || work.operands.rounded.data != nullptr) {
    trace.write_rounded_and_remove(accumulator(rows));
  } else {
    trace.write_and_remove(accumulator(rows));
  }
}

// Z where it is, O and stored Z where they are wanted.
template <class S, class P>
void ForwardPass<S, P>::divide(const Work& work, const Range& some,
                               const InverseSums<T>& inverse) const {
  const Sums& sums = work.sums;
  const MatrixView<S>& rounded = work.operands.rounded;
  const auto& result = work.operands.result;
  const index_t first = work.rows.begin + some.begin;
  const auto store = [&](auto* to, index_t stride) {
    store_rows(kernels_, sums.row(some.begin), sums.stride, some.size(), width_, inverse.factors(),
               false, to, stride, work.trace.counted(Operand::O));
  };
  if (makes_z()) {
    store(sums.row(some.begin), sums.stride);
  } else if (rounded.data != nullptr) {
    store(rounded.row(first), rounded.stride);
  } else {
    store(result.row(first), result.stride);
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
    p.a = {work.sums.rows, work.sums.stride, 1};
    p.b = {panels, d_ * nr_, nr_};
    p.c = {o.at(0, y.begin), nr_, o.stride};
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

}  // namespace ioattn::schedules
