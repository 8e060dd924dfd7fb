#pragma once

#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/words.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/blocked_product.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// What becomes of sums in f32 that others will multiply as pairs: rounded once, or the sum of two
// parts, of which the second, what rounding took, lies behind all rows of the first.
enum class RoundedSums : std::uint8_t { once, in_two_parts };

// C[n1 x n2] = A[n1 x k] B[k x n2] through memory, as ProductPass, of operands in bf16 multiplied
// as pairs: a tile of C, in f32, stays in memory of the worker and is rounded when it is complete.
// All three are row-major.
class PairProduct {
 public:
  using Word = kernels::bf16x2;

  PairProduct() = default;
  PairProduct(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks, index_t nr,
              int threads, WorkspaceLayout* layout, RoundedSums rounded);

  void run(const kernels::KernelTable<float>& kernels, const Trace& trace,
           const Factor<const bf16>& a, const Factor<const bf16>& b, const Factor<bf16>& c,
           void* workspace) const;

 private:
  struct Rows {  // of A, where they lie or in a copy
    const Word* data;
    index_t stride;
  };
  Rows words_of_rows(const kernels::KernelTable<float>& kernels, const Factor<const bf16>& a,
                     const Range& rows, const Range& terms, Word* copy) const;
  void add_rows(const kernels::KernelTable<float>& kernels, const Trace& trace,
                const Factor<const bf16>& a, const Factor<const bf16>& b, const Factor<bf16>& c,
                const Range& rows, void* local) const;
  void round(const kernels::KernelTable<float>& kernels, const Trace& trace, float* sums,
             const Factor<bf16>& c, const Range& rows, const Range& cols) const;

  index_t n1_ = 0, k_ = 0, n2_ = 0, nr_ = 1;
  ProductBlocks blocks_;
  RoundedSums rounded_ = RoundedSums::once;
  int threads_ = 1;
  index_t a_stride_ = 0, sum_stride_ = 0;
  WorkerMemory workers_;
  struct {
    Slot<Word> a, b;   // [rows][depth or k], copied; panels [cols][depth]
    Slot<float> sums;  // [rows][cols]
  } worker_;
};

// A product whose result is of P: f32 or, of operands S, rounded.
template <class S, class P>
using ThinProduct = std::conditional_t<is_half_storage<P>, PairProduct, ProductPass<Compute<S>>>;
template <class S, class P>
ThinProduct<S, P> thin_product(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks,
                               index_t nr, int threads, WorkspaceLayout* layout,
                               RoundedSums rounded) {
  if constexpr (is_half_storage<P>) {
    return PairProduct(n1, k, n2, blocks, nr, threads, layout, rounded);
  } else {
    return ProductPass<Compute<S>>(n1, k, n2, blocks, nr, threads, layout, factors_of<S>);
  }
}

}  // namespace ioattn::schedules
