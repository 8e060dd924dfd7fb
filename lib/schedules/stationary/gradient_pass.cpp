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
      threads_(threads),
      tile_stride_(round_up(blocks_.rows, nr)) {
  worker_.pack = workers_.add<T>(pack_elements(blocks_.rows, blocks_.depth, 1, nr));
  worker_.q = workers_.add<T>(blocks_.cols * tile_stride_);
  worker_.scores = workers_.add<T>(twin_ ? blocks_.cols * tile_stride_ : 0);
  workers_.add_to(layout, threads);
}

template <class T>
void GradientPass<T>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                          const Operands& in, void* workspace) const {
  const auto run_block = [&](index_t block, int worker) {
    const Range i(block * blocks_.rows, n_, blocks_.rows);
    const Block delta = {Operand::delta, i.begin, 0, i.size(), 1};
    const Block lse = {Operand::LSE, i.begin, 0, i.size(), 1};
    trace.read(delta);
    if (twin_) trace.read(lse);
    rows(kernels, trace, in, i, workers_.of(worker, workspace));
    trace.remove(delta);
    if (twin_) trace.remove(lse);
  };
  parallel::for_each(threads_, ceil_div(n_, blocks_.rows), run_block);
}

template <class T>
void GradientPass<T>::rows(const kernels::KernelTable<T>& kernels, const Trace& trace,
                           const Operands& in, const Range& i, void* local) const {
  T* pack = worker_.pack.in(local);
  const Range all(k_, k_);
  if (blocks_.keep_a) trace.read(in.gradients.block(i, all));
  if (blocks_.keep_a && twin_) trace.read(in.s.block(i, all));
  for (Range j(m_, blocks_.cols); j; j.next()) {
    trace.create({Operand::p, i.begin, j.begin, i.size(), j.size()});
    if (twin_) trace.create({Operand::scores, i.begin, j.begin, i.size(), j.size()});
    for (Range k(k_, blocks_.depth); k; k.next()) {
      trace.read(in.values.block(k, j));
      if (twin_)
        add_block(kernels, trace, in.s, in.values, i, k, j, pack, worker_.scores.in(local));
      add_block(kernels, trace, in.gradients, in.values, i, k, j, pack, worker_.q.in(local));
      trace.remove(in.values.block(k, j));
    }
    finish(kernels, trace, in, i, j, local);
  }
  if (blocks_.keep_a) trace.remove(in.gradients.block(i, all));
  if (blocks_.keep_a && twin_) trace.remove(in.s.block(i, all));
}

template <class T>
void GradientPass<T>::add_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                                const Factor<const T>& left, const Factor<const T>& values,
                                const Range& i, const Range& k, const Range& j, T* pack,
                                T* tile) const {
  if (!blocks_.keep_a) trace.read(left.block(i, k));
  const Factor<T> result = {Operand::q, tile, 1, tile_stride_, false, false};
  const Factor<const T> a = part_from(left, i.begin, 0), b = part_from(values, 0, j.begin);
  multiply_part(elementwise_, kernels, a, b, result, from_0(i), k, from_0(j), k.begin > 0, pack);
  if (!blocks_.keep_a) trace.remove(left.block(i, k));
}

template <class T>
void GradientPass<T>::finish(const kernels::KernelTable<T>& kernels, const Trace& trace,
                             const Operands& in, const Range& i, const Range& j,
                             void* local) const {
  const auto in_memory = [&](const Range& keys) {
    return kernels::ScoreTile<T>{in.p + keys.begin * in.p_stride + i.begin, in.p_stride,
                                 keys.size(), i.size()};
  };
  const kernels::ScoreTile<T> q = {worker_.q.in(local), tile_stride_, j.size(), i.size()};
  if (twin_) {
    const kernels::ScoreTile<T> f = {worker_.scores.in(local), tile_stride_, j.size(), i.size()};
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
