#pragma once

#include "base/layer_inputs.hpp"
#include "base/schedule.hpp"
#include "base/status.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/blocked_product.hpp"
#include "schedules/trace.hpp"

// Entries of a batch, one after the other, and the scale of the scores.
namespace ioattn::schedules {

// Rows of entry b of a batch, whose entries have `rows` rows each.
template <class T>
MatrixView<T> entry_of(const MatrixView<T>& first, index_t b, index_t rows) {
  MatrixView<T> view = first;
  if (view.data != nullptr) view.data += b * rows * view.stride;
  return view;
}

// Entry b of the inputs, a batch of 1.
template <class T>
LayerInputs<T> entry_of(const LayerInputs<T>& inputs, index_t b);

template <class T>
bool is_plain(const LayerInputs<T>& inputs) {
  return inputs.batch == 1 && inputs.scale == 1;
}

// scale * X, a matrix of its own unless the scale is 1 or what makes the scores scales these.
template <class S>
class ScaledX {
 public:
  using T = Compute<S>;

  ScaledX(const LayerInputs<S>& inputs, Schedule schedule, WorkspaceLayout* layout);
  double scale() const { return scale_; }  // of X
  // Phase "scale". The entries get it in place of X and of the scale.
  void run(const Trace& trace, void* workspace, LayerInputs<S>* entry) const;

 private:
  MatrixView<const S> x_;
  double scale_;
  Slot<T> scaled_;
};

// f(X as a factor): of operands in 16 bits scale * X is in f32.
template <class S, class F>
void with_x(const LayerInputs<S>& inputs, const F& f) {
  if constexpr (is_half_storage<S>) {
    if (inputs.scaled_x.data != nullptr) {
      f(factor(Operand::scaled_X, inputs.scaled_x));
      return;
    }
  }
  f(factor(Operand::X, inputs.x));
}

// The results of a pass become numbers in 16 bits, in phase "round", a word at a time.
template <class S>
void round_result(const kernels::KernelTable<Compute<S>>& kernels, const Trace& trace,
                  Operand operand, const MatrixView<const Compute<S>>& sums,
                  const MatrixView<S>& result);

// dX *= scale, in phase "scale", unless it is 1.
template <class T>
void scale_gradient(const Trace& trace, double scale, const MatrixView<T>& dx);

// total += part, in phase "batch".
template <class T>
void add_entry(const Trace& trace, Operand operand, const MatrixView<const T>& part,
               const MatrixView<T>& total);

// The workspace of one pass that a batch runs again and again: laid out with the rest, so that
// whatever can fail does so before an output is touched.
template <class Task>
class EntryWorkspace {
 public:
  // run(task) is asked how much it needs.
  template <class Run>
  EntryWorkspace(Task task, const Run& run, WorkspaceLayout* layout) {
    CallerMemory asked;
    task.memory = &asked;
    const Status refusal = run(task);
    if (refusal.code() != StatusCode::out_of_memory) status_ = refusal;
    slot_ = layout->add<std::byte>(asked.needed());
  }
  const Status& status() const { return status_; }
  CallerMemory in(void* workspace) const { return {slot_.in(workspace), slot_.count}; }

 private:
  Status status_;
  Slot<std::byte> slot_;
};

}  // namespace ioattn::schedules
