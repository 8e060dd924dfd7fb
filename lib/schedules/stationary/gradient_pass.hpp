#pragma once

#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/blocked_product.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// p = f o (q - delta) through memory, by tiles of q = G V^T (G: or dO, V: A3 or h) that stay in
// fast memory; tiles are key-major. Either f is read back and p takes its place, or, as twins, a
// tile of scores S V^T stays beside that of q and one stream of V serves both. Cost:
// theory::gradient_cost.
template <class T>
class GradientPass {
 public:
  enum class Weights : std::uint8_t { stored, twin };
  struct Operands {
    Factor<const T> s;          // twin
    Factor<const T> gradients;  // [n x k]
    Factor<const T> values;     // [k x m]
    const T* lse;               // twin
    const T* delta;
    T* p;  // key-major; holds f if it is stored
    index_t p_stride;
  };

  GradientPass(index_t n, index_t k, index_t m, const ProductBlocks& blocks, Weights weights,
               index_t nr, int threads, WorkspaceLayout* layout);
  void run(const kernels::KernelTable<T>& kernels, const Trace& trace, const Operands& in,
           void* workspace) const;

 private:
  void rows(const kernels::KernelTable<T>& kernels, const Trace& trace, const Operands& in,
            const Range& i, void* local) const;
  void add_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                 const Factor<const T>& left, const Factor<const T>& values, const Range& i,
                 const Range& k, const Range& j, T* pack, T* tile) const;
  void finish(const kernels::KernelTable<T>& kernels, const Trace& trace, const Operands& in,
              const Range& i, const Range& j, void* local) const;

  index_t n_, k_, m_;
  ProductBlocks blocks_;
  bool twin_, elementwise_;
  int threads_;
  index_t tile_stride_;
  WorkerMemory workers_;
  struct {
    Slot<T> pack;
    Slot<T> q, scores;  // [cols][rows]; scores: twin
  } worker_;
};

}  // namespace ioattn::schedules
