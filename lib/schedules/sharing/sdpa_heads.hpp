#pragma once

#include <algorithm>

#include "base/sdpa.hpp"
#include "kernels/kernel_table.hpp"
#include "parallel/parallel.hpp"
#include "schedules/sharing/shared_blocks.hpp"
#include "schedules/sharing/workers.hpp"

// Heads of SDPA, and how they and their blocks are shared out.
namespace ioattn::schedules {

// Calls act(head, block, worker) for every block of every head, after begin(worker), those
// of a head in the order given. Blocks may multiply pairs with the kernels given.
template <class Begin, class Act>
void for_each_block(int threads, index_t heads, index_t blocks, const Begin& begin, const Act& act,
                    const kernels::PairKernels* pairs = nullptr, const BlockOrder& order = {}) {
  parallel::Dispenser items;
  const index_t count = heads * blocks;
  auto body = [&](int worker) {
    const kernels::PairRegion region(pairs);
    begin(worker);
    for (index_t item = items.take(); item < count; item = items.take())
      act(item / blocks, order.block(item % blocks, blocks), worker);
  };
  parallel::run(threads, count, body);
}

// Whether every phase of the heads that share keys is made by one worker, before those of the next:
// where dQ is made on the way of a pass over the keys, and workers take heads whole.
inline bool goes_by_group(const SdpaShape& shape, bool makes_dq, int threads) {
  return makes_dq && Workers(threads, shape.all_kv_heads()).take_whole_problems();
}

// Query heads whose delta and sums of dQ are in memory at the same time.
inline index_t heads_in_work(const SdpaShape& shape, bool makes_dq, int threads) {
  const index_t groups = shape.all_kv_heads();
  if (groups == 0) return 0;
  const bool by_group = goes_by_group(shape, makes_dq, threads);
  return (by_group ? std::min<index_t>(threads, groups) : groups) * shape.group();
}

// Workers of a phase that passes over words once, and multiplies little: one where most of them
// would take less time for it than to wake.
inline int workers_for(index_t words, int threads) {
  constexpr index_t worth_a_worker = index_t(1) << 16;  // some 10 microseconds
  return words / worth_a_worker < threads / 2 ? 1 : threads;
}

// Query head h of all, and the head of keys that it sees.
template <class T>
MatrixView<T> query_head(const TensorView<T>& tensor, const SdpaShape& shape, index_t h) {
  return tensor.matrix(h / shape.heads, h % shape.heads);
}
template <class T>
MatrixView<T> key_head(const TensorView<T>& tensor, const SdpaShape& shape, index_t h) {
  return tensor.matrix(h / shape.heads, h % shape.heads / shape.group());
}

// The bias of query head h.
template <class T>
MatrixView<T> bias_of_head(const TensorView<T>& tensor, const SdpaShape& shape, index_t h) {
  return tensor.matrix(shape.bias_batch == 1 ? 0 : h / shape.heads,
                       shape.bias_heads == 1 ? 0 : h % shape.heads);
}

}  // namespace ioattn::schedules
