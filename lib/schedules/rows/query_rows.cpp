#include "schedules/rows/query_rows.hpp"

#include <algorithm>

#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/range.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

// delta of the rows in o, whose lanes may span several sub-blocks.
template <class S>
void set_delta(const QueryLayout& layout, const BackwardTask<S>& task, const Range& o,
               index_t first_row, Compute<S>* delta) {
  using T = Compute<S>;
  for (index_t row = o.begin; row < o.end;) {
    const index_t local = row - first_row;
    const index_t in_sub = local % layout.rho;
    const index_t count = std::min(o.end - row, layout.rho - in_sub);
    T* lanes = delta + layout.lane_offset(local - in_sub) + in_sub;
    dot_rows(*task.kernels, count, task.shape.dv, task.o.row(row), task.o.stride, task.d_o.row(row),
             task.d_o.stride, lanes);
    row += count;
    if (row == o.end || in_sub + count == layout.rho) {
      fill_words(*task.kernels, lanes + count, layout.sub_lanes() - in_sub - count, T(0));
    }
  }
}

}  // namespace

template <class S>
void make_delta(const Trace& trace, const QueryLayout& layout, const BackwardTask<S>& task,
                const Range& rows, Compute<S>* delta) {
  trace.create({Operand::delta, rows.begin, 0, rows.size(), 1});
  for (Range o(rows.begin, rows.end, task.blocks.o); o; o.next()) {
    const Block streamed = {Operand::O, o.begin, 0, o.size(), task.shape.dv};
    trace.read(streamed);
    set_delta(layout, task, o, rows.begin, delta);
    trace.remove(streamed);
  }
}

template <class S>
void project_gradients(const Trace& trace, const QueryLayout& layout, const BackwardTask<S>& task,
                       const Range& rows, const Compute<S>* d_o_panels, Compute<S>* g_panels,
                       Compute<S>* copy) {
  const index_t d = task.shape.d, e = task.shape.dv;
  const Range all(e, e);
  trace.create({Operand::G, rows.begin, 0, rows.size(), d});
  for (Range y(d, task.blocks.w); y; y.next()) {
    const Block streamed = {Operand::Y, y.begin, 0, y.size(), e};
    trace.read(streamed);
    multiply_rows(
        *task.kernels, layout, rows.size(), d_o_panels, e,
        transposed(in_compute(*task.kernels, factor(Operand::Y, task.in.y), y, all, copy)), y, d,
        g_panels);
    trace.remove(streamed);
  }
}

template <class T>
void load_lanes(const kernels::KernelTable<T>& kernels, const QueryLayout& layout, const T* values,
                const Range& rows, T* lanes) {
  for (Range sub(rows.size(), layout.rho); sub; sub.next()) {
    T* first = lanes + layout.lane_offset(sub.begin);
    copy_words(kernels, values + rows.begin + sub.begin, sub.size(), first);
    fill_words(kernels, first + sub.size(), layout.sub_lanes() - sub.size(), T(0));
  }
}

#define IOATTN_INSTANTIATE(S)                                                                      \
  template void make_delta(const Trace&, const QueryLayout&, const BackwardTask<S>&, const Range&, \
                           Compute<S>*);                                                           \
  template void project_gradients(const Trace&, const QueryLayout&, const BackwardTask<S>&,        \
                                  const Range&, const Compute<S>*, Compute<S>*, Compute<S>*)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
IOATTN_INSTANTIATE(bf16);
IOATTN_INSTANTIATE(f16);
#undef IOATTN_INSTANTIATE
template void load_lanes(const kernels::KernelTable<float>&, const QueryLayout&, const float*,
                         const Range&, float*);
template void load_lanes(const kernels::KernelTable<double>&, const QueryLayout&, const double*,
                         const Range&, double*);

}  // namespace ioattn::schedules
