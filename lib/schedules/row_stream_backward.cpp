#include "schedules/row_pass.hpp"
#include "schedules/schedules.hpp"

// Rows of S, G (or dO) and U = p A2 stay; keys and values stream once per row block. fused: X, Y, O
// and dX stream once more per row block and nothing of size n x d is stored. stored: S, G, delta
// and U pass through memory, and dX = A1^T U is a product of its own.
namespace ioattn::schedules {
namespace {

using row_stream::RowPass;
using row_stream::RowPassKind;

RowPassKind kind_of(const Blocks& blocks) {
  const bool stored = blocks.products == Products::stored;
  RowPassKind kind;
  kind.values = blocks.form == Form::h ? RowPassKind::Values::h : RowPassKind::Values::g;
  kind.stored_s = kind.stored_delta = kind.stored_u = stored;
  kind.stored_g = stored && blocks.form == Form::g;
  return kind;
}

template <class T>
Status fused(const BackwardTask<T>& task, int threads) {
  const Trace trace(task.observer);
  WorkspaceLayout layout;
  const row_stream::ValueProjection<T> values(task.shape, task.blocks, task.kernels->tile.cols,
                                              threads, &layout);
  const RowPass<T> pass(task, kind_of(task.blocks), threads, &layout);
  AlignedBuffer buffer;
  const Status allocated = layout.allocate(&buffer);
  if (!allocated.is_ok()) return allocated;

  row_stream::RowPassMemory<T> memory;
  if (task.blocks.form == Form::h) {
    values.run(*task.kernels, trace, task.in, buffer.data());
    memory.h = values.h(buffer.data());
  }
  trace.phase("row_stream");
  pass.run(trace, memory, buffer.data());
  return Status::ok();
}

template <class T>
Status stored(const BackwardTask<T>& task, int threads) {
  const Trace trace(task.observer);
  const RowPassKind kind = kind_of(task.blocks);
  WorkspaceLayout layout;
  const StoredProducts<T> products(task, threads, &layout);
  const RowPass<T> pass(task, kind, threads, &layout);
  AlignedBuffer buffer;
  const Status allocated = layout.allocate(&buffer);
  if (!allocated.is_ok()) return allocated;

  products.run(trace, buffer.data());
  trace.phase("row_stream");
  pass.run(trace, row_stream::memory_of(products, kind, buffer.data()), buffer.data());
  products.run_dx(trace, buffer.data());
  return Status::ok();
}

}  // namespace

template <class T>
Status row_stream_backward(const BackwardTask<T>& task) {
  const int threads = task.observer != nullptr ? 1 : task.threads;
  return task.blocks.products == Products::stored ? stored(task, threads) : fused(task, threads);
}

template Status row_stream_backward(const BackwardTask<float>&);
template Status row_stream_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
