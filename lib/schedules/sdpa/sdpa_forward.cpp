#include "schedules/memory/workspace.hpp"
#include "schedules/rows/forward_pass.hpp"
#include "schedules/rows/pair_forward.hpp"
#include "schedules/sdpa/sdpa.hpp"
#include "schedules/sharing/sdpa_heads.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/tiles/tile_fused_forward.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

// By ForwardPass or TileFusedForward, perhaps of pairs.
template <class S, class Pass>
Status run_forward_pass(const SdpaForwardTask<S>& task, const SdpaShape& shape, const Pass& pass,
                        const WorkspaceLayout& layout, bool of_pairs = false) {
  const Trace trace(task.observer, is_half_storage<S>, of_pairs, task.overflows);
  const int threads = task.workers();
  WorkspaceMemory buffer;
  const Status allocated = layout.allocate(task.memory, &buffer);
  if (!allocated.is_ok()) return allocated;
  void* memory = buffer.data();

  const bool sees_first_key = shape.mask.of_any({0, shape.n}, shape.m).begin == 0;
  const bool fetches_next = pass.block_count() == 1 && sees_first_key;
  const auto values_of = [&](index_t head) {
    MatrixView<const S> values = key_head(task.in.v, shape, head);
    values.cols = shape.dv;
    return values;
  };
  trace.phase(name_of(forward_schedule(task.blocks)));
  for_each_block(
      threads, shape.all_heads(), pass.block_count(),
      [&](int worker) { pass.begin(worker, memory); },
      [&](index_t head, index_t block, int worker) {
        ForwardOperands<S> operands;
        operands.queries = query_head(task.in.q, shape, head);
        operands.scale = task.scale;
        operands.keys = key_head(task.in.k, shape, head);
        operands.values = values_of(head);
        operands.result = query_head(task.o, shape, head);
        operands.lse = query_head(task.lse, shape, head).data;
        // Workers take heads in turns.
        const index_t next = head + threads;
        if (fetches_next && next < shape.all_heads()) {
          const MatrixView<const S> keys = key_head(task.in.k, shape, next);
          if (keys.data != operands.keys.data) {
            operands.next_keys = keys;
            operands.next_values = values_of(next);
          }
        }
        if (shape.has_bias()) operands.bias = bias_of_head(task.in.bias, shape, head);
        pass.run_block(trace, operands, block, worker, memory);
      },
      of_pairs ? task.kernels->pairs_of_bf16 : nullptr,
      BlockOrder(threads, shape.mask, shape.n, shape.m));
  return Status::ok();
}

}  // namespace

template <class S>
Status sdpa_forward(const SdpaForwardTask<S>& task) {
  SdpaShape shape = task.shape;
  if (task.o.data == nullptr) shape.dv = 0;  // no values, no sum of them
  const int threads = task.workers();
  const Workers workers = {threads, shape.all_heads()};
  WorkspaceLayout layout;
  if (forward_schedule(task.blocks) == Schedule::tile_fused) {
    if (multiplies_pairs<S>(*task.kernels)) {
      const TileFusedForward<S, PairsOf<S>> pass(shape.head(), task.blocks, *task.kernels, workers,
                                                 &layout);
      return run_forward_pass(task, shape, pass, layout, true);
    }
    const TileFusedForward<S> pass(shape.head(), task.blocks, *task.kernels, workers, &layout);
    return run_forward_pass(task, shape, pass, layout);
  }
  if constexpr (std::is_same_v<S, bf16>) {
    if (multiplies_pairs<S>(*task.kernels)) {
      const PairForward pass(shape.head(), task.blocks, *task.kernels, workers, &layout);
      return run_forward_pass(task, shape, pass, layout, true);
    }
  }
  const ForwardPass<S> pass(shape.head(), task.blocks, *task.kernels, workers, &layout,
                            ValueRows::bare);
  return run_forward_pass(task, shape, pass, layout);
}

template Status sdpa_forward(const SdpaForwardTask<float>&);
template Status sdpa_forward(const SdpaForwardTask<double>&);
template Status sdpa_forward(const SdpaForwardTask<bf16>&);
template Status sdpa_forward(const SdpaForwardTask<f16>&);

}  // namespace ioattn::schedules
