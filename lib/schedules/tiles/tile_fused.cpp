#include "schedules/tiles/tile_fused.hpp"

#include <algorithm>

#include "base/tile_steps.hpp"
#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/query_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/query_blocks.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/softmax/refined_delta.hpp"
#include "schedules/tiles/tile_fused_tile.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

constexpr index_t line_words = 64 / sizeof(kernels::bf16x2);

// Whether workers add to the same rows of dQ.
bool share_rows(KeyPassKind kind, const Workers& workers) {
  return kind.queries && !workers.take_whole_problems();
}

// Workers that share rows wait for each other, less so where each takes several blocks. No sum
// depends on how many shares a block has, but refined deltas on whether it has all of few keys.
index_t keys_of_worker(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                       const Workers& workers) {
  constexpr index_t blocks_per_worker = 2;
  const index_t c = keys_of_block(shape, blocks);
  const bool is_fixed = blocks.share == 0 || c <= blocks.share || shape.m <= few_keys;
  if (is_fixed || !share_rows(kind, workers)) return c;
  const index_t count = ceil_div(blocks_per_worker * workers.count, workers.problems);
  return std::clamp(round_down(shape.m / count, blocks.share), blocks.share, c);
}

}  // namespace

template <class S, class W>
TileFused<S, W>::TileFused(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                           index_t nr, const Workers& workers, WorkspaceLayout* layout,
                           index_t heads, KeySums key_sums)
    : n_(shape.n),
      m_(shape.m),
      d_(shape.d),
      e_(shape.dv),
      kind_(kind),
      c_(keys_of_worker(shape, blocks, kind, workers)),
      share_(blocks.share > 0 ? blocks.share : c_),
      rho_(std::min(blocks.rho, shape.n)),
      w_(std::clamp(blocks.w, index_t(1), std::max({shape.d, shape.dv, index_t(1)}))),
      nr_(nr),
      mask_(shape.mask),
      seen_by_(shape.mask.transposed()),
      rounds_(key_sums == KeySums::rounded),
      transposes_(are_pairs<W> && rounds_ && w_ <= c_ && heads * n_ > rho_),
      tile_stride_(padded_stride(c_, nr)),
      row_stride_(padded_stride(words_of<W>(w_), nr)),
      d_stride_(padded_stride(d_, nr)),
      e_stride_(padded_stride(e_, nr)),
      term_stride_(padded_stride(words_of<W>(rho_), line_words)),
      panel_words_(std::max({round_up(c_, nr) * words_of<W>(w_),
                             words_of<W>(std::max(c_, rho_)) * round_up(w_, nr),
                             transposes_ ? term_stride_ * w_ : 0})),
      parked_(!are_pairs<W> && is_parked(blocks, kind)),
      ahead_(!are_pairs<W> && !parked_ && columns_come_ahead(kind, c_, rho_, w_)),
      by_steps_(ahead_ && values_come_by_steps(kind, c_, rho_, w_, e_)),
      at_once_(are_pairs<W> && may_be_made_at_once(kind, w_, d_, e_)),
      packed_(are_pairs<W> && blocks.packed) {
  const index_t slot_words = std::max(rho_ * row_stride_, panel_words_);
  const index_t q_words = rho_ * tile_stride_;
  if (ahead_) slots_ = int(std::clamp<index_t>(q_words / 2 / slot_words, 2, most_slots));
  const index_t ahead = ahead_ ? panel_words_ + slots_ * slot_words : 0;
  const index_t slots_of_q = (q_words - panel_words_) / slot_words;
  lends_q_ = ahead_ || (!are_pairs<W> && kind.makes_p() && !parked_ && slots_of_q > 0);
  if (lends_q_ && !ahead_) slots_ = int(std::min<index_t>(slots_of_q, most_slots));
  worker_.f = workers_.add<T>(rho_ * tile_stride_);
  worker_.q = workers_.add<T>(kind.makes_p() ? std::max(rho_ * tile_stride_, ahead) : 0);
  worker_.pairs = workers_.add<W>(are_pairs<W> ? words_of<W>(rho_) * tile_stride_ : 0);
  const index_t rows_held = by_steps_ ? copied_steps : at_once_ ? 2 : 1;
  const index_t panels_held = by_steps_ ? 1 + packed_steps : at_once_ && !packed_ ? 2 : 1;
  worker_.rows = workers_.add<W>(rows_held * rho_ * row_stride_);
  worker_.panels = workers_.add<W>(panels_held * panel_words_);
  const auto add_packed = [&](bool is_read, index_t cols) {
    return workers_.add<W>(packed_ && is_read ? ceil_div(cols, w_) * panel_words_ : 0);
  };
  worker_.key_panels = add_packed(true, d_);
  worker_.value_panels = add_packed(kind.makes_p(), e_);
  worker_.key_rows = add_packed(kind.queries, d_);
  worker_.lse = workers_.add<T>(rho_);
  worker_.delta = workers_.add<T>(are_pairs<W> && kind.makes_p() ? rho_ : 0);
  const auto add_sums = [&](bool are_made, index_t cols, index_t stride) {
    const index_t transposed = transposes_ ? (cols + nr) * tile_stride_ : 0;
    return workers_.add<T>(rounds_ && are_made ? std::max(c_ * stride, transposed) : 0);
  };
  worker_.d_keys = add_sums(kind.of_keys(), d_, d_stride_);
  worker_.d_values = add_sums(kind.of_values(), e_, e_stride_);
  workers_.add_to(layout, workers.count);
  gates_ = QueryGates(share_rows(kind, workers), workers.problems, heads, n_, rho_, layout);
}

