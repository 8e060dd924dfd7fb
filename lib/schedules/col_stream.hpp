#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "schedules/task.hpp"
#include "schedules/workspace.hpp"

namespace ioattn::schedules {

// What a pass over the keys reads and writes. What it does not use for the gradients that are
// wanted may be null.
template <class T>
struct KeyPassOperands {
  MatrixView<const T> keys;     // A2 [m, d]
  MatrixView<const T> values;   // h [m, dv]; g-form: A3 [m, d]
  MatrixView<const T> queries;  // S [n, d], readable nr elements beyond each row or copied
  MatrixView<const T> d_o;      // dO [n, dv]; g-form: G [n, d], readable like S
  const T* lse = nullptr;       // [n]
  const T* delta = nullptr;     // [n]
  MatrixView<T> d_keys;         // dA2 [m, d]; sum: dA2 + dA3
  Operand d_keys_name = Operand::dA2;
  MatrixView<T> d_values;   // W = f^T dO [m, dv]; g-form: dA3 [m, d]
  bool accumulate = false;  // gradients are added to what memory holds

  // Where queries are copied: S is scale times what memory holds, of several heads that share the
  // keys, whose rows are so many elements apart.
  T scale = 1;
  index_t heads = 1;
  index_t queries_step = 0, d_o_step = 0, lse_step = 0, delta_step = 0;
};

// Whether rows of queries can be read as whole panels of lanes, or have to be copied for that.
enum class QueryRows : std::uint8_t { padded, copied };

// c keys, their values and their gradients stay, queries stream in blocks of rho rows: dA2 = p^T S
// and W = f^T dO. Score tiles are query-major with keys as SIMD lanes, as the queries are then read
// in one layout by both products and the keys are packed once. Threads own keys, and every sum over
// queries is taken in ascending blocks of rho, so that no result depends on their number. Cost:
// theory::col_stream.
template <class T>
class ColStream {
 public:
  ColStream() = default;
  ColStream(const LayerShape& shape, const Blocks& blocks, KeyGradients wanted, index_t nr,
            const Workers& workers, WorkspaceLayout* layout,
            QueryRows query_rows = QueryRows::padded);

  // Phase "col_stream".
  void run(const kernels::KernelTable<T>& kernels, const Trace& trace,
           const KeyPassOperands<T>& operands, void* workspace) const;

  // Block of keys by block of keys: what passes over several heads are made of. A worker calls
  // `begin` before its first block.
  index_t block_count() const { return ceil_div(m_, c_); }
  void begin(int worker, void* workspace) const;
  void run_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                 const KeyPassOperands<T>& operands, index_t block, int worker,
                 void* workspace) const;

 private:
  struct Run;  // one block of keys

  void* local(int worker, void* workspace) const {
    return workers_.in(workspace) + worker * worker_layout_.bytes();
  }

  index_t n_ = 0, m_ = 0, d_ = 0, v_ = 0;  // v: width of a value
  bool g_form_ = false, shared_ = false;   // shared: values are the keys
  KeyGradients wanted_ = KeyGradients::both;
  index_t c_ = 0, rho_ = 0, nr_ = 0;
  int threads_ = 1;
  Mask seen_by_;  // which queries see a key
  bool copies_queries_ = false;
  index_t tile_stride_ = 0, d_o_stride_ = 0, s_stride_ = 0;

  WorkspaceLayout worker_layout_;
  Slot<std::byte> workers_;
  struct {
    Slot<T> keys, values;  // panels [c][d], [c][v]
    Slot<T> d_o;           // [rho][v], h-form
    Slot<T> s;             // [rho][d], copied
    Slot<T> tile;          // [rho][c], f and then p
  } worker_;
};

}  // namespace ioattn::schedules
