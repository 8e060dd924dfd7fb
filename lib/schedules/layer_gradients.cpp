#include "schedules/layer_gradients.hpp"

#include "schedules/batch.hpp"
#include "schedules/gradient_phases.hpp"
#include "schedules/product_pass.hpp"

namespace ioattn::schedules {
namespace {

// Entry b; null views stay null.
template <class T>
LayerGradients<T> gradients_of(const LayerGradients<T>& all, index_t b) {
  LayerGradients<T> entry = all;
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

template <class T>
class LayerGradientsRun {
 public:
  explicit LayerGradientsRun(const GradientTask<T>& task)
      : task_(task),
        set_(task.out.set()),
        trace_(task.observer),
        dx_(task.out.dx, set_.dW_Q || set_.dW_K, task.shape.d, task.shape.d, task.in.batch,
            &layout_),
        dy_(task.out.dy, false, task.shape.d, task.shape.dv, task.in.batch, &layout_),
        scaled_x_(task.in, &layout_) {
    if (!set_.dW_Q && !set_.dW_K) return;
    const index_t d = task.shape.d;
    dw_ =
        ProductPass<T>(d, d, set_.dk, task.blocks.dw, task.kernels->tile.cols, threads(), &layout_);
  }

  Status run() {
    // Which matrices there are decides how much an entry needs; where they are does not.
    T anywhere{};
    GradientTask<T> task = task_;
    task.in = entry_of(task_.in, 0);
    task.out.dw_q = task.out.dw_k = {};
    if (dx_.is_needed()) task.out.dx = {&anywhere, task.shape.d, task.shape.d, task.shape.d};
    const EntryWorkspace<GradientTask<T>> entry_memory(task, gradients_of_entry<T>, &layout_);
    if (!entry_memory.status().is_ok()) return entry_memory.status();
    WorkspaceMemory memory;
    const Status allocated = layout_.allocate(task_.memory, &memory);
    if (!allocated.is_ok()) return allocated;
    void* workspace = memory.data();

    const MatrixView<const T> x = scaled_x_.run(trace_, workspace);
    for (index_t b = 0; b < task_.in.batch; ++b) {
      CallerMemory lent = entry_memory.in(workspace);
      const Status status = run_entry(b, x, workspace, &lent);
      if (!status.is_ok()) return status;
      dx_.add(trace_, Operand::dX, b, workspace);
      dy_.add(trace_, Operand::dY, b, workspace);
    }
    if (!dx_.is_needed()) return Status::ok();
    const MatrixView<T> dx = dx_.total(workspace);
    scale_gradient(trace_, task_.in.scale, dx);
    const Factor<const T> factor_dx = {Operand::dX, dx.data, dx.stride, 1, false, false};
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
  int threads() const { return task_.observer != nullptr ? 1 : task_.threads; }

  Status run_entry(index_t b, const MatrixView<const T>& x, void* workspace,
                   CallerMemory* memory) const {
    const auto [n, m, d, e, tie, mask] = task_.shape;
    GradientTask<T> entry = task_;
    entry.in = entry_of(task_.in, b);
    entry.in.x = x;
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

  void multiply(const char* phase, const Factor<const T>& a, const Factor<const T>& b,
                Operand operand, const MatrixView<T>& c, void* workspace) const {
    trace_.phase(phase);
    dw_.run(*task_.kernels, trace_, a, b, {operand, c.data, c.stride, 1, false, false}, workspace);
  }

  const GradientTask<T>& task_;
  GradientSet set_;
  Trace trace_;
  WorkspaceLayout layout_;
  Sum<T> dx_, dy_;
  ScaledX<T> scaled_x_;
  ProductPass<T> dw_;
};

}  // namespace

template <class T>
Status layer_gradients(const GradientTask<T>& task) {
  const GradientSet set = task.out.set();
  if (is_plain(task.in) && !set.dW_Q && !set.dW_K) return gradients_of_entry(task);
  return LayerGradientsRun<T>(task).run();
}

template Status layer_gradients(const GradientTask<float>&);
template Status layer_gradients(const GradientTask<double>&);

}  // namespace ioattn::schedules
