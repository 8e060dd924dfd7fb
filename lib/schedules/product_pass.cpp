#include "schedules/product_pass.hpp"

#include <algorithm>

#include "parallel/parallel.hpp"

namespace ioattn::schedules {

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
                            index_t nr, int threads, WorkspaceLayout* layout)
    : n1_(n1),
      k_(k),
      n2_(n2),
      blocks_(cut_blocks(n1, k, n2, blocks, nr, threads)),
      elementwise_(is_elementwise(n1, n2, blocks)),
      threads_(threads) {
  pack_elements_ =
      round_up(std::max(pack_elements(blocks_.rows, blocks_.keep_a ? k : blocks_.depth, 1, nr),
                        pack_elements(1, blocks_.depth, blocks_.cols, nr)),
               index_t(AlignedBuffer::alignment));
  pack_ = layout->add<T>(pack_elements_ * threads);
}

template <class T>
void ProductPass<T>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                         const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                         void* workspace, bool accumulate, const TileHook* hook) const {
  parallel::Dispenser blocks;
  const index_t count = ceil_div(n1_, blocks_.rows);
  auto body = [&](int worker) {
    T* pack = pack_.in(workspace) + worker * pack_elements_;
    for (index_t block = blocks.take(); block < count; block = blocks.take()) {
      const Range i(block * blocks_.rows, n1_, blocks_.rows);
      if (hook != nullptr) hook->begin_rows(worker, i);
      rows(kernels, trace, a, b, c, i, pack, accumulate, hook, worker);
      if (hook != nullptr) hook->end_rows(worker, i);
    }
  };
  parallel::run(threads_, body);
}

template <class T>
void ProductPass<T>::rows(const kernels::KernelTable<T>& kernels, const Trace& trace,
                          const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                          const Range& i, T* pack, bool accumulate, const TileHook* hook,
                          int worker) const {
  const Range all(k_, k_);
  // Rows of A that are SIMD lanes and stay are packed once.
  const bool packed_once = blocks_.keep_a && c.col_stride != 1 && !elementwise_;
  Panels<T> kept{};
  if (blocks_.keep_a) trace.read(a.block(i, all));
  if (packed_once) kept = lane_panels(kernels, transposed(a), all, i, pack);
  for (Range j(n2_, blocks_.cols); j; j.next()) {
    if (accumulate) {
      trace.read(c.block(i, j));
    } else {
      trace.create(c.block(i, j));
    }
    for (Range q(k_, blocks_.depth); q; q.next()) {
      const bool add = accumulate || q.begin > 0;
      if (!blocks_.keep_a) trace.read(a.block(i, q));
      trace.read(b.block(q, j));
      if (packed_once) {
        const Panels<T> panels = {kept.data + q.begin * kept.row, kept.panel, kept.row};
        multiply_panels(kernels, transposed(b), panels, transposed_result(c), j, q, i, add);
      } else {
        multiply_part(elementwise_, kernels, a, b, c, i, q, j, add, pack);
      }
      if (!blocks_.keep_a) trace.remove(a.block(i, q));
      trace.remove(b.block(q, j));
    }
    if (hook != nullptr) hook->finish_tile(worker, i, j);
    trace.write_and_remove(c.block(i, j));
  }
  if (blocks_.keep_a) trace.remove(a.block(i, all));
}

template class ProductPass<float>;
template class ProductPass<double>;

}  // namespace ioattn::schedules
