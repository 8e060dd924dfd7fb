#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/range.hpp"
#include "schedules/schedules.hpp"
#include "schedules/softmax/delta_pass.hpp"
#include "schedules/stationary/gradient_pass.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// One product after another with one tile of the result in fast memory. f and p pass through
// memory, p over f; with A2 = A3 the g-form makes f and q side by side and writes p alone.
namespace ioattn::schedules {
namespace {

// f = exp(scores - LSE) before a tile of scores is written.
template <class T>
class WeightsHook final : public TileHook {
 public:
  WeightsHook(const kernels::KernelTable<T>& kernels, const Trace& trace, const Factor<T>& f,
              const T* lse)
      : kernels_(kernels), trace_(trace), f_(f), lse_(lse) {}

  void begin_rows(const Range& i) const override { trace_.read(block(i)); }
  void finish_tile(const Range& i, const Range& j) const override {
    kernels_.exp_tile({f_.at(i.begin, j.begin), f_.col_stride, j.size(), i.size()}, lse_ + i.begin);
  }
  void end_rows(const Range& i) const override { trace_.remove(block(i)); }

 private:
  static Block block(const Range& i) { return {Operand::LSE, i.begin, 0, i.size(), 1}; }

  const kernels::KernelTable<T>& kernels_;
  const Trace& trace_;
  const Factor<T>& f_;
  const T* lse_;
};

template <class T>
class StationaryBackward {
 public:
  explicit StationaryBackward(const BackwardTask<T>& task)
      : task_(task),
        n_(task.shape.n),
        m_(task.shape.m),
        d_(task.shape.d),
        e_(task.shape.dv),
        nr_(task.kernels->tile.cols),
        threads_(task.workers()),
        h_form_(task.blocks.form == Form::h),
        twin_(!h_form_ && task.shape.tie != Tie::none),
        query_stride_(padded_stride(n_, nr_)),
        h_stride_(padded_stride(e_, nr_)),
        u_stride_(padded_stride(d_, nr_)),
        s_(workspace_.add<T>(d_ * query_stride_)),
        y_(workspace_.add<T>(h_form_ ? m_ * h_stride_ : d_ * query_stride_)),
        p_(workspace_.add<T>(m_ * query_stride_)),
        u_(workspace_.add<T>(n_ * u_stride_)),
        delta_pass_(task.shape, task.blocks, threads_, &workspace_),
        s_pass_(pass(n_, d_, d_, task.blocks.s)),
        y_pass_(h_form_ ? pass(m_, d_, e_, task.blocks.h) : pass(n_, e_, d_, task.blocks.g)),
        f_pass_(twin_ ? ProductPass<T>() : pass(n_, d_, m_, task.blocks.f)),
        p_pass_(n_, h_form_ ? e_ : d_, m_, twin_ ? task.blocks.f : task.blocks.q,
                twin_ ? GradientPass<T>::Weights::twin : GradientPass<T>::Weights::stored, nr_,
                threads_, &workspace_),
        u_pass_(pass(n_, m_, d_, task.blocks.u)),
        x_pass_(pass(d_, n_, d_, task.blocks.x)) {}

  Status run() {
    WorkspaceMemory buffer;
    const Status allocated = workspace_.allocate(task_.memory, &buffer);
    if (!allocated.is_ok()) return allocated;
    void* memory = buffer.data();
    const kernels::KernelTable<T>& kernels = *task_.kernels;
    const Trace trace(task_.observer);
    const LayerInputs<T>& in = task_.in;
    const Factor<const T> a1 = factor(Operand::A1, in.a1), a2 = factor(Operand::A2, in.a2);
    const Factor<const T> a3 = factor(Operand::A3, in.a3), y = factor(Operand::Y, in.y);
    const Factor<const T> d_o = factor(Operand::dO, task_.d_o);
    const Factor<T> s = by_query(Operand::S, s_, memory), g = by_query(Operand::G, y_, memory);
    const Factor<T> h = {Operand::h, y_.in(memory), h_stride_};
    const Factor<T> f = by_query(Operand::f, p_, memory), p = by_query(Operand::p, p_, memory);
    const Factor<T> u = {Operand::U, u_.in(memory), u_stride_};
    const T* delta = delta_pass_.delta(memory);

    trace.phase("delta");
    delta_pass_.run(kernels, trace, task_.o, task_.d_o, memory);
    trace.phase("S");
    s_pass_.run(kernels, trace, a1, factor(Operand::X, in.x), s, memory);
    if (h_form_) {
      trace.phase("h");
      y_pass_.run(kernels, trace, a3, y, h, memory);
    } else {
      trace.phase("G");
      y_pass_.run(kernels, trace, d_o, transposed(y), g, memory);
    }
    if (!twin_) {
      trace.phase("f");
      const WeightsHook<T> hook(kernels, trace, f, task_.lse);
      f_pass_.run(kernels, trace, as_const(s), transposed(a2), f, memory, false, &hook);
    }
    trace.phase("p");
    p_pass_.run(kernels, trace,
                {as_const(s), h_form_ ? d_o : as_const(g),
                 transposed(h_form_ ? as_const(h)
                            : twin_ ? a2
                                    : a3),
                 task_.lse, delta, p.data, p.col_stride},
                memory);
    trace.phase("U");
    u_pass_.run(kernels, trace, as_const(p), a2, u, memory);
    trace.phase("dX");
    x_pass_.run(kernels, trace, transposed(a1), as_const(u),
                {Operand::dX, task_.dx.data, task_.dx.stride}, memory);
    return Status::ok();
  }

 private:
  ProductPass<T> pass(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks) {
    return ProductPass<T>(n1, k, n2, blocks, nr_, threads_, &workspace_);
  }
  // A matrix with n rows whose transpose is in memory: queries are SIMD lanes.
  Factor<T> by_query(Operand operand, const Slot<T>& slot, void* memory) const {
    return {operand, slot.in(memory), 1, query_stride_, false, false};
  }

  const BackwardTask<T>& task_;
  index_t n_, m_, d_, e_, nr_;
  int threads_;
  bool h_form_;
  bool twin_;  // tiles of scores and of q side by side
  index_t query_stride_, h_stride_, u_stride_;
  WorkspaceLayout workspace_;
  Slot<T> s_, y_;  // S^T; G^T or h
  Slot<T> p_;      // f^T, then p^T
  Slot<T> u_;      // U, row-major
  DeltaPass<T> delta_pass_;
  ProductPass<T> s_pass_, y_pass_, f_pass_;
  GradientPass<T> p_pass_;
  ProductPass<T> u_pass_, x_pass_;
};

}  // namespace

template <class T>
Status stationary_backward(const BackwardTask<T>& task) {
  return StationaryBackward<T>(task).run();
}

template Status stationary_backward(const BackwardTask<float>&);
template Status stationary_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
