#include "schedules/row_stream.hpp"

#include <algorithm>

namespace ioattn::schedules::row_stream {

index_t rows_per_block(const LayerShape& shape, const Blocks& blocks, int threads) {
  const index_t r = std::min(blocks.r, shape.n);
  if (threads <= 1 || blocks.rho >= shape.n) return r;
  const index_t count = round_up(ceil_div(shape.n, r), threads);
  return std::min(r, round_up(ceil_div(shape.n, count), blocks.rho));
}

template <class T>
void project_queries(const kernels::KernelTable<T>& kernels, const Trace& trace,
                     const QueryLayout& layout, const LayerInputs<T>& in, const Range& rows,
                     index_t w, T* a1_panels, T* s_panels) {
  const index_t d = in.x.cols;
  const Block a1 = {Operand::A1, rows.begin, 0, rows.size(), d};
  trace.read(a1);
  pack_rows(kernels, layout, in.a1, rows, a1_panels);
  trace.create({Operand::S, rows.begin, 0, rows.size(), d});
  for (Range x(d, w); x; x.next()) {
    const Block streamed = {Operand::X, 0, x.begin, d, x.size()};
    trace.read(streamed);
    for (Range sub(rows.size(), layout.rho); sub; sub.next()) {
      kernels::Product<T> p;
      p.rows = x.size();
      p.cols = sub.size();
      p.depth = d;
      p.a = in.x.at(0, x.begin);
      p.a_row = 1;
      p.a_depth = in.x.stride;
      p.b = a1_panels + layout.panel_offset(sub.begin, d);
      p.b_panel = d * layout.nr;
      p.b_row = layout.nr;
      p.c = s_panels + layout.panel_offset(sub.begin, d) + x.begin * layout.nr;
      p.c_panel = d * layout.nr;
      p.c_row = layout.nr;
      p.padded = true;
      kernels.product(p);
    }
    trace.remove(streamed);
  }
  trace.remove(a1);
}

template <class T>
ValueProjection<T>::ValueProjection(const LayerShape& shape, const Blocks& blocks, index_t nr,
                                    int threads, WorkspaceLayout* layout)
    : m_(shape.m), e_(shape.dv) {
  if (blocks.form != Form::h) return;
  stride_ = padded_stride<T>(e_, nr);
  h_ = layout->add<T>(m_ * stride_ + nr);
  product_ = ProductPass<T>(m_, shape.d, e_, blocks.h, nr, threads, layout);
}

template <class T>
void ValueProjection<T>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                             const LayerInputs<T>& in, void* workspace) const {
  T* data = h_.in(workspace);
  std::fill_n(data, h_.count, T(0));  // the padding of the rows is read as lanes
  trace.phase("h");
  product_.run(kernels, trace, factor(Operand::A3, in.a3), factor(Operand::Y, in.y),
               {Operand::h, data, stride_, 1, false, true}, workspace);
}

template <class T>
MatrixView<const T> ValueProjection<T>::h(void* workspace) const {
  return {h_.in(workspace), m_, e_, stride_};
}

#define IOATTN_INSTANTIATE(T)                                                                     \
  template void project_queries(const kernels::KernelTable<T>&, const Trace&, const QueryLayout&, \
                                const LayerInputs<T>&, const Range&, index_t, T*, T*);            \
  template class ValueProjection<T>
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules::row_stream
