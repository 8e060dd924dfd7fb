#include <optional>

#include "schedules/keys/col_stream.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/range.hpp"
#include "schedules/rows/pair_backward.hpp"
#include "schedules/rows/row_pass.hpp"
#include "schedules/sdpa/sdpa.hpp"
#include "schedules/sharing/sdpa_heads.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/softmax/delta_pass.hpp"
#include "schedules/softmax/score_bias.hpp"
#include "schedules/task.hpp"
#include "schedules/tiles/tile_fused.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

// The query heads that share a bias, in ascending order.
template <class Act>
void for_heads_of_bias(const SdpaShape& shape, index_t bias, const Act& act) {
  const index_t of_batch = bias / shape.bias_heads, of_head = bias % shape.bias_heads;
  for (index_t b = 0; b < shape.batch; ++b) {
    if (shape.bias_batch != 1 && b != of_batch) continue;
    for (index_t h = 0; h < shape.heads; ++h)
      if (shape.bias_heads == 1 || h == of_head) act(b * shape.heads + h);
  }
}

template <class S>
class SdpaBackward {
 public:
  using T = Compute<S>;

  explicit SdpaBackward(const SdpaBackwardTask<S>& task)
      : task_(task),
        shape_(task.shape),
        rounds_(!task.rounded.set().is_empty()),
        set_(rounds_ ? task.rounded.set() : task.out.set()),
        trace_(task.observer, is_half_storage<S>, false, task.overflows),
        threads_(task.workers()) {
    const Workers of_queries = {threads_, shape_.all_heads()};
    const Workers of_keys = {threads_, shape_.all_kv_heads()};
    const bool makes_dq = set_.key_kind(task.blocks).queries;
    by_group_ = goes_by_group(shape_, makes_dq, threads_);
    const index_t heads_at_once = heads_in_work(shape_, makes_dq, threads_);
    if (set_.delta()) {
      delta_.emplace(shape_.head(), task.blocks.rows, of_queries, &layout_, heads_at_once);
    }
    head_.shape = shape_.head();
    head_.blocks = task.blocks.rows;
    head_.kernels = task.kernels;
    const KeySums key_sums = rounds_ ? KeySums::rounded : KeySums::in_place;
    if (set_.query_pass(task.blocks)) {
      RowPassKind kind;
      kind.values = RowPassKind::Values::h;
      kind.stored_s = kind.stored_delta = kind.stored_u = true;
      kind.makes_u = set_.dQ;
      const Workers of_biases = {threads_, shape_.all_biases()};
      const Workers& workers = set_.dBias ? of_biases : of_queries;
      if constexpr (std::is_same_v<S, bf16>) {
        if (multiplies_pairs<S>(*task.kernels)) {
          pair_rows_.emplace(head_.shape, head_.blocks, set_.dQ, *task.kernels, workers, &layout_);
        }
      }
      if (!pair_rows_) rows_.emplace(head_, kind, workers, &layout_);
      const index_t at_once = pair_rows_ ? pair_rows_->block_rows() : rows_->block_rows();
      if (rounds_ && set_.dBias) d_bias_ = layout_.add<T>(threads_ * at_once * shape_.m);
    }
    if (rounds_ && makes_dq) dq_ = layout_.add<T>(heads_at_once * shape_.n * shape_.d);
    const auto tiles = [&](auto* pass) {
      pass->emplace(shape_.head(), task.blocks.keys, set_.key_kind(task.blocks),
                    task.kernels->tile.cols, of_keys, &layout_, shape_.group(), key_sums);
    };
    if (!set_.key_pass(task.blocks)) return;
    if (task.blocks.by_keys == Schedule::tile_fused) {
      if (multiplies_pairs<S>(*task.kernels)) {
        tiles(&pairs_);
      } else {
        tiles(&tiles_);
      }
    } else {
      keys_.emplace(shape_.head(), task.blocks.keys, set_.key_kind(task.blocks),
                    task.kernels->tile.cols, of_keys, &layout_, QueryRows::copied, shape_.group(),
                    key_sums);
    }
  }
  SdpaBackward(const SdpaBackward&) = delete;
  SdpaBackward& operator=(const SdpaBackward&) = delete;

