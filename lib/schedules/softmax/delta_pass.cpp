#include "schedules/softmax/delta_pass.hpp"

#include "parallel/parallel.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/shared_blocks.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/trace.hpp"

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
  constexpr index_t rows_at_once = 64;
  T parts[rows_at_once];
  for (Range k(e_, cols_); k; k.next()) {
    const Block left = {Operand::O, i.begin, k.begin, i.size(), k.size()};
    const Block right = {Operand::dO, i.begin, k.begin, i.size(), k.size()};
    trace.read(left);
    trace.read(right);
    for (Range rows(i.begin, i.end, rows_at_once); rows; rows.next()) {
      dot_rows(kernels, rows.size(), k.size(), o.at(rows.begin, k.begin), o.stride,
               d_o.at(rows.begin, k.begin), d_o.stride, parts);
      tell_written(kernels, delta + rows.begin, rows.size());
      for (index_t row = 0; row < rows.size(); ++row) delta[rows.begin + row] += parts[row];
    }
    trace.remove(left);
    trace.remove(right);
  }
  trace.write_and_remove(sums);
}

template class DeltaPass<float>;
template class DeltaPass<double>;
template class DeltaPass<bf16>;
template class DeltaPass<f16>;

}  // namespace ioattn::schedules
