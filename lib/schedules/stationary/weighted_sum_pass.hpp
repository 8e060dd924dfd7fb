#pragma once

#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/blocked_product.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// C[n x width] = exp(scores - LSE) V through memory: tiles of C stay one after the other, blocks of
// scores become weights when they are read. With keep_a they do so once, all of a row at a time.
// Cost: theory::weighted_sum_cost.
template <class T>
class WeightedSumPass {
 public:
  WeightedSumPass(index_t n, index_t m, index_t width, const ProductBlocks& blocks, index_t nr,
                  int threads, WorkspaceLayout* layout);
  // Scores are key-major, C is row-major.
  void run(const kernels::KernelTable<T>& kernels, const Trace& trace,
           const Factor<const T>& scores, const T* lse, const Factor<const T>& values,
           const Factor<T>& c, void* workspace) const;

 private:
  void rows(const kernels::KernelTable<T>& kernels, const Trace& trace,
            const Factor<const T>& scores, const T* lse, const Factor<const T>& values,
            const Factor<T>& c, const Range& i, void* local) const;
  void read_weights(const kernels::KernelTable<T>& kernels, const Trace& trace,
                    const Factor<const T>& scores, const T* lse, const Range& i, const Range& keys,
                    T* weights) const;

  index_t n_, m_, width_;
  ProductBlocks blocks_;
  bool elementwise_;
  int threads_;
  index_t weights_stride_;
  WorkerMemory workers_;
  struct {
    Slot<T> pack;
    Slot<T> weights;  // [depth or m][rows]
  } worker_;
};

}  // namespace ioattn::schedules
