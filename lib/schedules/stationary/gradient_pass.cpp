#include "schedules/stationary/gradient_pass.hpp"

#include "parallel/parallel.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

template <class T>
GradientPass<T>::GradientPass(index_t n, index_t k, index_t m, const ProductBlocks& blocks,
                              Weights weights, index_t nr, int threads, WorkspaceLayout* layout)
    : n_(n),
      k_(k),
      m_(m),
      blocks_(cut_blocks(n, k, m, blocks, nr, threads)),
      twin_(weights == Weights::twin),
      elementwise_(is_elementwise(n, m, blocks)),
      threads_(threads) {
  const index_t alignment = index_t(AlignedBuffer::alignment);
  tile_stride_ = round_up(blocks_.rows, nr);
  tile_elements_ = round_up(blocks_.cols * tile_stride_, alignment);
  pack_elements_ = round_up(pack_elements(blocks_.rows, blocks_.depth, 1, nr), alignment);
  pack_ = layout->add<T>(pack_elements_ * threads);
  tiles_ = layout->add<T>((twin_ ? 2 : 1) * tile_elements_ * threads);
}

template <class T>
void GradientPass<T>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                          const Operands& in, void* workspace) const {
  const auto run_block = [&](index_t block, int worker) {
    const index_t tile_count = twin_ ? 2 : 1;
    T* tiles = tiles_.in(workspace) + worker * tile_count * tile_elements_;
    const Scratch scratch = {pack_.in(workspace) + worker * pack_elements_, tiles + tile_elements_,
                             tiles};
    const Range i(block * blocks_.rows, n_, blocks_.rows);
    const Block delta = {Operand::delta, i.begin, 0, i.size(), 1};
    const Block lse = {Operand::LSE, i.begin, 0, i.size(), 1};
    trace.read(delta);
    if (twin_) trace.read(lse);
    rows(kernels, trace, in, i, scratch);
    trace.remove(delta);
    if (twin_) trace.remove(lse);
  };
  parallel::for_each(threads_, ceil_div(n_, blocks_.rows), run_block);
}

template <class T>
void GradientPass<T>::rows(const kernels::KernelTable<T>& kernels, const Trace& trace,
                           const Operands& in, const Range& i, const Scratch& scratch) const {
  const Range all(k_, k_);
  if (blocks_.keep_a) trace.read(in.gradients.block(i, all));
  if (blocks_.keep_a && twin_) trace.read(in.s.block(i, all));
  for (Range j(m_, blocks_.cols); j; j.next()) {
    trace.create({Operand::p, i.begin, j.begin, i.size(), j.size()});
    if (twin_) trace.create({Operand::scores, i.begin, j.begin, i.size(), j.size()});
    for (Range k(k_, blocks_.depth); k; k.next()) {
      trace.read(in.values.block(k, j));
      if (twin_) add_block(kernels, trace, in.s, in.values, i, k, j, scratch, scratch.scores);
      add_block(kernels, trace, in.gradients, in.values, i, k, j, scratch, scratch.q);
      trace.remove(in.values.block(k, j));
    }
    finish(kernels, trace, in, i, j, scratch);
  }
  if (blocks_.keep_a) trace.remove(in.gradients.block(i, all));
  if (blocks_.keep_a && twin_) trace.remove(in.s.block(i, all));
}

template <class T>
void GradientPass<T>::add_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                                const Factor<const T>& left, const Factor<const T>& values,
                                const Range& i, const Range& k, const Range& j,
                                const Scratch& scratch, T* tile) const {
  if (!blocks_.keep_a) trace.read(left.block(i, k));
  const Factor<T> result = {Operand::q, tile, 1, tile_stride_, false, false};
  const Factor<const T> a = part_from(left, i.begin, 0), b = part_from(values, 0, j.begin);
  const Range rows(i.size(), i.size()), cols(j.size(), j.size());
  multiply_part(elementwise_, kernels, a, b, result, rows, k, cols, k.begin > 0, scratch.pack);
  if (!blocks_.keep_a) trace.remove(left.block(i, k));
}

template <class T>
void GradientPass<T>::finish(const kernels::KernelTable<T>& kernels, const Trace& trace,
                             const Operands& in, const Range& i, const Range& j,
                             const Scratch& scratch) const {
  const auto in_memory = [&](const Range& keys) {
    return kernels::ScoreTile<T>{in.p + keys.begin * in.p_stride + i.begin, in.p_stride,
                                 keys.size(), i.size()};
  };
  const kernels::ScoreTile<T> q = {scratch.q, tile_stride_, j.size(), i.size()};
  if (twin_) {
    const kernels::ScoreTile<T> f = {scratch.scores, tile_stride_, j.size(), i.size()};
    kernels.exp_tile(f, in.lse + i.begin);
    kernels.gradient_tile(f, q, in.delta + i.begin, in_memory(j));
    trace.remove({Operand::scores, i.begin, j.begin, i.size(), j.size()});
  } else {
    // No more of f at a time than the factors left room for.
    for (Range keys(j.begin, j.end, blocks_.depth); keys; keys.next()) {
      const Block weights = {Operand::f, i.begin, keys.begin, i.size(), keys.size()};
      trace.read(weights);
      const kernels::ScoreTile<T> part = {q.data + (keys.begin - j.begin) * tile_stride_,
                                          tile_stride_, keys.size(), i.size()};
      kernels.gradient_tile(in_memory(keys), part, in.delta + i.begin, in_memory(keys));
      trace.remove(weights);
    }
  }
  trace.write_and_remove({Operand::p, i.begin, j.begin, i.size(), j.size()});
}

template class GradientPass<float>;
template class GradientPass<double>;

}  // namespace ioattn::schedules