  Status run() {
    WorkspaceMemory buffer;
    const Status allocated = layout_.allocate(task_.memory, &buffer);
    if (!allocated.is_ok()) return allocated;
    void* memory = buffer.data();
    if (delta_ && !by_group_) make_delta_of_all(memory);
    if (rows_) run_rows(*rows_, memory);
    if constexpr (std::is_same_v<S, bf16>) {
      if (pair_rows_) run_rows(*pair_rows_, memory);
    }
    if (keys_) run_keys(*keys_, memory);
    if (tiles_) run_keys(*tiles_, memory);
    if (pairs_) run_keys(*pairs_, memory);
    if (dq_.count > 0 && !by_group_) round_all_of_dq(memory);
    return Status::ok();
  }

 private:
  // Query heads of one of keys, and where delta and sums of dQ of its first are kept: those of all
  // heads or, where a worker takes groups whole, those of the groups that are in work.
  struct Group {
    index_t key_head, first_head, first_kept;
  };
  Group group_of(index_t key_head, int worker) const {
    const bool in_turns = by_group_ && threads_ < shape_.all_kv_heads();
    const index_t size = shape_.group();
    const index_t kept = in_turns ? worker : key_head;
    return {key_head, key_head * size, kept * size};
  }

  void make_delta_of_all(void* memory) const {
    trace_.phase("delta");
    const index_t heads = shape_.all_heads(), words = heads * shape_.n * 2 * shape_.dv;
    for_each_block(
        workers_for(words, threads_), heads, delta_->block_count(), [](int) {},
        [&](index_t head, index_t block, int) { make_delta(head, head, block, memory); });
  }
  void make_delta(index_t head, index_t kept, index_t block, void* memory) const {
    delta_->run_block(*task_.kernels, trace_, query_head(task_.o, shape_, head),
                      query_head(task_.d_o, shape_, head), block, delta_->delta(memory, kept));
  }

  // By RowPass or PairBackward.
  template <class Rows>
  void run_rows(const Rows& pass, void* memory) const {
    trace_.phase("row_stream");
    const bool of_pairs = pair_rows_.has_value();
    const Trace trace(task_.observer, is_half_storage<S>, of_pairs, task_.overflows);
    const kernels::PairKernels* pairs = of_pairs ? task_.kernels->pairs_of_bf16 : nullptr;
    const auto begin = [&](int worker) { pass.begin(worker, memory); };
    const auto run_block = [&](index_t head, index_t block, int worker, const MatrixView<T>& d_bias,
                               bool add) {
      pass.run_block(trace, row_task(head), row_operands(head, memory, d_bias, add), block, worker,
                     memory);
    };
    const BlockOrder order(threads_, shape_.mask, shape_.n, shape_.m);
    if (!set_.dBias) {
      for_each_block(
          threads_, shape_.all_heads(), pass.block_count(), begin,
          [&](index_t head, index_t block, int worker) {
            run_block(head, block, worker, {}, false);
          },
          pairs, order);
      return;
    }
    const auto run_bias = [&](index_t bias, index_t block, int worker) {
      bool add = set_.accumulate && !rounds_;
      const Range rows(block * pass.block_rows(), shape_.n, pass.block_rows());
      const MatrixView<T> sums = d_bias_of(bias, rows, worker, memory);
      for_heads_of_bias(shape_, bias, [&](index_t head) {
        run_block(head, block, worker, sums, add);
        add = true;
      });
      if constexpr (is_half_storage<S>) {
        if (rounds_) round_block_of_d_bias(bias, rows, sums);
      }
    };
    for_each_block(threads_, shape_.all_biases(), pass.block_count(), begin, run_bias, pairs,
                   order);
  }

  // The matrix [n, m] of the gradient of a bias. Where it is to be rounded only the rows of the
  // block exist.
  MatrixView<T> d_bias_of(index_t bias, const Range& rows, int worker, void* memory) const {
    if (!rounds_)
      return task_.out.d_bias.matrix(bias / shape_.bias_heads, bias % shape_.bias_heads);
    T* first = d_bias_.in(memory) + worker * rows.step * shape_.m;
    return {first - rows.begin * shape_.m, shape_.n, shape_.m, shape_.m};
  }
  void round_block_of_d_bias(index_t bias, const Range& rows, const MatrixView<T>& sums) const {
    const MatrixView<const T> made = {sums.row(rows.begin), rows.size(), sums.cols, sums.stride};
    round_d_bias(*task_.kernels, trace_, made, rows.begin, set_.accumulate,
                 task_.rounded.d_bias.matrix(bias / shape_.bias_heads, bias % shape_.bias_heads));
  }

