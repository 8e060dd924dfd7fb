#include "schedules/sdpa.hpp"

#include <optional>

#include "parallel/parallel.hpp"
#include "schedules/col_stream.hpp"
#include "schedules/delta_pass.hpp"
#include "schedules/forward_pass.hpp"
#include "schedules/row_pass.hpp"
#include "schedules/tile_fused.hpp"
#include "schedules/tile_fused_forward.hpp"

namespace ioattn::schedules {
namespace {

// Rows of a head are shared out only where heads alone would leave threads idle: shorter row blocks
// move more words. No result depends on it.
Workers workers_for(index_t heads, int threads) {
  const bool heads_suffice = heads % threads == 0 || heads >= 4 * index_t(threads);
  return {threads, heads_suffice ? 1 : threads};
}

// Calls block(head, block, worker) for every block of every head, after begin(worker).
template <class Begin, class Act>
void for_each_block(int threads, index_t heads, index_t blocks, const Begin& begin,
                    const Act& act) {
  parallel::Dispenser items;
  auto body = [&](int worker) {
    begin(worker);
    for (index_t item = items.take(); item < heads * blocks; item = items.take())
      act(item / blocks, item % blocks, worker);
  };
  parallel::run(threads, body);
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

// The bias of query head h, and the index of the heads that share a bias, in ascending order.
template <class T>
MatrixView<T> bias_of_head(const TensorView<T>& tensor, const SdpaShape& shape, index_t h) {
  return tensor.matrix(shape.bias_batch == 1 ? 0 : h / shape.heads,
                       shape.bias_heads == 1 ? 0 : h % shape.heads);
}
template <class Act>
void for_heads_of_bias(const SdpaShape& shape, index_t bias, const Act& act) {
  const index_t of_batch = bias / shape.bias_heads, of_head = bias % shape.bias_heads;
  for (index_t b = 0; b < shape.batch; ++b) {
    if (shape.bias_batch != 1 && b != of_batch) continue;
    for (index_t h = 0; h < shape.heads; ++h)
      if (shape.bias_heads == 1 || h == of_head) act(b * shape.heads + h);
  }
}

template <class T>
class SdpaBackward {
 public:
  explicit SdpaBackward(const SdpaBackwardTask<T>& task)
      : task_(task),
        shape_(task.shape),
        set_(task.out.set()),
        trace_(task.observer),
        threads_(task.observer != nullptr ? 1 : task.threads) {
    const Workers of_queries = workers_for(shape_.all_heads(), threads_);
    if (set_.delta()) {
      delta_.emplace(shape_.head(), task.blocks.rows, of_queries, &layout_, shape_.all_heads());
    }
    head_.shape = shape_.head();
    head_.blocks = task.blocks.rows;
    head_.kernels = task.kernels;
    if (set_.query_pass(task.blocks.keys.one_pass)) {
      row_stream::RowPassKind kind;
      kind.values = row_stream::RowPassKind::Values::h;
      kind.stored_s = kind.stored_delta = kind.stored_u = true;
      kind.makes_u = set_.dQ;
      const Workers of_biases = workers_for(shape_.all_biases(), threads_);
      rows_.emplace(head_, kind, set_.dBias ? of_biases : of_queries, &layout_);
    }
    if (set_.keys() && task.blocks.by_keys == Schedule::tile_fused) {
      tiles_.emplace(shape_.head(), task.blocks.keys, set_.key_pass(task.blocks.keys.one_pass),
                     task.kernels->tile.cols, workers_for(shape_.all_kv_heads(), threads_),
                     &layout_, shape_.all_kv_heads(), shape_.group());
    } else if (set_.keys()) {
      keys_.emplace(shape_.head(), task.blocks.keys, set_.key_pass(task.blocks.keys.one_pass),
                    task.kernels->tile.cols, workers_for(shape_.all_kv_heads(), threads_), &layout_,
                    QueryRows::copied, shape_.all_kv_heads(), shape_.group());
    }
  }
  SdpaBackward(const SdpaBackward&) = delete;
  SdpaBackward& operator=(const SdpaBackward&) = delete;

  Status run() {
    WorkspaceMemory buffer;
    const Status allocated = layout_.allocate(task_.memory, &buffer);
    if (!allocated.is_ok()) return allocated;
    void* memory = buffer.data();
    if (delta_) run_delta(memory);
    if (rows_) run_rows(memory);
    if (keys_) run_keys(*keys_, memory);
    if (tiles_) run_keys(*tiles_, memory);
    return Status::ok();
  }

 private:
  void run_delta(void* memory) const {
    trace_.phase("delta");
    for_each_block(
        threads_, shape_.all_heads(), delta_->block_count(), [](int) {},
        [&](index_t head, index_t block, int) {
          delta_->run_block(*task_.kernels, trace_, query_head(task_.o, shape_, head),
                            query_head(task_.d_o, shape_, head), block,
                            delta_->delta(memory, head));
        });
  }

  void run_rows(void* memory) const {
    trace_.phase("row_stream");
    const auto begin = [&](int worker) { rows_->begin(worker, memory); };
    if (!set_.dBias) {
      for_each_block(threads_, shape_.all_heads(), rows_->block_count(), begin,
                     [&](index_t head, index_t block, int worker) {
                       run_row_block(head, block, worker, memory, false);
                     });
      return;
    }
    for_each_block(threads_, shape_.all_biases(), rows_->block_count(), begin,
                   [&](index_t bias, index_t block, int worker) {
                     bool add = set_.accumulate;
                     for_heads_of_bias(shape_, bias, [&](index_t head) {
                       run_row_block(head, block, worker, memory, add);
                       add = true;
                     });
                   });
  }

  void run_row_block(index_t head, index_t block, int worker, void* memory,
                     bool add_to_d_bias) const {
    BackwardTask<T> operands = head_;
    operands.in.a2 = key_head(task_.in.k, shape_, head);
    operands.d_o = query_head(task_.d_o, shape_, head);
    operands.lse = query_head(task_.lse, shape_, head).data;
    row_stream::RowPassMemory<T> found;
    found.s = query_head(task_.in.q, shape_, head);
    found.h = key_head(task_.in.v, shape_, head);
    found.delta = delta_->delta(memory, head);
    found.u = query_head(task_.out.dq, shape_, head);
    found.scale = task_.scale;
    found.accumulate_u = set_.accumulate;
    if (shape_.has_bias()) {
      found.bias = bias_of_head(task_.in.bias, shape_, head);
      found.d_bias = bias_of_head(task_.out.d_bias, shape_, head);
      found.add_to_d_bias = add_to_d_bias;
    }
    rows_->run_block(trace_, operands, found, block, worker, memory);
  }

  // By ColStream or TileFused.
  template <class KeyPass>
  void run_keys(const KeyPass& pass, void* memory) const {
    trace_.phase(name_of(task_.blocks.by_keys));
    const auto begin = [&](int worker) { pass.begin(worker, memory); };
    const auto run_block = [&](index_t head, index_t block, int worker) {
      pass.run_block(*task_.kernels, trace_, operands_of(head, memory), head, block, worker,
                     memory);
    };
    const auto prepare = [&](index_t head) {
      pass.prepare(trace_, operands_of(head, memory), head, memory);
    };
    const index_t heads = shape_.all_kv_heads(), blocks = pass.block_count();
    if (pass.takes_whole_problems()) {
      for_each_block(threads_, heads, 1, begin, [&](index_t head, index_t, int worker) {
        prepare(head);
        for (index_t block = 0; block < blocks; ++block) run_block(head, block, worker);
      });
      return;
    }
    if (pass.has_turns()) {
      for_each_block(
          threads_, heads, 1, [](int) {}, [&](index_t head, index_t, int) { prepare(head); });
    }
    for_each_block(threads_, heads, blocks, begin, run_block);
  }

  // Of a head of keys and the group of query heads that see it.
  KeyPassOperands<T> operands_of(index_t head, void* memory) const {
    const index_t b = head / shape_.kv_heads, kv = head % shape_.kv_heads;
    const index_t first = kv * shape_.group();
    KeyPassOperands<T> operands;
    operands.keys = task_.in.k.matrix(b, kv);
    operands.values = task_.in.v.matrix(b, kv);
    operands.queries = task_.in.q.matrix(b, first);
    operands.queries_step = task_.in.q.data != nullptr ? task_.in.q.head_stride : 0;
    operands.d_o = task_.d_o.matrix(b, first);
    operands.d_o_step = task_.d_o.head_stride;
    operands.lse = task_.lse.matrix(b, first).data;
    operands.lse_step = task_.lse.head_stride;
    if (delta_) operands.delta = delta_->delta(memory, b * shape_.heads + first);
    operands.delta_step = shape_.n;
    operands.heads = shape_.group();
    operands.scale = task_.scale;
    operands.d_keys = task_.out.dk.matrix(b, kv);
    operands.d_values = task_.out.dv.matrix(b, kv);
    operands.d_queries = task_.out.dq.matrix(b, first);
    operands.d_queries_name = Operand::dQ;
    operands.d_queries_step = task_.out.dq.data != nullptr ? task_.out.dq.head_stride : 0;
    operands.accumulate = set_.accumulate;
    if (shape_.has_bias()) {
      operands.bias = bias_of_head(task_.in.bias, shape_, b * shape_.heads + first);
      operands.bias_step = shape_.bias_heads == 1 ? 0 : task_.in.bias.head_stride;
    }
    return operands;
  }

  const SdpaBackwardTask<T>& task_;
  SdpaShape shape_;
  SdpaSet set_;
  Trace trace_;
  int threads_;
  BackwardTask<T> head_;  // what all heads have in common
  WorkspaceLayout layout_;
  std::optional<DeltaPass<T>> delta_;
  std::optional<row_stream::RowPass<T>> rows_;
  std::optional<ColStream<T>> keys_;
  std::optional<TileFused<T>> tiles_;
};

// By ForwardPass or TileFusedForward.
template <class T, class Pass>
Status run_forward_pass(const SdpaForwardTask<T>& task, const SdpaShape& shape, const Pass& pass,
                        const WorkspaceLayout& layout) {
  const Trace trace(task.observer);
  const int threads = task.observer != nullptr ? 1 : task.threads;
  WorkspaceMemory buffer;
  const Status allocated = layout.allocate(task.memory, &buffer);
  if (!allocated.is_ok()) return allocated;
  void* memory = buffer.data();

  trace.phase(name_of(forward_schedule(task.blocks)));
  for_each_block(
      threads, shape.all_heads(), pass.block_count(),
      [&](int worker) { pass.begin(worker, memory); },
      [&](index_t head, index_t block, int worker) {
        row_stream::ForwardOperands<T> operands;
        operands.queries = query_head(task.in.q, shape, head);
        operands.scale = task.scale;
        operands.keys = key_head(task.in.k, shape, head);
        operands.values = key_head(task.in.v, shape, head);
        operands.values.cols = shape.dv;
        operands.result = query_head(task.o, shape, head);
        operands.lse = query_head(task.lse, shape, head).data;
        if (shape.has_bias()) operands.bias = bias_of_head(task.in.bias, shape, head);
        pass.run_block(trace, operands, block, worker, memory);
      });
  return Status::ok();
}

}  // namespace

template <class T>
Status sdpa_forward(const SdpaForwardTask<T>& task) {
  SdpaShape shape = task.shape;
  if (task.o.data == nullptr) shape.dv = 0;  // no values, no sum of them
  const int threads = task.observer != nullptr ? 1 : task.threads;
  const Workers workers = workers_for(shape.all_heads(), threads);
  WorkspaceLayout layout;
  if (forward_schedule(task.blocks) == Schedule::tile_fused) {
    const TileFusedForward<T> pass(shape.head(), task.blocks, *task.kernels, workers, &layout);
    return run_forward_pass(task, shape, pass, layout);
  }
  const row_stream::ForwardPass<T> pass(shape.head(), task.blocks, *task.kernels, workers, &layout,
                                        row_stream::ValueRows::copied);
  return run_forward_pass(task, shape, pass, layout);
}

template <class T>
Status sdpa_backward(const SdpaBackwardTask<T>& task) {
  return SdpaBackward<T>(task).run();
}

#define IOATTN_INSTANTIATE(T)                              \
  template Status sdpa_forward(const SdpaForwardTask<T>&); \
  template Status sdpa_backward(const SdpaBackwardTask<T>&)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
