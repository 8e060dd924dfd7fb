#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/rows/stored_products.hpp"
#include "schedules/schedules.hpp"
#include "schedules/sharing/key_pass.hpp"
#include "schedules/sharing/sdpa_heads.hpp"
#include "schedules/task.hpp"
#include "schedules/tiles/tile_fused.hpp"
#include "schedules/tiles/tile_fused_forward.hpp"
#include "schedules/trace.hpp"

// The layer problem where rows of d words are too long for many to stay, or products are of pairs
// of bf16: O is made by score tiles, U by pairs of them, and S, h and, backward, delta and U pass
// through memory. Of pairs h is rounded, as a factor; what rounding takes from S is kept beside it,
// for weights err by as much as scores do, however large these are.
namespace ioattn::schedules {

template <class S>
Status tile_fused_forward(const ForwardTask<S>& task) {
  using T = Compute<S>;
  constexpr bool of_pairs = is_half_storage<S>;
  const auto [n, m, d, e, tie, mask] = task.shape;
  const kernels::KernelTable<T>& kernels = *task.kernels;
  const index_t nr = kernels.tile.cols, stride = padded_stride(d, nr);
  const int threads = task.workers();
  const Trace trace = Trace::of_layer(task.observer, of_pairs);
  const Trace of_products = of_pairs ? Trace::of_pair_product(task.observer) : trace;
  const Trace of_tiles = Trace::of_layer_pairs(task.observer, of_pairs, task.overflows);
  WorkspaceLayout layout;
  const Slot<S> s = layout.add<S>((of_pairs ? 2 : 1) * n * stride);
  const auto s_product =
      thin_product<S, S>(n, d, d, task.blocks.s, nr, threads, &layout, RoundedSums::in_two_parts);
  const ValueProjection<S, S> values(task.shape, task.blocks, nr, threads, &layout);
  const TileFusedForward<S, PairsOf<S>> tiles(task.shape, task.blocks, kernels, threads, &layout);
  WorkspaceMemory buffer;
  const Status allocated = layout.allocate(task.memory, &buffer);
  if (!allocated.is_ok()) return allocated;
  void* memory = buffer.data();

  trace.phase("S");
  s_product.run(kernels, of_products, factor(Operand::A1, task.in.a1),
                factor(Operand::X, task.in.x), Factor<S>{Operand::S, s.in(memory), stride}, memory);
  values.run(kernels, of_products, task.in, memory);
  ForwardOperands<S> operands;
  operands.queries = {s.in(memory), n, d, stride};
  operands.rest_of_queries = of_pairs ? n * stride : 0;
  operands.scale = T(task.in.scale);
  operands.keys = task.in.a2;
  operands.values = values.h(memory);
  operands.result = task.o;
  operands.lse = task.lse;
  trace.phase("tile_fused");
  for_each_block(
      threads, 1, tiles.block_count(), [&](int worker) { tiles.begin(worker, memory); },
      [&](index_t, index_t block, int worker) {
        tiles.run_block(of_tiles, operands, block, worker, memory);
      },
      of_pairs ? kernels.pairs_of_bf16 : nullptr, BlockOrder(threads, mask, n, m));
  return Status::ok();
}

template <class S>
Status tile_fused_backward(const BackwardTask<S>& task) {
  constexpr bool of_pairs = is_half_storage<S>;
  const int threads = task.workers();
  const Trace trace = Trace::of_layer(task.observer, of_pairs);
  const Trace of_tiles = Trace::of_layer_pairs(task.observer, of_pairs);
  WorkspaceLayout layout;
  const StoredProducts<S, S> products(task, threads, &layout);
  constexpr KeyPassKind u_alone = {KeyGradients::none, true};
  const TileFused<S, PairsOf<S>> tiles(task.shape, task.blocks, u_alone.in_parts(of_pairs),
                                       task.kernels->tile.cols, threads, &layout);
  WorkspaceMemory buffer;
  const Status allocated = layout.allocate(task.memory, &buffer);
  if (!allocated.is_ok()) return allocated;
  void* memory = buffer.data();

  products.run(trace, memory);
  KeyPassOperands<S> operands;
  operands.keys = task.in.a2;
  operands.values = products.h(memory);
  operands.queries = products.s(memory);
  operands.rest_of_queries = products.rest_of_s();
  operands.scale = Compute<S>(task.in.scale);
  operands.d_o = task.d_o;
  operands.lse = task.lse;
  operands.delta = products.delta(memory);
  operands.d_queries = products.u(memory);
  trace.phase("tile_fused");
  run_key_pass(tiles, threads, *task.kernels, of_tiles, operands, memory,
               of_pairs ? task.kernels->pairs_of_bf16 : nullptr);
  products.run_dx(trace, memory);
  return Status::ok();
}

template Status tile_fused_forward(const ForwardTask<float>&);
template Status tile_fused_forward(const ForwardTask<double>&);
template Status tile_fused_forward(const ForwardTask<bf16>&);
template Status tile_fused_backward(const BackwardTask<float>&);
template Status tile_fused_backward(const BackwardTask<double>&);
template Status tile_fused_backward(const BackwardTask<bf16>&);

}  // namespace ioattn::schedules
