#pragma once

#include "base/matrix_view.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// delta = rowsum(O o dO), written to memory: `o` rows and `w` columns of the two at a time; for one
// head or, block by block, for several. Cost of one: theory::delta_cost.
template <class S>
class DeltaPass {
 public:
  using T = Compute<S>;

  DeltaPass(const LayerShape& shape, const Blocks& blocks, const Workers& workers,
            WorkspaceLayout* layout, index_t heads = 1);
  void run(const kernels::KernelTable<T>& kernels, const Trace& trace, const MatrixView<const S>& o,
           const MatrixView<const S>& d_o, void* workspace) const;
  index_t block_count() const { return ceil_div(n_, rows_); }
  void run_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                 const MatrixView<const S>& o, const MatrixView<const S>& d_o, index_t block,
                 T* delta) const;
  T* delta(void* workspace, index_t head = 0) const {  // [n]
    return delta_.in(workspace) + head * n_;
  }

 private:
  index_t n_, e_, rows_, cols_;
  int threads_;
  Slot<T> delta_;
};

}  // namespace ioattn::schedules
