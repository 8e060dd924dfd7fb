#pragma once

#include "base/matrix_view.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/pass_operands.hpp"
#include "schedules/products/pair_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// row_stream's forward pass of SDPA, of pairs of terms: rows of queries and their sums stay, keys
// and values stream past them in panels, and a strip of rho queries at a time has its scores, their
// softmax and its part of the sums. Score tiles have rows of keys: rounded, they are rows of pairs
// as they stand. Threads own blocks of queries. Cost: theory::half_forward_cost.
class PairForward {
 public:
  PairForward(const LayerShape& shape, const Blocks& blocks,
              const kernels::KernelTable<float>& kernels, const Workers& workers,
              WorkspaceLayout* layout);

  index_t block_count() const { return ceil_div(n_, r_); }
  void begin(int, void*) const {}
  void run_block(const Trace& trace, const ForwardOperands<bf16>& operands, index_t block,
                 int worker, void* workspace) const;

 private:
  using Word = kernels::bf16x2;

  // Rows of queries, where they lie or in a copy.
  struct Queries {
    const Word* rows;
    index_t stride;
  };
  // A block of queries in the hands of a worker.
  struct Work {
    const Trace& trace;
    const ForwardOperands<bf16>& operands;
    void* local;
    Range rows;
    Interval seen;  // keys that any of them sees
    Queries queries;
  };
  // A block of keys and values; not packed where few queries read them, all of it.
  struct KeyPanels : PairPanels {
    bool are_packed;
  };
  Queries load_queries(const MatrixView<const bf16>& queries, const Range& rows, void* local) const;
  void start(const Work& work) const;
  void stream_keys(const Work& work, const Range& keys) const;
  KeyPanels panels_of(const Work& work, const Range& keys) const;
  void load_values(const Work& work, const PairPanels& packed) const;
  void add_keys(const Work& work, const Range& strip, const Range& seen,
                const KeyPanels& packed) const;
  bool make_weights(const Work& work, const Range& strip, const Range& queries,
                    const Range& computed, const KeyPanels& packed) const;
  void make_few_scores(const Work& work, kernels::Product<float, Word> scores,
                       const Range& computed) const;
  bool weigh(const kernels::Product<float, Word>& scores, bool are_made,
             const kernels::PairWeights& weights) const;
  bool make_first_weights(const kernels::Product<float, Word>& scores, bool are_made, float scale,
                          float* row_max, float* row_sum, const Work& work) const;
  kernels::Product<float, Word> scores_of(const Work& work, const Range& strip,
                                          const Range& computed, const PairPanels& packed) const;
  void add_values(const Work& work, const Range& strip, const Range& queries, const Range& computed,
                  const KeyPanels& packed, bool rescales) const;
  void finish(const Work& work) const;

  const kernels::KernelTable<float>& kernels_;
  index_t n_, m_, d_, e_, nr_;
  Mask mask_;
  index_t r_, c_, rho_;
  index_t query_stride_, sum_stride_, tile_stride_, pair_stride_;

  WorkerMemory workers_;
  struct {
    Slot<Word> queries;       // [r][d], copied
    Slot<Word> keys, values;  // panels [d][c], [c][dv]
    Slot<float> tile;         // [rho][c]
    Slot<Word> pairs;         // the same, rounded
    Slot<float> sums;         // [r][dv]
    Slot<float> row_max, row_sum, rescale;
  } worker_;
};

}  // namespace ioattn::schedules
