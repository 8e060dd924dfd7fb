#include "schedules/memory/workspace.hpp"
#include "schedules/rows/u_pass.hpp"
#include "schedules/schedules.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// row_stream, q_stored and half_dim (u_pass.hpp). fused: X, Y, O and dX stream once more per row
// block and nothing of size n x d is stored, but for what q_stored makes q of. stored: S, G, delta
// and U pass through memory, and dX = A1^T U is a product of its own.
namespace ioattn::schedules {

template <class S>
Status rows_backward(Schedule schedule, const BackwardTask<S>& task) {
  const int threads = task.workers();
  const Trace trace = Trace::of_layer(task.observer, is_half_storage<S>);
  StoredNeeds needs;
  // The only thin product of fused row_stream that passes through memory is h.
  const bool fused_rows =
      schedule == Schedule::row_stream && task.blocks.products == Products::fused;
  needs.delta = !fused_rows;
  needs.values = !fused_rows || task.blocks.form == Form::h;

  WorkspaceLayout layout;
  const StoredProducts<S> products(task, threads, &layout, needs);
  const UPass<S> pass(schedule, task, threads, &layout);
  WorkspaceMemory buffer;
  const Status allocated = layout.allocate(task.memory, &buffer);
  if (!allocated.is_ok()) return allocated;

  products.run(trace, buffer.data());
  pass.run(trace, products, buffer.data());
  products.run_dx(trace, buffer.data());
  return Status::ok();
}

template Status rows_backward(Schedule, const BackwardTask<float>&);
template Status rows_backward(Schedule, const BackwardTask<double>&);
template Status rows_backward(Schedule, const BackwardTask<bf16>&);
template Status rows_backward(Schedule, const BackwardTask<f16>&);

}  // namespace ioattn::schedules
