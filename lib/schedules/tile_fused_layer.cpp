#include "schedules/key_pass.hpp"
#include "schedules/schedules.hpp"
#include "schedules/sdpa_heads.hpp"
#include "schedules/stored_products.hpp"
#include "schedules/tile_fused.hpp"
#include "schedules/tile_fused_forward.hpp"

// The layer problem where rows of d words are too long for many to stay: O is made by score tiles,
// U by pairs of them, and S, h and, backward, delta and U pass through memory.
namespace ioattn::schedules {

template <class T>
Status tile_fused_forward(const ForwardTask<T>& task) {
  const auto [n, m, d, e, tie, mask] = task.shape;
  const kernels::KernelTable<T>& kernels = *task.kernels;
  const index_t nr = kernels.tile.cols, stride = padded_stride(d, nr);
  const int threads = task.workers();
  const Trace trace = Trace::of_layer(task.observer, false);
  WorkspaceLayout layout;
  const Slot<T> s = layout.add<T>(n * stride);
  const ProductPass<T> s_product(n, d, d, task.blocks.s, nr, threads, &layout, factors_of<T>);
  const row_stream::ValueProjection<T> values(task.shape, task.blocks, nr, threads, &layout);
  const TileFusedForward<T> tiles(task.shape, task.blocks, kernels, threads, &layout);
  WorkspaceMemory buffer;
  const Status allocated = layout.allocate(task.memory, &buffer);
  if (!allocated.is_ok()) return allocated;
  void* memory = buffer.data();

  trace.phase("S");
  s_product.run(kernels, trace, factor(Operand::A1, task.in.a1), factor(Operand::X, task.in.x),
                {Operand::S, s.in(memory), stride, 1, false, false}, memory);
  values.run(kernels, trace, task.in, memory);
  row_stream::ForwardOperands<T> operands;
  operands.queries = {s.in(memory), n, d, stride};
  operands.keys = task.in.a2;
  operands.values = values.h(memory);
  operands.result = task.o;
  operands.lse = task.lse;
  trace.phase("tile_fused");
  for_each_block(
      threads, 1, tiles.block_count(), [&](int worker) { tiles.begin(worker, memory); },
      [&](index_t, index_t block, int worker) {
        tiles.run_block(trace, operands, block, worker, memory);
      },
      nullptr, BlockOrder(threads, mask, n, m));
  return Status::ok();
}

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

template Status tile_fused_forward(const ForwardTask<float>&);
template Status tile_fused_forward(const ForwardTask<double>&);
template Status tile_fused_backward(const BackwardTask<float>&);
template Status tile_fused_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
