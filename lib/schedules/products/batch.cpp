#include "schedules/products/batch.hpp"

#include "base/half.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

// An element of a matrix comes and goes.
template <class Act>
void each_element(const Trace& trace, index_t rows, index_t cols, const Act& act) {
  if (!trace.is_observed()) return;
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < cols; ++j) act(i, j);
}

}  // namespace

template <class T>
LayerInputs<T> entry_of(const LayerInputs<T>& inputs, index_t b) {
  LayerInputs<T> entry = inputs;
  entry.a1 = entry_of(inputs.a1, b, inputs.a1.rows);
  entry.a2 = entry_of(inputs.a2, b, inputs.a2.rows);
  entry.a3 = entry_of(inputs.a3, b, inputs.a3.rows);
  entry.batch = 1;
  return entry;
}

template <class S>
ScaledX<S>::ScaledX(const LayerInputs<S>& inputs, Schedule schedule, WorkspaceLayout* layout)
    : x_(inputs.x), scale_(scales_scores(schedule, is_half_storage<S>) ? 1 : inputs.scale) {
  if (scale_ != 1) scaled_ = layout->add<T>(x_.rows * x_.cols);
}

template <class S>
void ScaledX<S>::run(const Trace& trace, void* workspace, LayerInputs<S>* entry) const {
  if (scale_ == 1) return;
  trace.phase("scale");
  T* scaled = scaled_.in(workspace);
  const T scale = static_cast<T>(scale_);
  for (index_t i = 0; i < x_.rows; ++i)
    for (index_t j = 0; j < x_.cols; ++j)
      scaled[i * x_.cols + j] = scale * to_compute(*x_.at(i, j));
  each_element(trace, x_.rows, x_.cols, [&](index_t i, index_t j) {
    trace.read({Operand::X, i, j, 1, 1});
    trace.create({Operand::scaled_X, i, j, 1, 1});
    trace.write_and_remove({Operand::scaled_X, i, j, 1, 1});
    trace.remove({Operand::X, i, j, 1, 1});
  });
  const MatrixView<const T> result = {scaled, x_.rows, x_.cols, x_.cols};
  entry->scale = 1;
  if constexpr (is_half_storage<S>) {
    entry->scaled_x = result;
  } else {
    entry->x = result;
  }
}

template <class S>
void round_result(const kernels::KernelTable<Compute<S>>& kernels, const Trace& trace,
                  Operand operand, const MatrixView<const Compute<S>>& sums,
                  const MatrixView<S>& result) {
  trace.phase("round");
  store_rows(kernels, sums.data, sums.stride, result.rows, result.cols, Compute<S>(1), false,
             result.data, result.stride, trace.counted(operand));
  each_element(trace, result.rows, result.cols, [&](index_t i, index_t j) {
    trace.read_sums({operand, i, j, 1, 1});
    trace.write_rounded_and_remove({operand, i, j, 1, 1});
  });
}

template <class T>
void scale_gradient(const Trace& trace, double scale, const MatrixView<T>& dx) {
  if (scale == 1) return;
  trace.phase("scale");
  for (index_t i = 0; i < dx.rows; ++i)
    for (index_t j = 0; j < dx.cols; ++j) *dx.at(i, j) *= static_cast<T>(scale);
  each_element(trace, dx.rows, dx.cols, [&](index_t i, index_t j) {
    trace.read({Operand::dX, i, j, 1, 1});
    trace.write_and_remove({Operand::dX, i, j, 1, 1});
  });
}

template <class T>
void add_entry(const Trace& trace, Operand operand, const MatrixView<const T>& part,
               const MatrixView<T>& total) {
  trace.phase("batch");
  for (index_t i = 0; i < total.rows; ++i)
    for (index_t j = 0; j < total.cols; ++j) *total.at(i, j) += *part.at(i, j);
  each_element(trace, total.rows, total.cols, [&](index_t i, index_t j) {
    trace.read({operand, i, j, 1, 1});
    trace.read({Operand::part, i, j, 1, 1});
    trace.write_and_remove({operand, i, j, 1, 1});
    trace.remove({Operand::part, i, j, 1, 1});
  });
}

#define IOATTN_INSTANTIATE(S)                                       \
  template LayerInputs<S> entry_of(const LayerInputs<S>&, index_t); \
  template class ScaledX<S>
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
IOATTN_INSTANTIATE(bf16);
IOATTN_INSTANTIATE(f16);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(T)                                               \
  template void scale_gradient(const Trace&, double, const MatrixView<T>&); \
  template void add_entry(const Trace&, Operand, const MatrixView<const T>&, const MatrixView<T>&)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

template void round_result(const kernels::KernelTable<float>&, const Trace&, Operand,
                           const MatrixView<const float>&, const MatrixView<bf16>&);
template void round_result(const kernels::KernelTable<float>&, const Trace&, Operand,
                           const MatrixView<const float>&, const MatrixView<f16>&);

}  // namespace ioattn::schedules