template <class S, class W>
void TileFused<S, W>::Run::place_sums() {
  if (pass.rounds_) {
    const auto rounded = [this](const Slot<T>& sums, index_t cols,
                                index_t stride) -> MatrixView<T> {
      if (transposes_sums()) return {sums.in(memory), cols, keys.size(), pass.tile_stride_};
      return {sums.in(memory), keys.size(), cols, stride};
    };
    d_keys = rounded(pass.worker_.d_keys, pass.d_, pass.d_stride_);
    d_values = rounded(pass.worker_.d_values, pass.e_, pass.e_stride_);
    return;
  }
  const auto place = [this](const MatrixView<T>& all, MatrixView<T>* rows) {
    if (all.data == nullptr) return;
    *rows = {all.row(keys.begin), keys.size(), all.cols, all.stride};
  };
  place(operands.d_keys, &d_keys);
  place(operands.d_values, &d_values);
}

// The first queries that see a key of the block need not see them all.
template <class S, class W>
void TileFused<S, W>::Run::clear_sums(Operand name, const MatrixView<T>& sums) const {
  if (!transposes_sums()) {
    write_zeros(kernels, trace, name, sums, Range(sums.rows, sums.rows), pass.w_);
    return;
  }
  for (index_t k = 0; k < sums.rows; ++k) fill_words(kernels, sums.row(k), sums.cols, T(0));
  for (Range row(sums.cols, 1); row && trace.is_observed(); row.next()) {
    for (Range k(sums.rows, pass.w_); k; k.next()) {
      trace.create(part_of(name, row, k));
      trace.write_and_remove(part_of(name, row, k));
    }
  }
}

template <class S, class W>
void TileFused<S, W>::Run::round_sums(Operand name, const MatrixView<T>& sums,
                                      const MatrixView<S>& rounded) const {
  if (transposes_sums()) {
    round_transposed(name, sums, rounded);
  } else {
    store_rows(kernels, sums.data, sums.stride, sums.rows, sums.cols, T(1), operands.accumulate,
               rounded.row(keys.begin), rounded.stride, trace.counted(name));
  }
  for (Range row(keys.size(), 1); row && trace.is_observed(); row.next()) {
    for (Range k(rounded.cols, pass.w_); k; k.next()) {
      const Block part = part_of(Operand::part, row, k);
      trace.read(part_of(name, row, k));
      if (operands.accumulate) trace.read_rounded(part);
      trace.write_rounded_and_remove(part_of(name, row, k));
      if (operands.accumulate) trace.remove(part);
    }
  }
}

// Through a block that stays in L1.
template <class S, class W>
void TileFused<S, W>::Run::round_transposed(Operand name, const MatrixView<T>& sums,
                                            const MatrixView<S>& rounded) const {
  constexpr index_t rows = 16, cols = 256;
  alignas(64) T block[rows * cols];
  for (Range row(keys.size(), rows); row; row.next()) {
    for (Range k(sums.rows, cols); k; k.next()) {
      kernels.transpose(sums.at(k.begin, row.begin), sums.stride, k.size(), row.size(), false,
                        block, cols);
      store_rows(kernels, block, cols, row.size(), k.size(), T(1), operands.accumulate,
                 rounded.at(keys.begin + row.begin, k.begin), rounded.stride, trace.counted(name));
    }
  }
}

template <class S, class W>
W* TileFused<S, W>::Run::columns_in(const Slot<W>& panels, const Range& k) const {
  return panels.in(memory) + k.begin / pass.w_ * pass.panel_words_;
}

template <class S, class W>
void TileFused<S, W>::Run::pack_rows(const MatrixView<const S>& from, const Range& some,
                                     const Range& k, W* to) const {
  load_word_panels(kernels, from.at(some.begin, k.begin), from.stride, 1, some.size(), k.size(),
                   to);
}

