#pragma once

#include "schedules/memory/workspace.hpp"
#include "schedules/pass_operands.hpp"
#include "schedules/products/pair_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// row_stream's backward pass of SDPA over the queries, of pairs of terms: dQ and the gradient of a
// bias, either or both. Rows of queries and of dO and the sums of dQ stay, keys and values stream
// past them in panels, the keys in a second layout too, and a strip of rho queries at a time makes
// f, q and p. Score tiles have rows of keys: p, rounded in f's place, has rows of pairs as they
// stand; for the bias it stays in f32, in q's place. Threads own blocks of queries. Cost:
// theory::half_query_pass_cost.
class PairBackward {
 public:
  using Operands = QueryPassOperands<bf16>;

  PairBackward(const LayerShape& shape, const Blocks& blocks, bool makes_dq,
               const kernels::KernelTable<float>& kernels, const Workers& workers,
               WorkspaceLayout* layout);

  index_t block_count() const { return ceil_div(n_, r_); }
  index_t block_rows() const { return r_; }
  void begin(int, void*) const {}
  // As RowPass::run_block, with stored S, delta and U.
  void run_block(const Trace& trace, const BackwardTask<bf16>& task, const Operands& operands,
                 index_t block, int worker, void* workspace) const;

 private:
  using Word = kernels::bf16x2;
  using Product = kernels::Product<float, Word>;

  // A block of queries in the hands of a worker.
  struct Work {
    const Trace& trace;
    const BackwardTask<bf16>& task;
    const Operands& operands;
    void* local;
    Range rows;
    bool has_bias() const { return operands.bias.data != nullptr; }
    bool makes_d_bias() const { return operands.d_bias.data != nullptr; }
  };
  // A strip of queries and the keys that it meets, `computed` of those in panels.
  struct Meeting {
    Range strip, queries, seen, computed;
    PairPanels packed;
    bool full;  // every query sees all of `computed`
  };

  void start(const Work& work) const;
  void stream_keys(const Work& work, const Range& keys) const;
  void pack_key_rows(const Work& work, const PairPanels& packed) const;
  Meeting meeting_of(const Work& work, const Range& strip, const Range& seen,
                     const PairPanels& packed) const;
  void add_keys(const Work& work, const Meeting& meeting) const;
  Product score(const Meeting& meeting, const Word* rows, index_t stride, index_t depth,
                const Word* panels, float* tile) const;
  void make_weights(const Work& work, const Meeting& meeting) const;
  void make_p(const Work& work, const Meeting& meeting) const;
  void add_to_d_bias(const Work& work, const Meeting& meeting) const;
  void add_to_dq(const Work& work, const Meeting& meeting) const;
  void finish(const Work& work) const;
  template <class Result>
  void write_dq(const Work& work, const MatrixView<Result>& dq) const;

  const kernels::KernelTable<float>& kernels_;
  index_t n_, m_, d_, e_, nr_;
  bool makes_dq_;
  Mask mask_;
  index_t r_, c_, rho_;
  index_t query_stride_, d_o_stride_, sum_stride_, tile_stride_;

  WorkerMemory workers_;
  struct {
    Slot<Word> queries, d_o;            // [r][d], [r][dv]
    Slot<Word> keys, values, key_rows;  // panels [d][c], [dv][c], [c][d]
    Slot<float> f, q;                   // [rho][c]
    Slot<float> sums;                   // [r][d]
    Slot<float> lse;                    // [r], where one of them is -inf
    Slot<float> delta;                  // [rho], refined
  } worker_;
};

}  // namespace ioattn::schedules