  void round_all_of_dq(void* memory) const {
    trace_.phase("round");
    const index_t rows_at_once = 64;
    const index_t heads = shape_.all_heads(), words = heads * shape_.n * shape_.d;
    for_each_block(
        workers_for(words, threads_), heads, ceil_div(shape_.n, rows_at_once), [](int) {},
        [&](index_t head, index_t block, int) {
          round_dq(head, head, Range(block * rows_at_once, shape_.n, rows_at_once), memory);
        });
  }
  // Sums of dQ in f32 become dQ in 16 bits, a row at a time.
  void round_dq(index_t head, index_t kept, const Range& rows, void* memory) const {
    const index_t d = shape_.d;
    const T* sums = dq_.in(memory) + (kept * shape_.n + rows.begin) * d;
    const MatrixView<S> dq = query_head(task_.rounded.dq, shape_, head);
    store_rows(*task_.kernels, sums, d, rows.size(), d, T(1), set_.accumulate, dq.row(rows.begin),
               dq.stride, trace_.counted(Operand::dQ));
    for (Range row(rows.begin, rows.end, 1); row && trace_.is_observed(); row.next()) {
      trace_.read(rows_of(Operand::U, row, d));
      if (set_.accumulate) trace_.read_rounded(rows_of(Operand::dQ, row, d));
      trace_.write_rounded_and_remove(rows_of(Operand::U, row, d));
      if (set_.accumulate) trace_.remove(rows_of(Operand::dQ, row, d));
    }
  }

  // Of a head of queries: what of it the passes over rows take as a task, and what as operands.
  BackwardTask<S> row_task(index_t head) const {
    BackwardTask<S> task = head_;
    task.in.a2 = key_head(task_.in.k, shape_, head);
    task.d_o = query_head(task_.d_o, shape_, head);
    task.lse = query_head(task_.lse, shape_, head).data;
    return task;
  }
  QueryPassOperands<S> row_operands(index_t head, void* memory, const MatrixView<T>& d_bias,
                                    bool add_to_d_bias) const {
    QueryPassOperands<S> operands;
    operands.queries = query_head(task_.in.q, shape_, head);
    operands.values = key_head(task_.in.v, shape_, head);
    operands.delta = delta_->delta(memory, head);
    operands.d_queries = query_head(task_.out.dq, shape_, head);
    operands.rounded_d_queries = query_head(task_.rounded.dq, shape_, head);
    operands.scale = task_.scale;
    operands.accumulate = set_.accumulate;
    if (shape_.has_bias()) {
      operands.bias = bias_of_head(task_.in.bias, shape_, head);
      operands.d_bias = d_bias;
      operands.add_to_d_bias = add_to_d_bias;
    }
    return operands;
  }

  // By ColStream or TileFused.
  template <class KeyPass>
  void run_keys(const KeyPass& pass, void* memory) const {
    const bool of_pairs = pairs_.has_value();
    const Trace trace(task_.observer, is_half_storage<S>, of_pairs, task_.overflows);
    const kernels::PairKernels* pairs = of_pairs ? task_.kernels->pairs_of_bf16 : nullptr;
    const auto begin = [&](int worker) { pass.begin(*task_.kernels, worker, memory); };
    const auto run_block = [&](const Group& group, index_t block, int worker) {
      pass.run_block(*task_.kernels, trace, operands_of(group, memory), group.key_head, block,
                     worker, memory);
    };
    const auto prepare = [&](const Group& group) {
      pass.prepare(*task_.kernels, trace, operands_of(group, memory), group.key_head, memory);
    };
    const index_t heads = shape_.all_kv_heads(), blocks = pass.block_count();
    if (by_group_) {
      const auto run_group = [&](index_t head, index_t, int worker) {
        const Group group = group_of(head, worker);
        if (delta_) make_delta_of(group, memory);
        trace.phase(name_of(task_.blocks.by_keys));
        prepare(group);
        for (index_t block = 0; block < blocks; ++block) run_block(group, block, worker);
        if (dq_.count > 0) round_dq_of(group, memory);
      };
      for_each_block(threads_, heads, 1, begin, run_group, pairs);
      return;
    }
    trace.phase(name_of(task_.blocks.by_keys));
    if (pass.has_turns()) {
      for_each_block(
          threads_, heads, 1, [](int) {},
          [&](index_t head, index_t, int worker) { prepare(group_of(head, worker)); });
    }
    for_each_block(
        threads_, heads, blocks, begin,
        [&](index_t head, index_t block, int worker) {
          run_block(group_of(head, worker), block, worker);
        },
        pairs);
  }

