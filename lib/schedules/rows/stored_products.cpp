#include "schedules/rows/stored_products.hpp"

#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/batch.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

template <class S, class P>
StoredProducts<S, P>::StoredProducts(const BackwardTask<S>& task, int threads,
                                     WorkspaceLayout* layout, const StoredNeeds& needs)
    : task_(task),
      needs_(needs),
      stored_(task.blocks.products == Products::stored),
      h_form_(task.blocks.form == Form::h),
      stride_(padded_stride(task.shape.d, task.kernels->tile.cols)),
      values_(task.shape, needs.values ? task.blocks : Blocks{}, task.kernels->tile.cols, threads,
              layout) {
  const auto [n, m, d, e, tie, mask] = task.shape;
  const index_t nr = task.kernels->tile.cols, words = n * stride_ + nr;
  if (needs.delta) delta_.emplace(task.shape, task.blocks, threads, layout);
  if (!h_form_ && needs.values) {
    g_ = layout->add<P>(words);
    g_product_ = thin_product<S, P>(n, e, d, task.blocks.g, nr, threads, layout, RoundedSums::once);
  }
  if (!stored_) return;
  s_ = layout->add<P>(words + rest_of_s());
  s_product_ =
      thin_product<S, P>(n, d, d, task.blocks.s, nr, threads, layout, RoundedSums::in_two_parts);
  if (needs.u) u_ = layout->add<T>(words);
  if (needs.dx) {
    seeing_ = seeing_queries(task.shape);
    dx_product_ =
        ProductPass<T>(d, seeing_.size(), d, task.blocks.x, nr, threads, layout, factors_of<S>);
  }
}

template <class S, class P>
void StoredProducts<S, P>::run(const Trace& trace, void* workspace) const {
  constexpr bool of_pairs = is_half_storage<P>;
  const kernels::KernelTable<T>& kernels = *task_.kernels;
  if (delta_) {
    trace.phase("delta");
    delta_->run(kernels, trace, task_.o, task_.d_o, workspace);
  }
  if (stored_) {
    trace.phase("S");
    const Factor<P> s = {Operand::S, s_.in(workspace), stride_};
    const Factor<const S> a1 = factor(Operand::A1, task_.in.a1);
    if constexpr (of_pairs) {
      s_product_.run(kernels, Trace::of_pair_product(task_.observer), a1,
                     factor(Operand::X, task_.in.x), s, workspace);
    } else {
      with_x(task_.in, [&](const auto& x) { s_product_.run(kernels, trace, a1, x, s, workspace); });
    }
  }
  if (!needs_.values) return;
  if (h_form_) {
    values_.run(kernels, of_pairs ? Trace::of_pair_product(task_.observer) : trace, task_.in,
                workspace);
    return;
  }
  trace.phase("G");
  g_product_.run(kernels, trace, factor(Operand::dO, task_.d_o),
                 transposed(factor(Operand::Y, task_.in.y)),
                 Factor<P>{Operand::G, g_.in(workspace), stride_}, workspace);
}

template <class S, class P>
void StoredProducts<S, P>::run_dx(const Trace& trace, void* workspace) const {
  if (!stored_) return;
  const MatrixView<const T> u = this->u(workspace);
  trace.phase("dX");
  const Factor<const S> a1 = part_from(factor(Operand::A1, task_.in.a1), seeing_.begin, 0);
  dx_product_.run(*task_.kernels, trace, transposed(a1),
                  Factor<const T>{Operand::U, u.row(seeing_.begin), u.stride},
                  {Operand::dX, task_.dx.data, task_.dx.stride}, workspace);
}

template class StoredProducts<float>;
template class StoredProducts<double>;
template class StoredProducts<bf16>;
template class StoredProducts<bf16, bf16>;
template class StoredProducts<f16>;

}  // namespace ioattn::schedules
