#include "schedules/sdpa.hpp"

#include <optional>

#include "schedules/col_stream.hpp"
#include "schedules/delta_pass.hpp"
#include "schedules/pair_backward.hpp"
#include "schedules/row_pass.hpp"
#include "schedules/score_bias.hpp"
#include "schedules/sdpa_heads.hpp"
#include "schedules/storage.hpp"
#include "schedules/tile_fused.hpp"

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
        threads_(task.observer != nullptr ? 1 : task.threads) {
    const Workers of_queries = {threads_, shape_.all_heads()};
    if (set_.delta()) {
      delta_.emplace(shape_.head(), task.blocks.rows, of_queries, &layout_, shape_.all_heads());
    }
    head_.shape = shape_.head();
    head_.blocks = task.blocks.rows;
    head_.kernels = task.kernels;
    const KeySums key_sums = rounds_ ? KeySums::rounded : KeySums::in_place;
    if (set_.query_pass(task.blocks)) {
      row_stream::RowPassKind kind;
      kind.values = row_stream::RowPassKind::Values::h;
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
    if (rounds_ && set_.in_one_pass(task.blocks)) {
      dq_ = layout_.add<T>(shape_.all_heads() * shape_.n * shape_.d);
    }
    const auto tiles = [&](auto* pass) {
      pass->emplace(shape_.head(), task.blocks.keys, set_.key_kind(task.blocks),
                    task.kernels->tile.cols, Workers(threads_, shape_.all_kv_heads()), &layout_,
                    shape_.all_kv_heads(), shape_.group(), key_sums);
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
                    task.kernels->tile.cols, Workers(threads_, shape_.all_kv_heads()), &layout_,
                    QueryRows::copied, shape_.all_kv_heads(), shape_.group(), key_sums);
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
    if (rows_) run_rows(*rows_, memory);
    if constexpr (std::is_same_v<S, bf16>) {
      if (pair_rows_) run_rows(*pair_rows_, memory);
    }
    if (keys_) run_keys(*keys_, memory);
    if (tiles_) run_keys(*tiles_, memory);
    if (pairs_) run_keys(*pairs_, memory);
    if (dq_.count > 0) round_dq(memory);
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
      row_stream::RowPassMemory<S> found;
      const BackwardTask<S> operands = row_operands(head, memory, d_bias, add, &found);
      pass.run_block(trace, operands, found, block, worker, memory);
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

  // Sums of dQ in f32 become dQ in 16 bits, a row at a time.
  void round_dq(void* memory) const {
    trace_.phase("round");
    const index_t d = shape_.d, rows_at_once = 64;
    for_each_block(
        threads_, shape_.all_heads(), ceil_div(shape_.n, rows_at_once), [](int) {},
        [&](index_t head, index_t block, int) {
          const Range rows(block * rows_at_once, shape_.n, rows_at_once);
          const T* sums = dq_.in(memory) + (head * shape_.n + rows.begin) * d;
          const MatrixView<S> dq = query_head(task_.rounded.dq, shape_, head);
          store_rows(*task_.kernels, sums, d, rows.size(), d, T(1), set_.accumulate,
                     dq.row(rows.begin), dq.stride, trace_.counted(Operand::dQ));
          for (Range row(rows.begin, rows.end, 1); row && trace_.is_observed(); row.next()) {
            trace_.read(rows_of(Operand::U, row, d));
            if (set_.accumulate) trace_.read_rounded(rows_of(Operand::dQ, row, d));
            trace_.write_rounded_and_remove(rows_of(Operand::U, row, d));
            if (set_.accumulate) trace_.remove(rows_of(Operand::dQ, row, d));
          }
        });
  }

  // Of a head of queries.
  BackwardTask<S> row_operands(index_t head, void* memory, const MatrixView<T>& d_bias,
                               bool add_to_d_bias, row_stream::RowPassMemory<S>* memory_of) const {
    row_stream::RowPassMemory<S>& found = *memory_of;
    BackwardTask<S> operands = head_;
    operands.in.a2 = key_head(task_.in.k, shape_, head);
    operands.d_o = query_head(task_.d_o, shape_, head);
    operands.lse = query_head(task_.lse, shape_, head).data;
    found.s = query_head(task_.in.q, shape_, head);
    found.h = key_head(task_.in.v, shape_, head);
    found.delta = delta_->delta(memory, head);
    found.u = query_head(task_.out.dq, shape_, head);
    found.rounded_u = query_head(task_.rounded.dq, shape_, head);
    found.scale = task_.scale;
    found.accumulate_u = set_.accumulate;
    if (shape_.has_bias()) {
      found.bias = bias_of_head(task_.in.bias, shape_, head);
      found.d_bias = d_bias;
      found.add_to_d_bias = add_to_d_bias;
    }
    return operands;
  }

  // In place, or to be rounded.
  TensorView<T> sums_of_dq(void* memory) const {
    if (dq_.count == 0) return task_.out.dq;
    return dense_tensor(dq_.in(memory), shape_.batch, shape_.heads, shape_.n, shape_.d);
  }

  // By ColStream or TileFused.
  template <class KeyPass>
  void run_keys(const KeyPass& pass, void* memory) const {
    const bool of_pairs = pairs_.has_value();
    const Trace trace(task_.observer, is_half_storage<S>, of_pairs, task_.overflows);
    const kernels::PairKernels* pairs = of_pairs ? task_.kernels->pairs_of_bf16 : nullptr;
    trace.phase(name_of(task_.blocks.by_keys));
    const auto begin = [&](int worker) { pass.begin(*task_.kernels, worker, memory); };
    const auto run_block = [&](index_t head, index_t block, int worker) {
      pass.run_block(*task_.kernels, trace, operands_of(head, memory), head, block, worker, memory);
    };
    const auto prepare = [&](index_t head) {
      pass.prepare(*task_.kernels, trace, operands_of(head, memory), head, memory);
    };
    const index_t heads = shape_.all_kv_heads(), blocks = pass.block_count();
    if (pass.takes_whole_problems()) {
      const auto run_problem = [&](index_t head, index_t, int worker) {
        prepare(head);
        for (index_t block = 0; block < blocks; ++block) run_block(head, block, worker);
      };
      for_each_block(threads_, heads, 1, begin, run_problem, pairs);
      return;
    }
    if (pass.has_turns()) {
      for_each_block(
          threads_, heads, 1, [](int) {}, [&](index_t head, index_t, int) { prepare(head); });
    }
    for_each_block(threads_, heads, blocks, begin, run_block, pairs);
  }

  // Of a head of keys and the group of query heads that see it.
  KeyPassOperands<S> operands_of(index_t head, void* memory) const {
    const index_t b = head / shape_.kv_heads, kv = head % shape_.kv_heads;
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
    if (delta_) operands.delta = delta_->delta(memory, b * shape_.heads + first);
    operands.delta_step = shape_.n;
    operands.heads = shape_.group();
    operands.scale = task_.scale;
    operands.d_keys = task_.out.dk.matrix(b, kv);
    operands.d_values = task_.out.dv.matrix(b, kv);
    operands.rounded_d_keys = task_.rounded.dk.matrix(b, kv);
    operands.rounded_d_values = task_.rounded.dv.matrix(b, kv);
    const TensorView<T> dq = sums_of_dq(memory);
    operands.d_queries = dq.matrix(b, first);
    operands.d_queries_name = rounds_ ? Operand::U : Operand::dQ;
    operands.d_queries_step = dq.data != nullptr ? dq.head_stride : 0;
    operands.accumulate = set_.accumulate;
    operands.accumulate_queries = set_.accumulate && !rounds_;
    if (shape_.has_bias()) {
      operands.bias = bias_of_head(task_.in.bias, shape_, b * shape_.heads + first);
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
  BackwardTask<S> head_;  // what all heads have in common
  WorkspaceLayout layout_;
  Slot<T> dq_, d_bias_;  // sums to be rounded
  std::optional<DeltaPass<S>> delta_;
  std::optional<row_stream::RowPass<S>> rows_;
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
