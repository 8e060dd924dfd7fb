#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/pass_operands.hpp"
#include "schedules/products/query_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/softmax/online_softmax.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// Rows of S and of Z = f A3 (or of O) stay; keys and values stream once per row block. fused: X and
// Y stream once more per row block. stored: S is found in memory, Z or O = f h is left there.
// Threads own row blocks. Values, and the rows of the result while they are summed up, lie where
// the caller has them if kernels can take them there, otherwise in copies: these would be as many
// lines again, in a cache that is planned for the words alone.
template <class S, class P = S>
class ForwardPass {
 public:
  using T = Compute<S>;
  using Operands = ForwardOperands<S, P>;

  ForwardPass(const LayerShape& shape, const Blocks& blocks, const kernels::KernelTable<T>& kernels,
              const Workers& workers, WorkspaceLayout* layout,
              ValueRows value_rows = ValueRows::padded);
  void run(const Trace& trace, const Operands& operands, void* workspace) const;

  // Row block by row block: what passes over several heads are made of. A worker calls `begin`
  // before its first block.
  index_t block_count() const { return ceil_div(n_, r_); }
  void begin(int worker, void* workspace) const;
  void run_block(const Trace& trace, const Operands& operands, index_t block, int worker,
                 void* workspace) const;

 private:
  // Rows of Z or O while they are summed up.
  struct Sums {
    T* rows;
    index_t stride;
    T* row(index_t i) const { return rows + i * stride; }
  };
  // A row block in the hands of a worker.
  struct Work {
    const Trace& trace;
    const Operands& operands;
    void* local;
    Range rows;
    Interval seen;  // keys that any of them sees
    Sums sums;
  };
  // Rows of a streamed operand, as a pass reads them.
  struct Streamed {
    const T* rows = nullptr;
    index_t stride = 0;
    Streamed from(index_t row) const {
      return rows == nullptr ? *this : Streamed{rows + row * stride, stride};
    }
  };
  // `beside` the keys, which come from beyond L2 then, products with keys fetch values; sums over a
  // few queries the `next` keys. Null: nothing is fetched.
  struct Streams {
    Streamed key, value, beside;
    kernels::RowsAhead next;
    Streams from(index_t row) const {
      return {key.from(row), value.from(row), beside.from(row), next};
    }
  };

  Block accumulator(const Range& rows) const {
    return rows_of(h_form_ ? Operand::O : Operand::Z, rows, width_);
  }
  // Queries and keys that meet, and the first lane of the queries.
  struct Meeting {
    Range queries, keys;
    index_t lane;
  };

  // Whether sums are Z, of which O is made.
  bool makes_z() const { return !h_form_ && !stored_; }
  // Queries of one panel read keys once and values with every register tile, of which there are
  // few: a copy takes longer, however rows lie.
  bool is_panel(index_t queries) const { return queries <= nr_; }
  bool copies_values(const Operands& operands, index_t rows) const;
  bool sums_in_place(const Operands& operands) const;
  Sums sums_of(const Operands& operands, const Range& rows, void* local) const;

  void start(const Work& work) const;
  void stream_keys(const Work& work, const Range& keys) const;
  // Some rows of an operand; null where they have 16 bits. And a copy of any.
  template <class U>
  static Streamed where_they_lie(const MatrixView<const U>& all, const Range& some);
  template <class U>
  Streamed copied(const MatrixView<const U>& all, const Range& some, T* to, index_t stride) const;
  template <class BringValues>
  void add_block(const Work& work, const Range& keys, Streams streams,
                 const BringValues& bring_values) const;
  // Weights beside a product are made in vain where a maximum has to change, which is likely where
  // one of the strip before had to: some strips do without, and have the same bits.
  class Caution {
   public:
    bool allows() { return strips_ == 0 || --strips_ == 0; }
    void was_in_vain() { strips_ = 4; }

   private:
    index_t strips_ = 0;  // until the next attempt
  };
  template <class BringValues>
  void add_keys(const Work& work, const Range& sub, const Range& keys, const Streams& streams,
                const BringValues& bring_values, Caution* caution) const;
  // Of a tile [keys][queries], and what sums over earlier keys are multiplied by, unless it is 1.
  struct Weights {
    index_t stride;
    const T* rescale;
  };
  // Of the queries of a tile, and what their sums are to be multiplied by.
  struct Softmax {
    T *max, *sum, *rescale;
  };
  Weights make_weights(const Work& work, const Meeting& meeting, const kernels::Product<T>& scores,
                       Caution* caution) const;
  // Scores of few queries have rows as close as these.
  bool are_few(const kernels::Product<T>& scores) const { return scores.c.row != tile_stride_; }
  void update(const Softmax& softmax, const kernels::Product<T>& scores) const;
  void multiply_and_update(const Softmax& softmax, const kernels::Product<T>& scores) const;
  bool weigh(const Softmax& softmax, const kernels::Product<T>& scores, Caution* caution) const;
  void make_first_weights(const Softmax& softmax, const kernels::Product<T>& scores,
                          Caution* caution) const;
  void finish(const Work& work) const;
  void divide(const Work& work, const Range& some, const InverseSums<T>& inverse) const;
  void multiply_by_y(const Work& work) const;

  Blocks blocks_;
  const kernels::KernelTable<T>& kernels_;
  index_t n_, m_, d_, e_;
  Mask mask_;
  index_t nr_;
  int threads_;
  bool h_form_, tied_, stored_;
  ValueRows value_rows_;
  index_t width_;  // of the accumulated rows: dv in the h-form, else d
  index_t r_, c_;
  QueryLayout layout_;
  index_t d_stride_, sum_stride_, tile_stride_, o_stride_;

  WorkerMemory workers_;
  struct {
    Slot<T> a1, s;  // panels [lanes][d]
    Slot<T> sum;    // [r][width], Z or O
    Slot<T> key;    // [c][d]
    Slot<T> value;  // [c][width], unless they are never copied
    Slot<T> tile;   // [c][rho]
    Slot<T> row_max, row_sum, rescale;
    Slot<T> y;        // panels [w][d]
    Slot<T> copy, o;  // in 16 bits: of a block of X; O before it is rounded, [r][dv]
  } worker_;
};

}  // namespace ioattn::schedules
