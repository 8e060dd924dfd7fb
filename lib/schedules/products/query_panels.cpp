#include "schedules/products/query_panels.hpp"

#include <algorithm>

#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/batch.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/shared_blocks.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

index_t rows_per_block(const LayerShape& shape, const Blocks& blocks, const Workers& workers) {
  if (blocks.rho >= shape.n) return std::min(blocks.r, shape.n);
  return shared_block(shape.n, blocks.r, blocks.rho, workers, shape.mask, shape.m);
}

template <class T>
void multiply_rows(const kernels::KernelTable<T>& kernels, const QueryLayout& layout, index_t rows,
                   const T* panels, index_t depth, const Factor<const T>& b, const Range& cols,
                   index_t width, T* result) {
  for (Range sub(rows, layout.rho); sub; sub.next()) {
    kernels::Product<T> p;
    p.rows = cols.size();
    p.cols = sub.size();
    p.depth = depth;
    p.a = {b.data, b.col_stride, b.row_stride};
    p.b = {panels + layout.panel_offset(sub.begin, depth), depth * layout.nr, layout.nr};
    p.c = {result + layout.panel_offset(sub.begin, width) + cols.begin * layout.nr,
           width * layout.nr, layout.nr};
    p.padded = true;
    kernels.product(p);
  }
}

template <class S>
void project_queries(const kernels::KernelTable<Compute<S>>& kernels, const Trace& trace,
                     const QueryLayout& layout, const LayerInputs<S>& in, const Range& rows,
                     index_t w, Compute<S>* a1_panels, Compute<S>* s_panels, Compute<S>* copy) {
  const index_t d = in.x.cols;
  const Range all(d, d);
  const Block a1 = {Operand::A1, rows.begin, 0, rows.size(), d};
  trace.read(a1);
  pack_rows(kernels, layout, in.a1, rows, a1_panels);
  trace.create({Operand::S, rows.begin, 0, rows.size(), d});
  with_x(in, [&](const auto& x) {
    for (Range cols(d, w); cols; cols.next()) {
      trace.read(x.block(all, cols));
      multiply_rows(kernels, layout, rows.size(), a1_panels, d,
                    in_compute(kernels, x, all, cols, copy), cols, d, s_panels);
      trace.remove(x.block(all, cols));
    }
  });
  trace.remove(a1);
}

template <class T>
kernels::Product<T> score_product(const QueryLayout& layout, const MatrixView<const T>& keys,
                                  const T* query_panels, const Range& sub,
                                  const kernels::ScoreTile<T>& tile) {
  kernels::Product<T> p;
  p.rows = keys.rows;
  p.cols = sub.size();
  p.depth = keys.cols;
  p.a = {keys.data, keys.stride, 1};
  p.b = {query_panels + layout.panel_offset(sub.begin, keys.cols), keys.cols * layout.nr,
         layout.nr};
  p.c = {tile.data, layout.nr, tile.stride};
  p.padded = true;
  return p;
}

template <class S, class P>
ValueProjection<S, P>::ValueProjection(const LayerShape& shape, const Blocks& blocks, index_t nr,
                                       int threads, WorkspaceLayout* layout)
    : m_(shape.m), e_(shape.dv) {
  if (blocks.form != Form::h) return;
  stride_ = padded_stride(e_, nr);
  h_ = layout->add<P>(m_ * stride_ + nr);
  product_ = thin_product<S, P>(m_, shape.d, e_, blocks.h, nr, threads, layout, RoundedSums::once);
}

template <class S, class P>
void ValueProjection<S, P>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                                const LayerInputs<S>& in, void* workspace) const {
  P* data = h_.in(workspace);
  if constexpr (!is_half_storage<P>) {
    fill_words(kernels, data, h_.count, T(0));  // the padding of the rows is read as lanes
  }
  trace.phase("h");
  product_.run(kernels, trace, factor(Operand::A3, in.a3), factor(Operand::Y, in.y),
               Factor<P>{Operand::h, data, stride_, 1, false, true}, workspace);
}

template <class S, class P>
auto ValueProjection<S, P>::h(void* workspace) const -> MatrixView<const P> {
  return {h_.in(workspace), m_, e_, stride_};
}

#define IOATTN_INSTANTIATE(T)                                                                   \
  template void multiply_rows(const kernels::KernelTable<T>&, const QueryLayout&, index_t,      \
                              const T*, index_t, const Factor<const T>&, const Range&, index_t, \
                              T*);                                                              \
  template kernels::Product<T> score_product(const QueryLayout&, const MatrixView<const T>&,    \
                                             const T*, const Range&,                            \
                                             const kernels::ScoreTile<T>&);                     \
  template class ValueProjection<T>
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE
template class ValueProjection<bf16>;
template class ValueProjection<bf16, bf16>;
template class ValueProjection<f16>;

#define IOATTN_INSTANTIATE(S)                                                                     \
  template void project_queries(const kernels::KernelTable<Compute<S>>&, const Trace&,            \
                                const QueryLayout&, const LayerInputs<S>&, const Range&, index_t, \
                                Compute<S>*, Compute<S>*, Compute<S>*)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
IOATTN_INSTANTIATE(bf16);
IOATTN_INSTANTIATE(f16);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
