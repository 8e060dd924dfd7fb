#include "schedules/delta_pass.hpp"

#include <algorithm>

#include "parallel/parallel.hpp"

namespace ioattn::schedules {
namespace {
constexpr index_t rows_at_once = 64;  // of one kernel call
}  // namespace

template <class T>
DeltaPass<T>::DeltaPass(const LayerShape& shape, const Blocks& blocks, const Workers& workers,
                        WorkspaceLayout* layout, index_t heads)
    : n_(shape.n),
      e_(shape.dv),
      rows_(std::min(blocks.o, shape.n)),
      cols_(blocks.w),
      threads_(workers.count),
      delta_(layout->add<T>(heads * shape.n)) {
  if (workers.per_head > 1) rows_ = std::min(rows_, ceil_div(n_, index_t(workers.per_head)));
}

template <class T>
void DeltaPass<T>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                       const MatrixView<const T>& o, const MatrixView<const T>& d_o,
                       void* workspace) const {
  parallel::Dispenser blocks;
  const index_t count = block_count();
  auto body = [&](int) {
    for (index_t block = blocks.take(); block < count; block = blocks.take())
      run_block(kernels, trace, o, d_o, block, delta(workspace));
  };
  parallel::run(threads_, body);
}

template <class T>
void DeltaPass<T>::run_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                             const MatrixView<const T>& o, const MatrixView<const T>& d_o,
                             index_t block, T* delta) const {
  const Range i(block * rows_, n_, rows_);
  const Block sums = {Operand::delta, i.begin, 0, i.size(), 1};
  trace.create(sums);
  std::fill_n(delta + i.begin, i.size(), T(0));
  for (Range k(e_, cols_); k; k.next()) {
    const Block left = {Operand::O, i.begin, k.begin, i.size(), k.size()};
    const Block right = {Operand::dO, i.begin, k.begin, i.size(), k.size()};
    trace.read(left);
    trace.read(right);
    for (Range rows(i.begin, i.end, rows_at_once); rows; rows.next()) {
      T parts[rows_at_once];
      kernels.row_dot(rows.size(), k.size(), o.at(rows.begin, k.begin), o.stride,
                      d_o.at(rows.begin, k.begin), d_o.stride, parts);
      for (index_t row = rows.begin; row < rows.end; ++row) delta[row] += parts[row - rows.begin];
    }
    trace.remove(left);
    trace.remove(right);
  }
  trace.write_and_remove(sums);
}

template class DeltaPass<float>;
template class DeltaPass<double>;

}  // namespace ioattn::schedules
