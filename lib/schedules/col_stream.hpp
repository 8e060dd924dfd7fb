#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "schedules/query_gates.hpp"
#include "schedules/task.hpp"
#include "schedules/workspace.hpp"

namespace ioattn::schedules {

// What a pass over the keys reads and writes. What it does not use for the gradients that are
// wanted may be null. P: of the products S, h and G, which of SDPA are operands.
template <class S, class P = S>
struct KeyPassOperands {
  using T = Compute<S>;
  MatrixView<const S> keys;     // A2 [m, d]
  MatrixView<const P> values;   // h-form: h [m, dv]
  MatrixView<const S> a3;       // g-form: [m, d]
  MatrixView<const P> queries;  // S [n, d], readable nr elements beyond each row or copied
  index_t rest_of_queries = 0;  // of a kind in parts: S is the sum of both, so far apart
  MatrixView<const S> d_o;      // h-form: [n, dv]
  MatrixView<const P> g;        // g-form: G [n, d], readable like S
  const T* lse = nullptr;       // [n]
  const T* delta = nullptr;     // [n]
  MatrixView<T> d_keys;         // dA2 [m, d]; sum: dA2 + dA3
  Operand d_keys_name = Operand::dA2;
  MatrixView<T> d_queries;  // U [n, d], with a kind that makes it; SDPA: dQ
  Operand d_queries_name = Operand::U;
  MatrixView<T> d_values;           // W = f^T dO [m, dv]; g-form: dA3 [m, d]
  bool accumulate = false;          // gradients are added to what memory holds
  bool accumulate_queries = false;  // so is U
  // Of a pass that rounds, instead of d_keys and d_values.
  MatrixView<S> rounded_d_keys, rounded_d_values;

  // Where queries may be copied: S is scale times what memory holds, of several heads that share
  // the keys, whose rows are so many elements apart.
  T scale = 1;
  index_t heads = 1;
  index_t queries_step = 0, d_o_step = 0, lse_step = 0, delta_step = 0;
  index_t d_queries_step = 0;
  MatrixView<const S> bias;  // of the scores [n, m]; null data: none
  index_t bias_step = 0;
};

// Whether sums over the queries are made in memory of the caller's, or in that of the worker, to be
// rounded to 16 bits when they are complete.
enum class KeySums : std::uint8_t { in_place, rounded };

// Whether rows of queries can be read as whole panels of lanes, or may have to be copied for that.
enum class QueryRows : std::uint8_t { padded, copied };

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
