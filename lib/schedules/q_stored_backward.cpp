#include "schedules/row_pass.hpp"
#include "schedules/schedules.hpp"
#include "schedules/stored_scores.hpp"

// q = G A3^T (or dO h^T) passes through memory. Then only rows of S and U stay, which share one
// stream of A2. fused: X and dX stream once more per row block; stored: S and U pass through
// memory.
namespace ioattn::schedules {

template <class T>
Status q_stored_backward(const BackwardTask<T>& task) {
  const int threads = task.observer != nullptr ? 1 : task.threads;
  const Trace trace(task.observer);
  row_stream::RowPassKind kind;
  kind.values = row_stream::RowPassKind::Values::q;
  kind.stored_delta = true;
  kind.stored_s = kind.stored_u = task.blocks.products == Products::stored;

  WorkspaceLayout layout;
  const StoredProducts<T> products(task, threads, &layout);
  const StoredQ<T> q(task, threads, &layout);
  const row_stream::RowPass<T> pass(task, kind, threads, &layout);
  WorkspaceMemory buffer;
  const Status allocated = layout.allocate(task.memory, &buffer);
  if (!allocated.is_ok()) return allocated;

  products.run(trace, buffer.data());
  q.run(trace, products, buffer.data());
  row_stream::RowPassMemory<T> memory = row_stream::memory_of(products, kind, buffer.data());
  memory.q = q.transposed(buffer.data());
  trace.phase("q_stored");
  pass.run(trace, memory, buffer.data());
  products.run_dx(trace, buffer.data());
  return Status::ok();
}

template Status q_stored_backward(const BackwardTask<float>&);
template Status q_stored_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
