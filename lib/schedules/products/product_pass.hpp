#pragma once

#include <algorithm>

#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/blocked_product.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// Blocks cut to the matrices of a product C[n1 x n2] with k terms, and to rows that occupy all
// threads. Columns and depth, which order the sums, do not depend on the threads.
ProductBlocks cut_blocks(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks, index_t nr,
                         int threads);

// Tiles of one element are dot products. Where threads shorten a block of rows to one it stays the
// tile that it was, so that its sums stay the same.
inline bool is_elementwise(index_t n1, index_t n2, const ProductBlocks& blocks) {
  return std::min(blocks.rows, n1) == 1 && std::min(blocks.cols, n2) == 1;
}

// What else happens while rows of C are worked on: vectors over the rows come and go, a finished
// tile is changed before it is written. Tiles of the same rows are finished in ascending order by
// one worker.
class TileHook {
 public:
  virtual ~TileHook() = default;
  virtual void begin_rows(const Range& /*rows*/) const {}
  virtual void finish_tile(const Range& /*rows*/, const Range& /*cols*/) const {}
  virtual void end_rows(const Range& /*rows*/) const {}
};

// Whether a factor of a product may be stored in 16 bits: blocks of it then become f32 as they are
// read.
enum class Factors : std::uint8_t { native, in_16_bits };
template <class S>
constexpr Factors factors_of = is_half_storage<S> ? Factors::in_16_bits : Factors::native;

// C[n1 x n2] (+)= A[n1 x k] B[k x n2] through memory: tiles of C stay in fast memory one after the
// other, blocks of A and B are read past them; with keep_a the rows of A stay as well. Threads own
// rows of C, so that no sum depends on their number. Cost: theory::product_cost.
template <class T>
class ProductPass {
 public:
  ProductPass() = default;
  ProductPass(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks, index_t nr,
              int threads, WorkspaceLayout* layout, Factors factors = Factors::native);

  // With `accumulate` C is read and added to. All three factors have the sizes given before. A and
  // B are of T or, if that was said, of 16 bits.
  template <class A, class B>
  void run(const kernels::KernelTable<T>& kernels, const Trace& trace, const Factor<const A>& a,
           const Factor<const B>& b, const Factor<T>& c, void* workspace, bool accumulate = false,
           const TileHook* hook = nullptr) const;

 private:
  // Rows of A that stay and are read again for every panel of C, copied if they meet in few of a
  // cache's sets, which would drop them in between.
  Factor<const T> gathered(const kernels::KernelTable<T>& kernels, const Factor<const T>& block,
                           const Factor<T>& c, const Range& row, const Range& term, T* copy) const;
  template <class A, class B>
  void rows(const kernels::KernelTable<T>& kernels, const Trace& trace, const Factor<const A>& a,
            const Factor<const B>& b, const Factor<T>& c, const Range& i, void* local,
            bool accumulate, const TileHook* hook) const;

  index_t n1_ = 0, k_ = 0, n2_ = 0, nr_ = 1;
  bool gathers_ = false;  // there is memory for copies of A
  ProductBlocks blocks_;
  bool elementwise_ = false;
  int threads_ = 1;
  WorkerMemory workers_;
  struct {
    Slot<T> pack;
    Slot<T> a, b;  // blocks that became f32, or of A that were copied
  } worker_;
};

}  // namespace ioattn::schedules
