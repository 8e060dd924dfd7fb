#include "schedules/key_pass.hpp"
#include "schedules/schedules.hpp"
#include "schedules/stored_products.hpp"
#include "schedules/tile_fused.hpp"

// dX where rows of d words are too long for many to stay: U is made by pairs of score tiles, and
// S, h, delta and U pass through memory.
namespace ioattn::schedules {

template <class T>
Status tile_fused_backward(const BackwardTask<T>& task) {
  const int threads = task.workers();
  const Trace trace = Trace::of_layer(task.observer, false);
  WorkspaceLayout layout;
  const StoredProducts<T> products(task, threads, &layout);
  const TileFused<T> tiles(task.shape, task.blocks, {KeyGradients::none, true},
                           task.kernels->tile.cols, threads, &layout, 1, 1);
  WorkspaceMemory buffer;
  const Status allocated = layout.allocate(task.memory, &buffer);
  if (!allocated.is_ok()) return allocated;
  void* memory = buffer.data();

  products.run(trace, memory);
  KeyPassOperands<T> operands;
  operands.keys = task.in.a2;
  operands.values = products.h(memory);
  operands.queries = products.s(memory);
  operands.d_o = task.d_o;
  operands.lse = task.lse;
  operands.delta = products.delta(memory);
  operands.d_queries = products.u(memory);
  trace.phase("tile_fused");
  run_key_pass(tiles, threads, *task.kernels, trace, operands, memory);
  products.run_dx(trace, memory);
  return Status::ok();
}

template Status tile_fused_backward(const BackwardTask<float>&);
template Status tile_fused_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
