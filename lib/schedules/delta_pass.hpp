#pragma once

#include "base/schedule.hpp"
#include "schedules/task.hpp"
#include "schedules/workspace.hpp"

namespace ioattn::schedules {

// delta = rowsum(O o dO), written to memory: `o` rows and `w` columns of the two at a time. Cost:
// theory::delta_cost.
template <class T>
class DeltaPass {
 public:
  DeltaPass(const LayerShape& shape, const Blocks& blocks, int threads, WorkspaceLayout* layout);
  void run(const kernels::KernelTable<T>& kernels, const Trace& trace, const MatrixView<const T>& o,
           const MatrixView<const T>& d_o, void* workspace) const;
  T* delta(void* workspace) const { return delta_.in(workspace); }  // [n]

 private:
  index_t n_, e_, rows_, cols_;
  int threads_;
  Slot<T> delta_;
};

}  // namespace ioattn::schedules
