#include "schedules/keys/col_stream.hpp"

#include <algorithm>

#include "schedules/keys/col_stream_run.hpp"
#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/pass_types.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/key_pass.hpp"
#include "schedules/sharing/shared_blocks.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

template <class S, class P>
ColStream<S, P>::ColStream(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                           index_t nr, const Workers& workers, WorkspaceLayout* layout,
                           QueryRows query_rows, index_t heads, KeySums key_sums)
    : n_(shape.n),
      m_(shape.m),
      d_(shape.d),
      v_(blocks.form == Form::g ? shape.d : shape.dv),
      g_form_(blocks.form == Form::g),
      shared_(g_form_ && shape.tie != Tie::none),
      kind_(kind),
      c_(kind.queries
             ? std::min(blocks.c, shape.m)
             : shared_block(shape.m, blocks.c, nr, workers, shape.mask.transposed(), shape.n)),
      rho_(std::min(blocks.rho, shape.n)),
      nr_(nr),
      threads_(workers.count),
      mask_(shape.mask),
      seen_by_(shape.mask.transposed()),
      copies_queries_(query_rows == QueryRows::copied),
      rounds_(key_sums == KeySums::rounded),
      tile_stride_(padded_stride(c_, nr)),
      d_o_stride_(padded_stride(v_, nr)),
      s_stride_(padded_stride(d_, nr)) {
  const index_t lanes = round_up(c_, nr);
  worker_.keys = workers_.add<T>(lanes * d_);
  const bool packs_values = kind.makes_p() && !shared_;
  worker_.values = workers_.add<T>(packs_values ? lanes * v_ : 0);
  worker_.key_rows = workers_.add<T>(kind.queries ? c_ * round_up(d_, nr) : 0);
  worker_.d_o = workers_.add<T>(g_form_ ? 0 : rho_ * d_o_stride_);
  worker_.s = workers_.add<T>(copies_queries_ ? rho_ * s_stride_ : 0);
  worker_.tile = workers_.add<T>(rho_ * tile_stride_);
  worker_.lse = workers_.add<T>(rho_);
  worker_.delta = workers_.add<T>(kind.makes_p() ? rho_ : 0);
  worker_.d_keys = workers_.add<T>(rounds_ && kind.of_keys() ? c_ * s_stride_ : 0);
  worker_.d_values = workers_.add<T>(rounds_ && kind.of_values() ? c_ * d_o_stride_ : 0);
  workers_.add_to(layout, workers.count);
  const bool is_shared = kind.queries && !workers.take_whole_problems();
  gates_ = QueryGates(is_shared, workers.problems, heads, n_, rho_, layout);
}

template <class S, class P>
void ColStream<S, P>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                          const Operands& operands, void* workspace) const {
  trace.phase("col_stream");
  run_key_pass(*this, threads_, kernels, trace, operands, workspace);
}

template <class S, class P>
void ColStream<S, P>::prepare(const kernels::KernelTable<T>& kernels, const Trace& trace,
                              const Operands& operands, index_t problem, void* workspace) const {
  if (!kind_.queries) return;
  for (index_t head = 0; head < operands.heads; ++head) {
    gates_.open(problem, head, mask_, m_, c_, workspace);
    if (!mask_.hides() || operands.accumulate_queries) continue;
    // The first block of keys that a row of U sees need not see it all.
    MatrixView<T> sums = operands.d_queries;
    sums.data += head * operands.d_queries_step;
    write_zeros(kernels, trace, operands.d_queries_name, sums, Range(n_, n_), d_);
  }
}

template <class S, class P>
void ColStream<S, P>::begin(const kernels::KernelTable<T>& kernels, int worker,
                            void* workspace) const {
  void* memory = workers_.of(worker, workspace);
  clear_padded_rows(kernels, worker_.d_o, v_, memory);
  clear_padded_rows(kernels, worker_.s, d_, memory);
  clear_padded_rows(kernels, worker_.key_rows, d_, memory);
}

template <class S, class P>
void ColStream<S, P>::run_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                                const Operands& operands, index_t problem, index_t block,
                                int worker, void* workspace) const {
  void* memory = workers_.of(worker, workspace);
  const Run run = {*this,     kernels, trace,
                   operands,  problem, block,
                   workspace, memory,  Range(block * c_, m_, c_)};
  run.stream_queries();
}

#define IOATTN_INSTANTIATE(S, P) template class ColStream<S, P>
IOATTN_FOR_PASS_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
