#pragma once

#include "base/matrix_view.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/words.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/pass_operands.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// The forward pass of SDPA for rows so long that few of them fit: a tile of scores, rho queries by
// c keys, and the maxima and sums of its queries stay while w columns at a time of everything else
// stream past; O is read and written once per tile: in 16 bits its sums, in memory of the worker,
// until the last one. Threads own blocks of queries. Of pairs of terms the weights are rounded for
// the sum of values, not for their own. Cost: theory::tile_fused_forward_pass.
template <class S, class W = Compute<S>>
class TileFusedForward {
 public:
  using T = Compute<S>;

  TileFusedForward(const LayerShape& shape, const Blocks& blocks,
                   const kernels::KernelTable<T>& kernels, const Workers& workers,
                   WorkspaceLayout* layout);

  index_t block_count() const { return ceil_div(n_, rho_); }
  void begin(int, void*) const {}
  void run_block(const Trace& trace, const ForwardOperands<S>& operands, index_t block, int worker,
                 void* workspace) const;

 private:
  // A block of queries in the hands of a worker.
  struct Work {
    const Trace& trace;
    const ForwardOperands<S>& operands;
    void* local;
    Range rows;
  };

  static constexpr Operand sums_name = is_half_storage<S> ? Operand::Z : Operand::O;
  // Of these queries: O, or what becomes O.
  MatrixView<T> sums_of(const Work& work) const;
  void make_scores(const Work& work, const Range& keys) const;
  void update_softmax(const Work& work, const Range& keys) const;
  // What the product with the values multiplies.
  const W* weights_of(const Work& work) const;
  void add_values(const Work& work, const Range& keys, bool is_last) const;
  void finish_rows(const Work& work, const Range& cols) const;
  void write_zero_rows(const Work& work) const;

  const kernels::KernelTable<T>& kernels_;
  index_t n_, m_, d_, e_, nr_;
  Mask mask_;
  index_t c_, rho_, w_;
  index_t tile_stride_, row_stride_, sum_stride_;

  WorkerMemory workers_;
  struct {
    Slot<T> tile;    // [c][rho]
    Slot<W> pairs;   // [c][rho], paired along c
    Slot<W> rows;    // [c][w] of the keys
    Slot<W> panels;  // [w][rho] of the queries or [c][w] of the values
    Slot<T> row_max, row_sum, rescale;
    Slot<T> sums;  // [rho][dv], of 16 bits: slow memory
  } worker_;
};

}  // namespace ioattn::schedules
