#include "schedules/layer/layer_gradients.hpp"

#include <array>

#include "schedules/layer/gradient_phases.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/batch.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

// Entry b; null views stay null.
template <class T, class S>
LayerGradients<T, S> gradients_of(const LayerGradients<T, S>& all, index_t b) {
  LayerGradients<T, S> entry = all;
  entry.da1 = entry_of(all.da1, b, all.da1.rows);
  entry.da2 = entry_of(all.da2, b, all.da2.rows);
  entry.da3 = entry_of(all.da3, b, all.da3.rows);
  entry.da = entry_of(all.da, b, all.da.rows);
  return entry;
}

// A matrix that is the sum over the entries: the first is computed in place, the others beside it.
template <class T>
class Sum {
 public:
  Sum(const MatrixView<T>& wanted, bool needed, index_t rows, index_t cols, index_t batch,
      WorkspaceLayout* layout)
      : total_{wanted.data, rows, cols, wanted.data != nullptr ? wanted.stride : cols},
        needed_(needed || wanted.data != nullptr) {
    if (!needed_) return;
    if (wanted.data == nullptr) scratch_ = layout->add<T>(rows * cols);
    if (batch > 1) part_ = layout->add<T>(rows * cols);
  }

  bool is_needed() const { return needed_; }
  MatrixView<T> total(void* workspace) const {
    MatrixView<T> view = total_;
    if (view.data == nullptr && needed_) view.data = scratch_.in(workspace);
    return view;
  }
  // Where the entry's own goes.
  MatrixView<T> of_entry(index_t b, void* workspace) const {
    if (b == 0 || !needed_) return total(workspace);
    return {part_.in(workspace), total_.rows, total_.cols, total_.cols};
  }
  void add(const Trace& trace, Operand operand, index_t b, void* workspace) const {
    if (b == 0 || !needed_) return;
    add_entry<T>(trace, operand, of_entry(b, workspace), total(workspace));
  }

 private:
  MatrixView<T> total_;
  bool needed_;
  Slot<T> scratch_, part_;
};

template <class S>
class LayerGradientsRun {
 public:
  using T = Compute<S>;

  explicit LayerGradientsRun(const GradientTask<S>& task)
      : task_(task),
        set_(task.out.set()),
        trace_(Trace::of_layer(task.observer, is_half_storage<S>)),
        dx_(task.out.dx, set_.dW_Q || set_.dW_K, task.shape.d, task.shape.d, task.in.batch,
            &layout_),
        dy_(task.out.dy, false, task.shape.d, task.shape.dv, task.in.batch, &layout_),
        scaled_x_(task.in, score_pass(set_, task.blocks), &layout_) {
    if (!set_.dW_Q && !set_.dW_K) return;
    const index_t d = task.shape.d;
    dw_ = ProductPass<T>(d, d, set_.dk, task.blocks.dw, task.kernels->tile.cols, threads(),
                         &layout_, factors_of<S>);
  }

  Status run() {
    // Which matrices there are decides how much an entry needs; where they are does not.
    T anywhere{};
    GradientTask<S> task = task_;
    task.in = entry_of(task_.in, 0);
    task.out.dw_q = task.out.dw_k = {};
    if (dx_.is_needed()) task.out.dx = {&anywhere, task.shape.d, task.shape.d, task.shape.d};
    const EntryWorkspace<GradientTask<S>> entry_memory(task, gradients_of_entry<S>, &layout_);
    if (!entry_memory.status().is_ok()) return entry_memory.status();
    WorkspaceMemory memory;
    const Status allocated = layout_.allocate(task_.memory, &memory);
    if (!allocated.is_ok()) return allocated;
    void* workspace = memory.data();

    LayerInputs<S> in = task_.in;
    scaled_x_.run(trace_, workspace, &in);
    for (index_t b = 0; b < task_.in.batch; ++b) {
      CallerMemory lent = entry_memory.in(workspace);
      const Status status = run_entry(b, in, workspace, &lent);
      if (!status.is_ok()) return status;
      dx_.add(trace_, Operand::dX, b, workspace);
      dy_.add(trace_, Operand::dY, b, workspace);
    }
    if (!dx_.is_needed()) return Status::ok();
    const MatrixView<T> dx = dx_.total(workspace);
    scale_gradient(trace_, scaled_x_.scale(), dx);
    const Factor<const T> factor_dx = {Operand::dX, dx.data, dx.stride};
    if (set_.dW_Q) {
      multiply("dW_Q", factor_dx, factor(Operand::W_K, task_.out.w_k), Operand::dW_Q,
               task_.out.dw_q, workspace);
    }
    if (set_.dW_K) {
      multiply("dW_K", transposed(factor_dx), factor(Operand::W_Q, task_.out.w_q), Operand::dW_K,
               task_.out.dw_k, workspace);
    }
    return Status::ok();
  }

