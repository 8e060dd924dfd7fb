#pragma once

#include "schedules/half_case.hpp"
#include "schedules/layer/layer_gradients.hpp"
#include "schedules/schedules.hpp"

// The same layer problem stored in 16 bits and in f32, of numbers that both have.
namespace ioattn_test {

// Operands of type S and gradients of type G.
template <class S, class G = S>
struct LayerHalfCase {
  using index_t = ioattn::index_t;

  LayerHalfCase(const ioattn::LayerProblem& p, index_t dk)
      : problem(p),
        a1(rows(p.shape.n, p.shape.d)),
        a2(rows(p.shape.m, p.shape.d)),
        a3(rows(p.shape.m, p.shape.d)),
        x(1, 1, p.shape.d, p.shape.d),
        y(1, 1, p.shape.d, p.shape.dv),
        d_o(rows(p.shape.n, p.shape.dv)),
        o(rows(p.shape.n, p.shape.dv)),
        w_q(1, 1, p.shape.d, dk),
        w_k(1, 1, p.shape.d, dk),
        lse(1, 1, 1, p.batch * p.shape.n),
        dx(1, 1, p.shape.d, p.shape.d),
        dy(1, 1, p.shape.d, p.shape.dv),
        da1(rows(p.shape.n, p.shape.d)),
        da2(rows(p.shape.m, p.shape.d)),
        da3(rows(p.shape.m, p.shape.d)),
        da(rows(p.shape.m, p.shape.d)),
        dw_q(1, 1, p.shape.d, dk),
        dw_k(1, 1, p.shape.d, dk) {}

  void randomise(unsigned seed) {
    std::mt19937 random(seed);
    for (GapTensor<S>* each : {&a1, &a2, &a3, &x, &y, &d_o, &w_q, &w_k}) each->randomise(&random);
  }
  template <class Other>
  void set_inputs(const Other& from) {
    a1.set(from.a1);
    a2.set(from.a2);
    a3.set(from.a3);
    x.set(from.x);
    y.set(from.y);
    d_o.set(from.d_o);
    w_q.set(from.w_q);
    w_k.set(from.w_k);
  }
  // What the backward pass reads of the forward pass.
  template <class Other>
  void set_forward(const Other& from) {
    o.set(from.o);
    lse.set(from.lse);
  }
  // Every result, with NaN where nothing was written.
  std::vector<const GapTensor<G>*> gradients() const {
    return {&dx, &dy, &da1, &da2, &da3, &da, &dw_q, &dw_k};
  }

  struct Run {
    const ioattn::kernels::KernelTable<float>* kernels;
    int threads = 1;
    ioattn::Observer* observer = nullptr;
    ioattn::OverflowCounts* overflows = nullptr;
  };
  ioattn::Status forward(const ioattn::Blocks& blocks, const Run& run,
                         ioattn::Schedule schedule = ioattn::Schedule::row_stream) {
    o.poison();
    lse.poison();
    ioattn::schedules::ForwardTask<S> task;
    fill(run, &task);
    task.o = matrix(&o, problem.shape.n);
    task.lse = lse.values().data();
    task.blocks = blocks;
    return run_forward(schedule, task);
  }
  ioattn::Status backward(const ioattn::GradientSet& set, const ioattn::LayerBlocks& blocks,
                          const Run& run) {
    for (GapTensor<G>* each : {&dx, &dy, &da1, &da2, &da3, &da, &dw_q, &dw_k}) each->poison();
    const auto [n, m, d, e, tie, mask] = problem.shape;
    ioattn::schedules::GradientTask<S> task;
    fill(run, &task);
    task.d_o = matrix(&d_o, n);
    task.o = matrix(&o, n);
    task.lse = lse.values().data();
    ioattn::LayerGradients<G, S> out;
    if (set.dX) out.dx = matrix(&dx, d);
    if (set.dY) out.dy = matrix(&dy, d);
    if (set.dA1) out.da1 = matrix(&da1, n);
    if (set.dA2) out.da2 = matrix(&da2, m);
    if (set.dA3) out.da3 = matrix(&da3, m);
    if (set.dA) out.da = matrix(&da, m);
    if (set.dW_Q) out.dw_q = matrix(&dw_q, d);
    if (set.dW_K) out.dw_k = matrix(&dw_k, d);
    task.out.w_q = matrix(&w_q, d);
    task.out.w_k = matrix(&w_k, d);
    if constexpr (std::is_same_v<G, float>) {
      out.w_q = task.out.w_q;
      out.w_k = task.out.w_k;
      task.out = out;
    } else {
      task.rounded = out;
    }
    task.blocks = blocks;
    return layer_gradients(task);
  }

  ioattn::LayerProblem problem;
  GapTensor<S> a1, a2, a3, x, y, d_o, o, w_q, w_k;
  GapTensor<float> lse;
  GapTensor<G> dx, dy, da1, da2, da3, da, dw_q, dw_k;

 private:
  // Of every entry.
  struct Rows {
    index_t count, cols;
    template <class E>
    operator GapTensor<E>() const {
      return GapTensor<E>(1, 1, count, cols);
    }
  };
  Rows rows(index_t count, index_t cols) const { return {problem.batch * count, cols}; }
  // Of one entry.
  template <class E>
  static ioattn::MatrixView<E> matrix(GapTensor<E>* tensor, index_t rows) {
    ioattn::MatrixView<E> view = tensor->view().matrix(0, 0);
    view.rows = rows;
    return view;
  }

  template <class Task>
  void fill(const Run& run, Task* task) {
    const auto [n, m, d, e, tie, mask] = problem.shape;
    task->shape = problem.shape;
    task->in = {matrix(&a1, n), matrix(&a2, m), matrix(&a3, m), matrix(&x, d),
                matrix(&y, d),  mask,           problem.scale,  problem.batch};
    if (tie != ioattn::Tie::none) task->in.a3 = task->in.a2;
    if (tie == ioattn::Tie::all) task->in.a2 = task->in.a3 = task->in.a1;
    task->kernels = run.kernels;
    task->threads = run.threads;
    task->observer = run.observer;
    task->overflows = run.overflows;
  }
};

}  // namespace ioattn_test
