#include "schedules/stationary/weighted_sum_pass.hpp"

#include "parallel/parallel.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

template <class T>
WeightedSumPass<T>::WeightedSumPass(index_t n, index_t m, index_t width,
                                    const ProductBlocks& blocks, index_t nr, int threads,
                                    WorkspaceLayout* layout)
    : n_(n),
      m_(m),
      width_(width),
      blocks_(cut_blocks(n, m, width, blocks, nr, threads)),
      elementwise_(is_elementwise(n, width, blocks)),
      threads_(threads),
      weights_stride_(round_up(blocks_.rows, nr)) {
  worker_.pack = workers_.add<T>(pack_elements(1, blocks_.depth, blocks_.cols, nr));
  worker_.weights = workers_.add<T>((blocks_.keep_a ? m : blocks_.depth) * weights_stride_);
  workers_.add_to(layout, threads);
}

template <class T>
void WeightedSumPass<T>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                             const Factor<const T>& scores, const T* lse,
                             const Factor<const T>& values, const Factor<T>& c,
                             void* workspace) const {
  const auto run_block = [&](index_t block, int worker) {
    const Range i(block * blocks_.rows, n_, blocks_.rows);
    const Block shift = {Operand::LSE, i.begin, 0, i.size(), 1};
    trace.read(shift);
    rows(kernels, trace, scores, lse, values, c, i, workers_.of(worker, workspace));
    trace.remove(shift);
  };
  parallel::for_each(threads_, ceil_div(n_, blocks_.rows), run_block);
}

template <class T>
void WeightedSumPass<T>::rows(const kernels::KernelTable<T>& kernels, const Trace& trace,
                              const Factor<const T>& scores, const T* lse,
                              const Factor<const T>& values, const Factor<T>& c, const Range& i,
                              void* local) const {
  const Range all(m_, m_);
  T* const weights = worker_.weights.in(local);
  if (blocks_.keep_a) read_weights(kernels, trace, scores, lse, i, all, weights);
  for (Range j(width_, blocks_.cols); j; j.next()) {
    trace.create(c.block(i, j));
    for (Range keys(m_, blocks_.depth); keys; keys.next()) {
      if (!blocks_.keep_a) read_weights(kernels, trace, scores, lse, i, keys, weights);
      trace.read(values.block(keys, j));
      // The weights are a matrix of their own, so rows and keys are counted from theirs.
      const index_t first = blocks_.keep_a ? keys.begin : 0;
      const Factor<const T> f = {
          Operand::f, weights + first * weights_stride_, 1, weights_stride_, false, false};
      const Factor<const T> part = part_from(values, keys.begin, 0);
      const Factor<T> sum = part_from(c, i.begin, 0);
      multiply_part(elementwise_, kernels, f, part, sum, from_0(i), from_0(keys), j, keys.begin > 0,
                    worker_.pack.in(local));
      trace.remove(values.block(keys, j));
      if (!blocks_.keep_a) trace.remove(scores.block(i, keys));
    }
    trace.write_and_remove(c.block(i, j));
  }
  if (blocks_.keep_a) trace.remove(scores.block(i, all));
}

template <class T>
void WeightedSumPass<T>::read_weights(const kernels::KernelTable<T>& kernels, const Trace& trace,
                                      const Factor<const T>& scores, const T* lse, const Range& i,
                                      const Range& keys, T* weights) const {
  trace.read(scores.block(i, keys));
  for (index_t key = 0; key < keys.size(); ++key) {
    copy_words(kernels, scores.at(i.begin, keys.begin + key), i.size(),
               weights + key * weights_stride_);
  }
  kernels.exp_tile({weights, weights_stride_, keys.size(), i.size()}, lse + i.begin);
}

template class WeightedSumPass<float>;
template class WeightedSumPass<double>;

}  // namespace ioattn::schedules
