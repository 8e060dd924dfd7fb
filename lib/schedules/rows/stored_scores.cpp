#include "schedules/rows/stored_scores.hpp"

#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

template <class T>
StoredScores<T>::StoredScores(const LayerShape& shape, index_t depth, const ProductBlocks& blocks,
                              index_t nr, int threads, WorkspaceLayout* layout, Factors factors)
    : n_(shape.n),
      m_(shape.m),
      stride_(padded_stride(shape.n, nr)),
      scores_(layout->add<T>(m_ * stride_)),
      product_(n_, depth, m_, blocks, nr, threads, layout, factors) {}

template <class T>
MatrixView<T> StoredScores<T>::transposed(void* workspace) const {
  return {scores_.in(workspace), m_, n_, stride_};
}

template <class T>
Factor<const T> StoredScores<T>::matrix(Operand operand, void* workspace) const {
  return {operand, scores_.in(workspace), 1, stride_, false, false};
}

template <class S>
StoredQ<S>::StoredQ(const BackwardTask<S>& task, int threads, WorkspaceLayout* layout)
    : task_(task),
      q_(task.shape, task.blocks.form == Form::h ? task.shape.dv : task.shape.d, task.blocks.q,
         task.kernels->tile.cols, threads, layout, factors_of<S>) {}

template <class S>
void StoredQ<S>::run(const Trace& trace, const StoredProducts<S>& products, void* workspace) const {
  trace.phase("q");
  if (task_.blocks.form == Form::h) {
    q_.run(*task_.kernels, trace, Operand::q, factor(Operand::dO, task_.d_o),
           factor(Operand::h, products.h(workspace)), workspace);
  } else {
    q_.run(*task_.kernels, trace, Operand::q, factor(Operand::G, products.g(workspace)),
           factor(Operand::A3, task_.in.a3), workspace);
  }
}

template class StoredScores<float>;
template class StoredScores<double>;
template class StoredQ<float>;
template class StoredQ<double>;
template class StoredQ<bf16>;
template class StoredQ<f16>;

}  // namespace ioattn::schedules
