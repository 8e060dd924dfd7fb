#pragma once

#include "schedules/memory/workspace.hpp"
#include "schedules/pass_operands.hpp"
#include "schedules/products/query_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/rows/stored_products.hpp"
#include "schedules/sharing/ordered_rows.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// What a backward pass over rows makes per row block and what it finds in memory. By default
// everything is made.
struct RowPassKind {
  enum class Values : std::uint8_t {
    g,  // q = G A3^T
    h,  // q = dO h^T
    q,  // read
  };
  Values values = Values::g;
  bool stored_s = false;
  bool stored_g = false;  // with Values::g
  bool stored_delta = false;
  bool stored_u = false;  // U is left in memory, dX is not made
  bool makes_u = true;    // else only the gradient of the bias is
  // S, A2 and U take part from this column on; the scores of the columns before it, if any, are
  // read and replaced by p.
  index_t first_col = 0;
};

template <class S>
QueryPassOperands<S, Compute<S>> stored_operands(const StoredProducts<S>& products,
                                                 const RowPassKind& kind, void* workspace);

// U = p A2 with p = f o (q - delta), f = exp(S A2^T - LSE): rows of S and U, and of G or dO if q is
// made, stay; keys and values stream once per row block. U_I is written, or goes into
// dX += A1_I^T U_I. Threads own row blocks.
template <class S, class P = S>
class RowPass {
 public:
  using T = Compute<S>;
  using Operands = QueryPassOperands<S, P>;

  RowPass(const BackwardTask<S>& task, const RowPassKind& kind, const Workers& workers,
          WorkspaceLayout* layout);
  void run(const Trace& trace, const Operands& operands, void* workspace) const;

  // Row block by row block, where U is stored, for any operands of the task's shape: what passes
  // over several heads are made of. A worker calls `begin` before its first block.
  index_t block_count() const { return ceil_div(n_, r_); }
  index_t block_rows() const { return r_; }
  void begin(int worker, void* workspace) const;
  void run_block(const Trace& trace, const BackwardTask<S>& task, const Operands& operands,
                 index_t block, int worker, void* workspace) const;

 private:
  using Values = RowPassKind::Values;
  // A row block in the hands of a worker.
  struct Work {
    const Trace& trace;
    const BackwardTask<S>& task;
    const Operands& operands;
    void* local;
    Range rows;
  };

  Block inner_rows(Operand operand, const Range& rows) const {
    return {operand, rows.begin, kind_.first_col, rows.size(), width_};
  }
  bool uses_d_o() const {
    return kind_.values == Values::h || (kind_.values == Values::g && !kind_.stored_g) ||
           !kind_.stored_delta;
  }
  // Rows of keys that a tile reads.
  struct StreamedKeys {
    MatrixView<const T> rows;
    bool are_far;  // not in any cache that is near
  };
  bool streams_values() const { return kind_.values != Values::q && !tied_; }

  // row_pass_rows.cpp: what stays per row block.
  void make_resident(const Work& work) const;
  void make_scores_side(const Work& work) const;
  void make_values_side(const Work& work) const;

  // row_pass_keys.cpp: what streams.
  void stream_keys(const Work& work, const Range& keys) const;
  MatrixView<const T> load_keys(const Work& work, const Range& keys) const;
  void load_values(const Work& work, const Range& keys) const;  // that have 16 bits
  void make_weights(const Work& work, const Range& streamed, const Range& keys,
                    const Range& queries, const Range& sub, const StreamedKeys& key,
                    const kernels::ScoreTile<T>& tile) const;
  void add_to_u(const Work& work, const Range& keys, const Range& sub, const StreamedKeys& key,
                const kernels::ScoreTile<T>& weights) const;
  void add_to_d_bias(const Work& work, const Range& queries, const Range& keys,
                     const kernels::ScoreTile<T>& weights) const;

  // row_pass.cpp
  void make_u(const Work& work) const;
  void write_u(const Work& work) const;
  template <class Result>
  void store_u(const Work& work, const MatrixView<Result>& result) const;
  void add_to_dx(const Work& work, index_t turn, OrderedRows* dx) const;
  void add_to_dx_tile(const Work& work, const Range& k, const Range& l) const;

  const BackwardTask<S>& task_;
  RowPassKind kind_;
  int threads_;
  const kernels::KernelTable<T>& kernels_;
  index_t n_, m_, d_, e_, nr_;
  index_t width_;  // of S, A2 and U: d - first_col
  Mask mask_;
  bool tied_;  // A2 serves as A3
  index_t r_, c_;
  QueryLayout layout_;
  index_t value_width_;                          // of h or A3
  index_t stride_, value_stride_, tile_stride_;  // of keys and U; of a score tile

  WorkerMemory workers_;
  struct {
    Slot<T> a1, s;   // panels [lanes][d], [lanes][width]
    Slot<T> d_o, g;  // panels [lanes][dv], [lanes][d]
    Slot<T> u;       // [r][width]
    Slot<T> key;     // [c][width]
    Slot<T> value;   // [c][value_width], of values in 16 bits
    Slot<T> tile;    // [c][rho], f and then p
    Slot<T> copy;    // of a block of X, Y or A1 in 16 bits
    Slot<T> lse, delta;
  } worker_;
};

}  // namespace ioattn::schedules
