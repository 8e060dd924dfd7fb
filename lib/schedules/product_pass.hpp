#pragma once

#include "base/schedule.hpp"
#include "schedules/blocked_product.hpp"
#include "schedules/task.hpp"
#include "schedules/workspace.hpp"

namespace ioattn::schedules {

// What else happens while rows of C are worked on: vectors over the rows come and go, a finished
// tile is changed before it is written. Tiles of the same rows are finished in ascending order by
// one worker.
class TileHook {
 public:
  virtual ~TileHook() = default;
  virtual void begin_rows(int /*worker*/, const Range& /*rows*/) const {}
  virtual void finish_tile(int /*worker*/, const Range& /*rows*/, const Range& /*cols*/) const {}
  virtual void end_rows(int /*worker*/, const Range& /*rows*/) const {}
};

// C[n1 x n2] (+)= A[n1 x k] B[k x n2] through memory: tiles of C stay in fast memory one after the
// other, blocks of A and B are read past them; with keep_a the rows of A stay as well. Threads own
// rows of C, so that no sum depends on their number. Cost: theory::product_cost.
template <class T>
class ProductPass {
 public:
  ProductPass() = default;
  ProductPass(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks, index_t nr,
              int threads, WorkspaceLayout* layout);

  // With `accumulate` C is read and added to. All three factors have the sizes given before.
  void run(const kernels::KernelTable<T>& kernels, const Trace& trace, const Factor<const T>& a,
           const Factor<const T>& b, const Factor<T>& c, void* workspace, bool accumulate = false,
           const TileHook* hook = nullptr) const;

 private:
  void rows(const kernels::KernelTable<T>& kernels, const Trace& trace, const Factor<const T>& a,
            const Factor<const T>& b, const Factor<T>& c, const Range& i, T* pack, bool accumulate,
            const TileHook* hook, int worker) const;

  index_t n1_ = 0, k_ = 0, n2_ = 0;
  ProductBlocks blocks_;
  bool elementwise_ = false;  // tiles of one element, whatever the number of threads
  int threads_ = 1;
  index_t pack_elements_ = 0;
  Slot<T> pack_;
};

}  // namespace ioattn::schedules
