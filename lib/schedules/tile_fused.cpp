#include "schedules/tile_fused.hpp"

#include <algorithm>

#include "schedules/masked_tile.hpp"
#include "schedules/row_stream.hpp"
#include "schedules/tile_fused_tile.hpp"

namespace ioattn::schedules {
template <class T>
TileFused<T>::TileFused(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind, index_t nr,
                        const Workers& workers, WorkspaceLayout* layout, index_t problems,
                        index_t heads)
    : n_(shape.n),
      m_(shape.m),
      d_(shape.d),
      e_(shape.dv),
      kind_(kind),
      c_(std::min(blocks.c, shape.m)),
      rho_(std::min(blocks.rho, shape.n)),
      w_(std::clamp(blocks.w, index_t(1), std::max({shape.d, shape.dv, index_t(1)}))),
      nr_(nr),
      mask_(shape.mask),
      seen_by_(shape.mask.transposed()),
      tile_stride_(row_stream::padded_stride<T>(c_, nr)),
      row_stride_(row_stream::padded_stride<T>(w_, nr)) {
  worker_.f = worker_layout_.add<T>(rho_ * tile_stride_);
  worker_.q = worker_layout_.add<T>(kind.makes_p() ? rho_ * tile_stride_ : 0);
  worker_.rows = worker_layout_.add<T>(rho_ * row_stride_);
  worker_.panels =
      worker_layout_.add<T>(std::max(round_up(c_, nr) * w_, std::max(c_, rho_) * round_up(w_, nr)));
  worker_.lse = worker_layout_.add<T>(rho_);
  const CheckedSize bytes = CheckedSize(worker_layout_.bytes()) * CheckedSize(workers.count);
  workers_ = layout->add<std::byte>(bytes.value());
  const bool is_shared = kind.queries && workers.per_head > 1;
  gates_ = QueryGates(is_shared, problems, heads, n_, rho_, layout);
}

template <class T>
void TileFused<T>::Run::stream_queries() const {
  const Interval seeing = pass.seen_by_.of_any(interval_of(keys), pass.n_);
  if (pass.mask_.hides() && !operands.accumulate) {
    // The first queries that see a key of the block need not see them all.
    if (pass.kind_.of_keys()) clear(operands.d_keys_name, operands.d_keys, keys);
    if (pass.kind_.of_values()) clear(Operand::W, operands.d_values, keys);
  }
  bool begun = operands.accumulate || pass.mask_.hides();
  for (index_t head = 0; head < operands.heads; ++head) {
    for (Range rows = blocks_within(seeing, pass.rho_); rows; rows.next()) {
      Tile(*this, head, rows, begun).add();
      begun = true;
    }
  }
}

template <class T>
void TileFused<T>::Run::clear(Operand name, const MatrixView<T>& sums, const Range& rows) const {
  for (Range row(rows.begin, rows.end, 1); row; row.next()) {
    for (Range k(sums.cols, pass.w_); k; k.next()) {
      trace.create(part_of(name, row, k));
      std::fill_n(sums.at(row.begin, k.begin), k.size(), T(0));
      trace.write_and_remove(part_of(name, row, k));
    }
  }
}

template <class T>
void TileFused<T>::prepare(const Trace& trace, const KeyPassOperands<T>& operands, index_t problem,
                           void* workspace) const {
  if (!kind_.queries) return;
  for (index_t head = 0; head < operands.heads; ++head) {
    gates_.open(problem, head, mask_, m_, c_, workspace);
    if (!mask_.hides() || operands.accumulate) continue;
    // The first block of keys that a row of dQ sees need not see it all.
    MatrixView<T> sums = operands.d_queries;
    if (sums.data != nullptr) sums.data += head * operands.d_queries_step;
    for (Range row(n_, 1); row; row.next()) {
      for (Range k(d_, w_); k; k.next()) {
        const Block zeros = part_of(operands.d_queries_name, row, k);
        trace.create(zeros);
        std::fill_n(sums.at(row.begin, k.begin), k.size(), T(0));
        trace.write_and_remove(zeros);
      }
    }
  }
}

template <class T>
void TileFused<T>::run_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                             const KeyPassOperands<T>& operands, index_t problem, index_t block,
                             int worker, void* workspace) const {
  void* memory = workers_.in(workspace) + worker * worker_layout_.bytes();
  Run{*this, kernels, trace, operands, problem, block, workspace, memory, Range(block * c_, m_, c_)}
      .stream_queries();
}

template class TileFused<float>;
template class TileFused<double>;

}  // namespace ioattn::schedules
