#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/pass_operands.hpp"
#include "schedules/sharing/query_gates.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// c keys, their values and their gradients stay, queries stream in blocks of rho rows: dA2 = p^T S,
// W = f^T dO, and where it is wanted U += p A2. Score tiles are query-major with keys as SIMD
// lanes, as the queries are then read in one layout by both products and the keys are packed once.
// Threads own keys, and every sum over queries is taken in ascending blocks of rho; to rows of U
// they add in the order of the blocks of keys, whose c then is the plan's: no result depends on
// their number. Cost: theory::col_stream. Where S has 16 bits itself it is copied.
template <class S, class P = S>
class ColStream {
 public:
  using T = Compute<S>;
  using Operands = KeyPassOperands<S, P>;

  ColStream() = default;
  // The workers' problems are sets of keys; `heads` of queries see each.
  ColStream(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind, index_t nr,
            const Workers& workers, WorkspaceLayout* layout,
            QueryRows query_rows = QueryRows::padded, index_t heads = 1,
            KeySums key_sums = KeySums::in_place);

  // Phase "col_stream".
  void run(const kernels::KernelTable<T>& kernels, const Trace& trace, const Operands& operands,
           void* workspace) const;

  // Block of keys by block of keys: what passes over several sets of keys are made of. Where U is
  // made, `prepare` is called for each set, then a worker calls `begin` before its first block.
  // Blocks are taken in ascending order; of a set whose workers do not wait for each other, by one
  // worker.
  index_t block_count() const { return ceil_div(m_, c_); }
  bool has_turns() const { return gates_.exist(); }
  void prepare(const kernels::KernelTable<T>& kernels, const Trace& trace, const Operands& operands,
               index_t problem, void* workspace) const;
  void begin(const kernels::KernelTable<T>& kernels, int worker, void* workspace) const;
  void run_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                 const Operands& operands, index_t problem, index_t block, int worker,
                 void* workspace) const;

 private:
  struct Run;  // one block of keys

  index_t n_ = 0, m_ = 0, d_ = 0, v_ = 0;  // v: width of a value
  bool g_form_ = false, shared_ = false;   // shared: values are the keys
  KeyPassKind kind_ = KeyGradients::both;
  index_t c_ = 0, rho_ = 0, nr_ = 0;
  int threads_ = 1;
  Mask mask_, seen_by_;  // which keys a query sees, which queries see a key
  bool copies_queries_ = false, rounds_ = false;
  index_t tile_stride_ = 0, d_o_stride_ = 0, s_stride_ = 0;

  WorkerMemory workers_;
  QueryGates gates_;
  struct {
    Slot<T> keys, values;      // panels [c][d], [c][v]
    Slot<T> key_rows;          // [c][d], in panels
    Slot<T> d_o;               // [rho][v], h-form
    Slot<T> s;                 // [rho][d], copied
    Slot<T> tile;              // [rho][c], f and then p
    Slot<T> lse;               // [rho], where one of them is -inf
    Slot<T> delta;             // [rho], scaled
    Slot<T> d_keys, d_values;  // [c][d], [c][v], rounded
  } worker_;
};

}  // namespace ioattn::schedules
