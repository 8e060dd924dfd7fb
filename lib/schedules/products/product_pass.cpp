#include "schedules/products/product_pass.hpp"

#include <algorithm>

#include "parallel/parallel.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

// Rows so far apart lie in few sets: 32 of them, or fewer, before a way of 64 KiB begins again.
template <class T>
constexpr index_t far_apart = 2048 / sizeof(T);

}  // namespace

ProductBlocks cut_blocks(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks, index_t nr,
                         int threads) {
  ProductBlocks cut = blocks;
  cut.rows = std::min(blocks.rows, n1);
  cut.cols = std::min(blocks.cols, n2);
  cut.depth = std::min(blocks.depth, k);
  // Few long blocks of rows would leave threads idle.
  if (threads > 1) {
    const index_t count = round_up(ceil_div(n1, cut.rows), index_t(threads));
    cut.rows = std::min(cut.rows, round_up(ceil_div(n1, count), nr));
  }
  return cut;
}

template <class T>
ProductPass<T>::ProductPass(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks,
                            index_t nr, int threads, WorkspaceLayout* layout, Factors factors)
    : n1_(n1),
      k_(k),
      n2_(n2),
      nr_(nr),
      gathers_(factors == Factors::native && blocks.keep_a && n2 > nr &&
               (k % far_apart<T> == 0 || n1 % far_apart<T> == 0)),
      blocks_(cut_blocks(n1, k, n2, blocks, nr, threads)),
      elementwise_(is_elementwise(n1, n2, blocks)),
      threads_(threads) {
  const index_t depth_of_a = blocks_.keep_a ? k : blocks_.depth;
  worker_.pack = workers_.add<T>(std::max(pack_elements(blocks_.rows, depth_of_a, 1, nr),
                                          pack_elements(1, blocks_.depth, blocks_.cols, nr)));
  if (gathers_) {
    worker_.a = workers_.add<T>(
        std::max(blocks_.rows * padded_stride(k, nr), k * padded_stride(blocks_.rows, nr)));
  }
  if (factors == Factors::in_16_bits) {
    worker_.a = workers_.add<T>(blocks_.rows * depth_of_a);
    worker_.b = workers_.add<T>(blocks_.depth * blocks_.cols);
  }
  workers_.add_to(layout, threads);
}

template <class T>
template <class A, class B>
void ProductPass<T>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                         const Factor<const A>& a, const Factor<const B>& b, const Factor<T>& c,
                         void* workspace, bool accumulate, const TileHook* hook) const {
  const auto run_block = [&](index_t block, int worker) {
    const Range i(block * blocks_.rows, n1_, blocks_.rows);
    if (hook != nullptr) hook->begin_rows(i);
    rows(kernels, trace, a, b, c, i, workers_.of(worker, workspace), accumulate, hook);
    if (hook != nullptr) hook->end_rows(i);
  };
  parallel::for_each(threads_, ceil_div(n1_, blocks_.rows), run_block);
}

template <class T>
Factor<const T> ProductPass<T>::gathered(const kernels::KernelTable<T>& kernels,
                                         const Factor<const T>& block, const Factor<T>& c,
                                         const Range& row, const Range& term, T* copy) const {
  const bool by_rows = block.col_stride == 1;
  const index_t stride = by_rows ? block.row_stride : block.col_stride;
  const index_t rows = by_rows ? row.size() : term.size();
  const index_t cols = by_rows ? term.size() : row.size();
  if (!gathers_ || elementwise_ || c.col_stride != 1 || stride % far_apart<T> != 0 ||
      are_close(stride, cols)) {
    return block;
  }
  const index_t to = padded_stride(cols, nr_);
  load_rows(kernels, block.data, stride, rows, cols, copy, to);
  return {block.operand, copy, by_rows ? to : 1, by_rows ? 1 : to, block.named_transposed, false};
}

template <class T>
template <class A, class B>
void ProductPass<T>::rows(const kernels::KernelTable<T>& kernels, const Trace& trace,
                          const Factor<const A>& a, const Factor<const B>& b, const Factor<T>& c,
                          const Range& i, void* local, bool accumulate,
                          const TileHook* hook) const {
  const Range all(k_, k_), row = from_0(i);
  T *const pack = worker_.pack.in(local), *const copy = worker_.a.in(local);
  // Rows of A that are SIMD lanes and stay are packed once.
  const bool packed_once = blocks_.keep_a && c.col_stride != 1 && !elementwise_;
  Factor<const T> kept{};
  kernels::Panels<const T> panels;
  if (blocks_.keep_a) {
    trace.read(a.block(i, all));
    kept = gathered(kernels, in_compute(kernels, a, i, all, copy), c, row, all, copy);
  }
  if (packed_once) panels = lane_panels(kernels, transposed(kept), all, row, pack);
  for (Range j(n2_, blocks_.cols); j; j.next()) {
    trace.begin_sum(c.block(i, j), accumulate);
    for (Range q(k_, blocks_.depth); q; q.next()) {
      const bool add = accumulate || q.begin > 0;
      if (!blocks_.keep_a) trace.read(a.block(i, q));
      trace.read(b.block(q, j));
      const Range term = from_0(q), col = from_0(j);
      const Factor<const T> right = in_compute(kernels, b, q, j, worker_.b.in(local));
      const Factor<T> tile = part_from(c, i.begin, j.begin);
      if (packed_once) {
        const kernels::Panels<const T> left = {panels.row_of(0, q.begin), panels.panel, panels.row};
        multiply_panels(kernels, transposed(right), left, transposed_result(tile), col, term, row,
                        add);
      } else {
        const Factor<const T> left =
            blocks_.keep_a ? part_from(kept, 0, q.begin) : in_compute(kernels, a, i, q, copy);
        multiply_part(elementwise_, kernels, left, right, tile, row, term, col, add, pack);
      }
      if (!blocks_.keep_a) trace.remove(a.block(i, q));
      trace.remove(b.block(q, j));
    }
    if (hook != nullptr) hook->finish_tile(i, j);
    trace.write_and_remove(c.block(i, j));
  }
  if (blocks_.keep_a) trace.remove(a.block(i, all));
}

template class ProductPass<float>;
template class ProductPass<double>;

#define IOATTN_INSTANTIATE(T, A, B)                                                 \
  template void ProductPass<T>::run(const kernels::KernelTable<T>&, const Trace&,   \
                                    const Factor<const A>&, const Factor<const B>&, \
                                    const Factor<T>&, void*, bool, const TileHook*) const
IOATTN_INSTANTIATE(float, float, float);
IOATTN_INSTANTIATE(double, double, double);
IOATTN_INSTANTIATE(float, bf16, bf16);
IOATTN_INSTANTIATE(float, bf16, float);
IOATTN_INSTANTIATE(float, float, bf16);
IOATTN_INSTANTIATE(float, f16, f16);
IOATTN_INSTANTIATE(float, f16, float);
IOATTN_INSTANTIATE(float, float, f16);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
