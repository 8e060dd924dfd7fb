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

// The same gradients as ColStream, in the h-form, for rows so long that few of them fit: a tile of
// f and one of q, rho queries by c keys, stay while w columns at a time of everything else stream
// past. dO streams once for both q and dV = f^T dO; then p takes the place of f. Sums over queries
// and keys are as long as the tiles, whatever d. Threads own blocks of keys; to rows of dQ they add
// in the order of these, share by share of keys, whatever c. Of pairs of terms f is rounded for dV,
// and p, made of f in f32, for dK and dQ; keys and values may be packed once per block, into
// memory, instead of once per tile. Of numbers f may be parked: once dV has its terms it goes to
// memory, and one tile stays instead of two, for which dO streams once more. Cost:
// theory::tile_fused.
template <class S, class W = Compute<S>>
class TileFused {
 public:
  using T = Compute<S>;

  // As of ColStream.
  TileFused(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind, index_t nr,
            const Workers& workers, WorkspaceLayout* layout, index_t heads = 1,
            KeySums key_sums = KeySums::in_place);

  index_t block_count() const { return ceil_div(m_, c_); }
  bool has_turns() const { return gates_.exist(); }
  void prepare(const kernels::KernelTable<T>& kernels, const Trace& trace,
               const KeyPassOperands<S>& operands, index_t problem, void* workspace) const;
  void begin(const kernels::KernelTable<T>&, int, void*) const {}
  void run_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                 const KeyPassOperands<S>& operands, index_t problem, index_t block, int worker,
                 void* workspace) const;

 private:
  struct Run;   // one block of keys
  struct Tile;  // one block of queries of it
  static constexpr int most_slots = 3;

  index_t n_, m_, d_, e_;
  KeyPassKind kind_;
  index_t c_, share_, rho_, w_, nr_;
  Mask mask_, seen_by_;  // which keys a query sees, which queries see a key
  bool rounds_;
  bool transposes_;  // sums that are rounded, if a kernel can
  index_t tile_stride_, row_stride_, d_stride_, e_stride_;
  index_t term_stride_;  // of rows of terms over queries
  index_t panel_words_;
  bool parked_;            // f waits in memory for q, in whose place p is made
  bool ahead_, by_steps_;  // base/tile_steps.hpp
  bool at_once_;           // whether a kernel may make f and p at once
  bool lends_q_;           // columns lie in q's memory while there is no q
  bool packed_;            // panels of a block of keys are made once
  int slots_ = 1;          // of columns there

  WorkerMemory workers_;
  QueryGates gates_;
  struct {
    Slot<T> f, q;    // [rho][c]; p takes the place of f, paired along c if it is, or of q, if f
                     // is parked. While there is no q yet, or no more, columns
    Slot<W> pairs;   // [rho][c], f and then p, paired along rho
    Slot<W> rows;    // [rho][w], of S and dO, or as many as there are by steps
                     // or at once
    Slot<W> panels;  // [w][c], [c][w] or [rho][w], or three of them by steps, or two
                     // at once
    // Of all columns, if the block of keys is packed: slow memory.
    Slot<W> key_panels, value_panels, key_rows;
    Slot<T> lse;    // [rho], where one of them is -inf
    Slot<T> delta;  // [rho], of pairs, refined
    // [c][d] and [c][dv], or transposed; rounded in the end: slow memory
    Slot<T> d_keys, d_values;
  } worker_;
};

}  // namespace ioattn::schedules