  // While what it reads, or has read, is near.
  void make_delta_of(const Group& group, void* memory) const {
    trace_.phase("delta");
    for (index_t i = 0; i < shape_.group(); ++i)
      for (index_t block = 0; block < delta_->block_count(); ++block)
        make_delta(group.first_head + i, group.first_kept + i, block, memory);
  }
  void round_dq_of(const Group& group, void* memory) const {
    trace_.phase("round");
    for (index_t i = 0; i < shape_.group(); ++i)
      round_dq(group.first_head + i, group.first_kept + i, Range(shape_.n, shape_.n), memory);
  }

  KeyPassOperands<S> operands_of(const Group& group, void* memory) const {
    const index_t b = group.key_head / shape_.kv_heads, kv = group.key_head % shape_.kv_heads;
    const index_t first = kv * shape_.group();
    KeyPassOperands<S> operands;
    operands.keys = task_.in.k.matrix(b, kv);
    operands.values = task_.in.v.matrix(b, kv);
    operands.queries = task_.in.q.matrix(b, first);
    operands.queries_step = task_.in.q.data != nullptr ? task_.in.q.head_stride : 0;
    operands.d_o = task_.d_o.matrix(b, first);
    operands.d_o_step = task_.d_o.head_stride;
    operands.lse = task_.lse.matrix(b, first).data;
    operands.lse_step = task_.lse.head_stride;
    if (delta_) operands.delta = delta_->delta(memory, group.first_kept);
    operands.delta_step = shape_.n;
    operands.heads = shape_.group();
    operands.scale = task_.scale;
    operands.d_keys = task_.out.dk.matrix(b, kv);
    operands.d_values = task_.out.dv.matrix(b, kv);
    operands.rounded_d_keys = task_.rounded.dk.matrix(b, kv);
    operands.rounded_d_values = task_.rounded.dv.matrix(b, kv);
    operands.d_queries_name = rounds_ ? Operand::U : Operand::dQ;
    if (dq_.count > 0) {
      T* const sums = dq_.in(memory) + group.first_kept * shape_.n * shape_.d;
      operands.d_queries = {sums, shape_.n, shape_.d, shape_.d};
      operands.d_queries_step = shape_.n * shape_.d;
    } else if (task_.out.dq.data != nullptr) {
      operands.d_queries = task_.out.dq.matrix(b, first);
      operands.d_queries_step = task_.out.dq.head_stride;
    }
    operands.accumulate = set_.accumulate;
    operands.accumulate_queries = set_.accumulate && !rounds_;
    if (shape_.has_bias()) {
      operands.bias = bias_of_head(task_.in.bias, shape_, group.first_head);
      operands.bias_step = shape_.bias_heads == 1 ? 0 : task_.in.bias.head_stride;
    }
    return operands;
  }

  const SdpaBackwardTask<S>& task_;
  SdpaShape shape_;
  bool rounds_;
  SdpaSet set_;
  Trace trace_;
  int threads_;
  bool by_group_;         // all phases of a group of heads by one worker, before the next group
  BackwardTask<S> head_;  // what all heads have in common
  WorkspaceLayout layout_;
  Slot<T> dq_, d_bias_;  // sums to be rounded
  std::optional<DeltaPass<S>> delta_;
  std::optional<RowPass<S>> rows_;
  std::optional<PairBackward> pair_rows_;
  std::optional<ColStream<S>> keys_;
  std::optional<TileFused<S>> tiles_;
  std::optional<TileFused<S, PairsOf<S>>> pairs_;
};

}  // namespace

template <class S>
Status sdpa_backward(const SdpaBackwardTask<S>& task) {
  return SdpaBackward<S>(task).run();
}

template Status sdpa_backward(const SdpaBackwardTask<float>&);
template Status sdpa_backward(const SdpaBackwardTask<double>&);
template Status sdpa_backward(const SdpaBackwardTask<bf16>&);
template Status sdpa_backward(const SdpaBackwardTask<f16>&);

}  // namespace ioattn::schedules
