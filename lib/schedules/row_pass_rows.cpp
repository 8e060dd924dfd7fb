#include <algorithm>

#include "schedules/row_pass.hpp"

// What stays in fast memory per row block of a backward pass over rows.
namespace ioattn::schedules::row_stream {

// S_I, delta_I, G_I (or dO_I) and LSE_I become resident; U_I is created.
template <class T>
void RowPass<T>::make_resident(const Work& work) const {
  make_scores_side(work);
  make_values_side(work);
  work.trace.read(rows_of(Operand::LSE, work.rows, 1));
  load_lanes(task_.lse, work.rows, worker_.lse.in(work.local));
  work.trace.create(inner_rows(Operand::U, work.rows));
}

template <class T>
void RowPass<T>::make_scores_side(const Work& work) const {
  T* s = worker_.s.in(work.local);
  if (!kind_.stored_s) {
    project_queries(kernels_, work.trace, layout_, task_.in, work.rows, task_.blocks.w,
                    worker_.a1.in(work.local), s);
    return;
  }
  const MatrixView<const T>& all = work.memory.s;
  work.trace.read(inner_rows(Operand::S, work.rows));
  pack_rows(kernels_, layout_,
            MatrixView<const T>{all.at(0, kind_.first_col), all.rows, width_, all.stride},
            work.rows, s);
}

template <class T>
void RowPass<T>::make_values_side(const Work& work) const {
  const Range& rows = work.rows;
  const Block d_o = rows_of(Operand::dO, rows, e_);
  if (uses_d_o()) {
    work.trace.read(d_o);
    pack_rows(kernels_, layout_, task_.d_o, rows, worker_.d_o.in(work.local));
  }
  make_delta(work);
  if (kind_.values == Values::g) {
    T* g = worker_.g.in(work.local);
    const Block block = rows_of(Operand::G, rows, d_);
    if (kind_.stored_g) {
      work.trace.read(block);
      pack_rows(kernels_, layout_, work.memory.g, rows, g);
    } else {
      work.trace.create(block);
      for (Range y(d_, task_.blocks.w); y; y.next()) {
        work.trace.read(rows_of(Operand::Y, y, e_));
        multiply_rows(kernels_, layout_, rows.size(), worker_.d_o.in(work.local), e_,
                      transposed(factor(Operand::Y, task_.in.y)), y, d_, g);
        work.trace.remove(rows_of(Operand::Y, y, e_));
      }
    }
  }
  if (uses_d_o() && kind_.values != Values::h) work.trace.remove(d_o);
}

template <class T>
void RowPass<T>::make_delta(const Work& work) const {
  const Block block = rows_of(Operand::delta, work.rows, 1);
  T* delta = worker_.delta.in(work.local);
  if (kind_.stored_delta) {
    work.trace.read(block);
    load_lanes(work.memory.delta, work.rows, delta);
    return;
  }
  work.trace.create(block);
  for (Range o(work.rows.begin, work.rows.end, task_.blocks.o); o; o.next()) {
    work.trace.read(rows_of(Operand::O, o, e_));
    set_delta(o, work.rows.begin, delta);
    work.trace.remove(rows_of(Operand::O, o, e_));
  }
}

// delta of the rows in o, whose lanes may span several sub-blocks.
template <class T>
void RowPass<T>::set_delta(const Range& o, index_t first_row, T* delta) const {
  for (index_t row = o.begin; row < o.end;) {
    const index_t local = row - first_row;
    const index_t in_sub = local % layout_.rho;
    const index_t count = std::min(o.end - row, layout_.rho - in_sub);
    T* lanes = delta + layout_.lane_offset(local - in_sub) + in_sub;
    kernels_.row_dot(count, e_, task_.o.row(row), task_.o.stride, task_.d_o.row(row),
                     task_.d_o.stride, lanes);
    row += count;
    if (row == o.end || in_sub + count == layout_.rho) {
      std::fill_n(lanes + count, layout_.sub_lanes() - in_sub - count, T(0));
    }
  }
}

// A vector over the rows as the lanes of their panels.
template <class T>
void RowPass<T>::load_lanes(const T* values, const Range& rows, T* lanes) const {
  for (Range sub(rows.size(), layout_.rho); sub; sub.next()) {
    T* first = lanes + layout_.lane_offset(sub.begin);
    std::fill_n(std::copy_n(values + rows.begin + sub.begin, sub.size(), first),
                layout_.sub_lanes() - sub.size(), T(0));
  }
}

template class RowPass<float>;
template class RowPass<double>;

}  // namespace ioattn::schedules::row_stream
