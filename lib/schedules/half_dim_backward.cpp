#include <algorithm>

#include "schedules/row_pass.hpp"
#include "schedules/schedules.hpp"
#include "schedules/stored_scores.hpp"

// As q_stored with S, G (or h) and U in memory, and the inner dimension d in two halves, so that
// twice as many rows stay: the first half of the scores passes through memory, where the second
// half turns it into p; the second half of U comes out of that pass, the first is a product with p.
// With d = 1 the first half is empty and its phases fall away.
namespace ioattn::schedules {

template <class T>
Status half_dim_backward(const BackwardTask<T>& task) {
  const auto [n, m, d, e, tie, mask] = task.shape;
  const index_t half = d / 2, nr = task.kernels->tile.cols;
  const int threads = task.observer != nullptr ? 1 : task.threads;
  const Trace trace(task.observer);
  const kernels::KernelTable<T>& kernels = *task.kernels;
  row_stream::RowPassKind kind;
  kind.values = row_stream::RowPassKind::Values::q;
  kind.stored_s = kind.stored_delta = kind.stored_u = true;
  kind.first_col = half;

  WorkspaceLayout layout;
  const StoredProducts<T> products(task, threads, &layout);
  const StoredQ<T> q(task, threads, &layout);
  StoredScores<T> scores;
  ProductPass<T> u_product;
  if (half > 0) {
    scores = StoredScores<T>(task.shape, half, task.blocks.f, nr, threads, &layout);
    u_product = ProductPass<T>(n, m, half, task.blocks.u, nr, threads, &layout);
  }
  const row_stream::RowPass<T> pass(task, kind, threads, &layout);
  WorkspaceMemory buffer;
  const Status allocated = layout.allocate(task.memory, &buffer);
  if (!allocated.is_ok()) return allocated;
  void* workspace = buffer.data();

  products.run(trace, workspace);
  q.run(trace, products, workspace);
  row_stream::RowPassMemory<T> memory = row_stream::memory_of(products, kind, workspace);
  memory.q = q.transposed(workspace);
  if (half > 0) {
    // In the place of p, and under its name.
    trace.phase("scores");
    scores.run(kernels, trace, Operand::p, factor(Operand::S, memory.s),
               factor(Operand::A2, task.in.a2), workspace);
    memory.p = scores.transposed(workspace);
  }
  trace.phase("half_dim");
  pass.run(trace, memory, workspace);
  if (half > 0) {
    trace.phase("U");
    u_product.run(kernels, trace, scores.matrix(Operand::p, workspace),
                  factor(Operand::A2, task.in.a2),
                  {Operand::U, memory.u.data, memory.u.stride, 1, false, false}, workspace);
  }
  products.run_dx(trace, workspace);
  return Status::ok();
}

template Status half_dim_backward(const BackwardTask<float>&);
template Status half_dim_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
