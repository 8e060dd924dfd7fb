#include "schedules/delta_pass.hpp"

#include <algorithm>

#include "parallel/parallel.hpp"
#include "schedules/shared_blocks.hpp"
#include "schedules/storage.hpp"

namespace ioattn::schedules {

template <class S>
DeltaPass<S>::DeltaPass(const LayerShape& shape, const Blocks& blocks, const Workers& workers,
                        WorkspaceLayout* layout, index_t heads)
    : n_(shape.n),
      e_(shape.dv),
      rows_(shared_block(shape.n, blocks.o, 1, workers)),
      cols_(blocks.w),
      threads_(workers.count),
      delta_(layout->add<T>(heads * shape.n)) {}

template <class S>
void DeltaPass<S>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                       const MatrixView<const S>& o, const MatrixView<const S>& d_o,
                       void* workspace) const {
  parallel::for_each(threads_, block_count(), [&](index_t block, int) {
    run_block(kernels, trace, o, d_o, block, delta(workspace));
  });
}

template <class S>
void DeltaPass<S>::run_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                             const MatrixView<const S>& o, const MatrixView<const S>& d_o,
                             index_t block, T* delta) const {
  const Range i(block * rows_, n_, rows_);
  const Block sums = {Operand::delta, i.begin, 0, i.size(), 1};
  trace.create(sums);
  fill_words(kernels, delta + i.begin, i.size(), T(0));
  for (Range k(e_, cols_); k; k.next()) {
    const Block left = {Operand::O, i.begin, k.begin, i.size(), k.size()};
    const Block right = {Operand::dO, i.begin, k.begin, i.size(), k.size()};
    trace.read(left);
    trace.read(right);
    for (Range rows(i.begin, i.end, rows_at_once); rows; rows.next())
      add_row_products(kernels, o, d_o, rows, k, delta + rows.begin);
    trace.remove(left);
    trace.remove(right);
  }
  trace.write_and_remove(sums);
}

template <class S>
void add_row_products(const kernels::KernelTable<Compute<S>>& kernels, const MatrixView<const S>& o,
                      const MatrixView<const S>& d_o, const Range& rows, const Range& cols,
                      Compute<S>* sums) {
  const S* const x = o.at(rows.begin, cols.begin);
  const S* const y = d_o.at(rows.begin, cols.begin);
  if constexpr (is_half_storage<S>) {
    kernels.template storage<S>().add_row_dot(rows.size(), cols.size(), x, o.stride, y, d_o.stride,
                                              sums);
  } else {
    S parts[rows_at_once];
    kernels.row_dot(rows.size(), cols.size(), x, o.stride, y, d_o.stride, parts);
    tell_written(kernels, sums, rows.size());
    for (index_t i = 0; i < rows.size(); ++i) sums[i] += parts[i];
  }
}

template class DeltaPass<float>;
template class DeltaPass<double>;
template class DeltaPass<bf16>;
template class DeltaPass<f16>;

#define IOATTN_INSTANTIATE(S)                                                            \
  template void add_row_products(const kernels::KernelTable<Compute<S>>&,                \
                                 const MatrixView<const S>&, const MatrixView<const S>&, \
                                 const Range&, const Range&, Compute<S>*)
IOATTN_INSTANTIATE(bf16);
IOATTN_INSTANTIATE(f16);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