template <class S, class W>
void TileFused<S, W>::Run::pack_columns(const MatrixView<const S>& from, const Range& some,
                                        const Range& k, W* to) const {
  load_word_panels(kernels, from.at(some.begin, k.begin), 1, from.stride, k.size(), some.size(),
                   to);
}

template <class S, class W>
void TileFused<S, W>::Run::pack_terms(const MatrixView<const S>& from, const Range& some,
                                      const Range& k, W* to) const {
  if constexpr (are_pairs<W>) {
    if (transposes_sums()) {
      kernels.pairs_of_bf16->transpose(from.at(some.begin, k.begin), from.stride, some.size(),
                                       k.size(), to, pass.term_stride_);
      return;
    }
  }
  pack_columns(from, some, k, to);
}

template <class S, class W>
void TileFused<S, W>::Run::pack_keys() const {
  const auto pack = [&](const MatrixView<const S>& from, const Block& columns, const Range& k,
                        Operand name, const Slot<W>& panels) {
    const Block packed = part_of(name, keys, k);
    trace.create(packed);
    pack_rows(from, keys, k, columns_in(panels, k));
    trace.write_rounded_and_remove(packed);
    trace.remove(columns);
  };
  for (Range k(pass.d_, pass.w_); k; k.next()) {
    const Block columns = part_of(Operand::A2, keys, k);
    trace.read(columns);
    if (pass.kind_.queries) {
      const Block rows = part_of(Operand::A2_rows, keys, k);
      trace.create(rows);
      pack_columns(operands.keys, keys, k, columns_in(pass.worker_.key_rows, k));
      trace.write_rounded_and_remove(rows);
    }
    pack(operands.keys, columns, k, Operand::A2_panels, pass.worker_.key_panels);
  }
  if (!pass.kind_.makes_p()) return;
  for (Range k(pass.e_, pass.w_); k; k.next()) {
    const Block columns = part_of(Operand::h, keys, k);
    trace.read(columns);
    pack(operands.values, columns, k, Operand::h_panels, pass.worker_.value_panels);
  }
}

template <class S, class W>
void TileFused<S, W>::Run::stream_queries() {
  const bool of_keys = pass.kind_.of_keys(), of_values = pass.kind_.of_values();
  const Interval seeing = pass.seen_by_.of_any(interval_of(keys), pass.n_);
  const bool accumulates = operands.accumulate && !pass.rounds_;
  place_sums();
  if (pass.mask_.hides() && !accumulates) {
    if (of_keys) clear_sums(operands.d_keys_name, d_keys);
    if (of_values) clear_sums(Operand::W, d_values);
  }
  if (pass.packed_ && !seeing.is_empty()) pack_keys();
  bool begun = accumulates || pass.mask_.hides();
  const QueryBlocks blocks(seeing, pass.rho_, pass.mask_);
  for (index_t head = 0; head < operands.heads; ++head) {
    for (index_t i = 0; i < blocks.count(); ++i) {
      Tile(*this, head, blocks.at(i), blocks.at(i + 1), begun).add();
      begun = true;
    }
  }
  if (!pass.rounds_) return;
  if (of_keys) round_sums(operands.d_keys_name, d_keys, operands.rounded_d_keys);
  if (of_values) round_sums(Operand::W, d_values, operands.rounded_d_values);
}

template <class S, class W>
void TileFused<S, W>::prepare(const kernels::KernelTable<T>& kernels, const Trace& trace,
                              const KeyPassOperands<S>& operands, index_t problem,
                              void* workspace) const {
  if (!kind_.queries) return;
  for (index_t head = 0; head < operands.heads; ++head) {
    gates_.open(problem, head, mask_, m_, c_, workspace);
    if (!mask_.hides() || operands.accumulate_queries) continue;
    // The first block of keys that a row of dQ sees need not see it all.
    MatrixView<T> sums = operands.d_queries;
    if (sums.data != nullptr) sums.data += head * operands.d_queries_step;
    write_zeros(kernels, trace, operands.d_queries_name, sums, Range(n_, n_), w_);
  }
}

template <class S, class W>
void TileFused<S, W>::run_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                                const KeyPassOperands<S>& operands, index_t problem, index_t block,
                                int worker, void* workspace) const {
  void* memory = workers_.of(worker, workspace);
  Run run = {*this,     kernels, trace,
             operands,  problem, block,
             workspace, memory,  Range(block * c_, m_, c_)};
  run.stream_queries();
}

template class TileFused<float>;
template class TileFused<double>;
template class TileFused<bf16>;
template class TileFused<bf16, kernels::bf16x2>;
template class TileFused<f16>;

}  // namespace ioattn::schedules