 private:
  int threads() const { return task_.workers(); }
  Status run_entry(index_t b, const LayerInputs<S>& in, void* workspace,
                   CallerMemory* memory) const {
    const auto [n, m, d, e, tie, mask] = task_.shape;
    GradientTask<S> entry = task_;
    entry.in = entry_of(in, b);
    entry.d_o = entry_of(task_.d_o, b, n);
    entry.o = entry_of(task_.o, b, n);
    if (task_.lse != nullptr) entry.lse = task_.lse + b * n;
    entry.out = gradients_of(task_.out, b);
    entry.out.dw_q = entry.out.dw_k = {};
    entry.out.dx = dx_.of_entry(b, workspace);
    entry.out.dy = dy_.of_entry(b, workspace);
    entry.memory = memory;
    return gradients_of_entry(entry);
  }

  void multiply(const char* phase, const Factor<const T>& a, const Factor<const S>& b,
                Operand operand, const MatrixView<T>& c, void* workspace) const {
    trace_.phase(phase);
    dw_.run(*task_.kernels, trace_, a, b, {operand, c.data, c.stride}, workspace);
  }

  const GradientTask<S>& task_;
  GradientSet set_;
  Trace trace_;
  WorkspaceLayout layout_;
  Sum<T> dx_, dy_;
  ScaledX<S> scaled_x_;
  ProductPass<T> dw_;
};

template <class S>
Status gradients_in_compute(const GradientTask<S>& task) {
  const GradientSet set = task.out.set();
  if (is_plain(task.in) && !set.dW_Q && !set.dW_K) return gradients_of_entry(task);
  return LayerGradientsRun<S>(task).run();
}

// All gradients in f32, in scratch memory, then rounded.
template <class S>
Status rounded_gradients(const GradientTask<S>& task) {
  using T = Compute<S>;
  constexpr const auto& sums = LayerGradients<T, S>::matrices;
  constexpr const auto& rounded = LayerGradients<S>::matrices;
  WorkspaceLayout layout;
  std::array<Slot<T>, gradient_count> slots;
  GradientTask<S> inner = task;
  inner.rounded = {};
  T anywhere{};
  for (std::size_t k = 0; k < gradient_count; ++k) {
    const MatrixView<S>& result = task.rounded.*rounded[k];
    if (result.data == nullptr) continue;
    const index_t entries = named_gradients[k].entries(task.in.batch);
    slots[k] = layout.add<T>(entries * result.rows * result.cols);
    inner.out.*sums[k] = {&anywhere, result.rows, result.cols, result.cols};
  }
  const EntryWorkspace<GradientTask<S>> inner_memory(inner, gradients_in_compute<S>, &layout);
  if (!inner_memory.status().is_ok()) return inner_memory.status();
  WorkspaceMemory buffer;
  const Status allocated = layout.allocate(task.memory, &buffer);
  if (!allocated.is_ok()) return allocated;
  CallerMemory lent = inner_memory.in(buffer.data());
  inner.memory = &lent;
  for (std::size_t k = 0; k < gradient_count; ++k) {
    MatrixView<T>& sum = inner.out.*sums[k];
    if (sum.data != nullptr) sum.data = slots[k].in(buffer.data());
  }
  const Status status = gradients_in_compute(inner);
  if (!status.is_ok()) return status;
  const Trace trace = Trace::of_layer(task.observer, true, task.overflows);
  for (std::size_t k = 0; k < gradient_count; ++k) {
    MatrixView<S> result = task.rounded.*rounded[k];
    if (result.data == nullptr) continue;
    result.rows *= named_gradients[k].entries(task.in.batch);
    round_result<S>(*task.kernels, trace, named_gradients[k].operand, inner.out.*sums[k], result);
  }
  return Status::ok();
}

}  // namespace

template <class S>
Status layer_gradients(const GradientTask<S>& task) {
  if constexpr (is_half_storage<S>) {
    if (task.rounded.set() != GradientSet{}) return rounded_gradients(task);
  }
  return gradients_in_compute(task);
}

template Status layer_gradients(const GradientTask<float>&);
template Status layer_gradients(const GradientTask<double>&);
template Status layer_gradients(const GradientTask<bf16>&);
template Status layer_gradients(const GradientTask<f16>&);

}  // namespace ioattn::schedules
