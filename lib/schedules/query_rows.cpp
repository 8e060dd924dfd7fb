#include "schedules/query_rows.hpp"

#include <algorithm>

namespace ioattn::schedules::row_stream {
namespace {

Block rows_of(Operand operand, const Range& rows, index_t cols) {
  return {operand, rows.begin, 0, rows.size(), cols};
}

// delta of the rows in o, whose lanes may span several sub-blocks.
template <class T>
void set_delta(const QueryLayout& layout, const BackwardTask<T>& task, const Range& o,
               index_t first_row, T* delta) {
  for (index_t row = o.begin; row < o.end;) {
    const index_t local = row - first_row;
    const index_t in_sub = local % layout.rho;
    const index_t count = std::min(o.end - row, layout.rho - in_sub);
    T* lanes = delta + layout.lane_offset(local - in_sub) + in_sub;
    task.kernels->row_dot(count, task.shape.dv, task.o.row(row), task.o.stride, task.d_o.row(row),
                          task.d_o.stride, lanes);
    row += count;
    if (row == o.end || in_sub + count == layout.rho) {
      std::fill_n(lanes + count, layout.sub_lanes() - in_sub - count, T(0));
    }
  }
}

// Columns y of G_I = dO_I Y^T, transposed in panels.
template <class T>
void project_gradient(const QueryLayout& layout, const BackwardTask<T>& task, index_t rows,
                      const Range& y, const T* d_o, T* g) {
  const index_t d = task.shape.d, e = task.shape.dv;
  for (Range sub(rows, layout.rho); sub; sub.next()) {
    kernels::Product<T> p;
    p.rows = y.size();
    p.cols = sub.size();
    p.depth = e;
    p.a = task.in.y.row(y.begin);
    p.a_row = task.in.y.stride;
    p.a_depth = 1;
    p.b = d_o + layout.panel_offset(sub.begin, e);
    p.b_panel = e * layout.nr;
    p.b_row = layout.nr;
    p.c = g + layout.panel_offset(sub.begin, d) + y.begin * layout.nr;
    p.c_panel = d * layout.nr;
    p.c_row = layout.nr;
    p.padded = true;
    task.kernels->product(p);
  }
}

}  // namespace

template <class T>
void read_gradients(const Trace& trace, const QueryLayout& layout, const BackwardTask<T>& task,
                    const Range& rows, const GradientRows<T>& to) {
  const index_t d = task.shape.d, e = task.shape.dv;
  trace.read(rows_of(Operand::dO, rows, e));
  pack_rows(*task.kernels, layout, task.d_o, rows, to.d_o);
  trace.create(rows_of(Operand::delta, rows, 1));
  for (Range o(rows.begin, rows.end, task.blocks.o); o; o.next()) {
    trace.read(rows_of(Operand::O, o, e));
    set_delta(layout, task, o, rows.begin, to.delta);
    trace.remove(rows_of(Operand::O, o, e));
  }
  if (to.g != nullptr) {
    trace.create(rows_of(Operand::G, rows, d));
    for (Range y(d, task.blocks.w); y; y.next()) {
      trace.read(rows_of(Operand::Y, y, e));
      project_gradient(layout, task, rows.size(), y, to.d_o, to.g);
      trace.remove(rows_of(Operand::Y, y, e));
    }
    trace.remove(rows_of(Operand::dO, rows, e));
  }
  trace.read(rows_of(Operand::LSE, rows, 1));
  for (Range sub(rows.size(), layout.rho); sub; sub.next()) {
    T* lse = to.lse + layout.lane_offset(sub.begin);
    std::fill_n(std::copy_n(task.lse + rows.begin + sub.begin, sub.size(), lse),
                layout.sub_lanes() - sub.size(), T(0));
  }
}

template <class T>
void release_gradients(const Trace& trace, const BackwardTask<T>& task, const Range& rows) {
  const bool h_form = task.blocks.form == Form::h;
  trace.remove(rows_of(Operand::LSE, rows, 1));
  trace.remove(rows_of(Operand::delta, rows, 1));
  trace.remove(h_form ? rows_of(Operand::dO, rows, task.shape.dv)
                      : rows_of(Operand::G, rows, task.shape.d));
}

#define IOATTN_INSTANTIATE(T)                                                            \
  template void read_gradients(const Trace&, const QueryLayout&, const BackwardTask<T>&, \
                               const Range&, const GradientRows<T>&);                    \
  template void release_gradients(const Trace&, const BackwardTask<T>&, const Range&)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules::row_stream
