#pragma once

#include "schedules/memory/workspace.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/rows/stored_products.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// An n x m product A B^T that passes through memory, key-major: queries are SIMD lanes of what
// reads it.
template <class T>
class StoredScores {
 public:
  StoredScores() = default;
  // A is [n, depth], B is [m, depth].
  StoredScores(const LayerShape& shape, index_t depth, const ProductBlocks& blocks, index_t nr,
               int threads, WorkspaceLayout* layout, Factors factors);
  template <class A, class B>
  void run(const kernels::KernelTable<T>& kernels, const Trace& trace, Operand operand,
           const Factor<const A>& a, const Factor<const B>& b, void* workspace) const {
    product_.run(kernels, trace, a, schedules::transposed(b),
                 {operand, scores_.in(workspace), 1, stride_, false, false}, workspace);
  }
  MatrixView<T> transposed(void* workspace) const;  // [m, n]
  // The matrix itself, under the name it has now.
  Factor<const T> matrix(Operand operand, void* workspace) const;

 private:
  index_t n_ = 0, m_ = 0, stride_ = 0;
  Slot<T> scores_;
  ProductPass<T> product_;
};

// q = G A3^T or dO h^T in memory.
template <class S>
class StoredQ {
 public:
  using T = Compute<S>;

  StoredQ(const BackwardTask<S>& task, int threads, WorkspaceLayout* layout);
  // Phase "q", after those of `products`.
  void run(const Trace& trace, const StoredProducts<S>& products, void* workspace) const;
  MatrixView<T> transposed(void* workspace) const { return q_.transposed(workspace); }

 private:
  const BackwardTask<S>& task_;
  StoredScores<T> q_;
};

}  // namespace ioattn::schedules
