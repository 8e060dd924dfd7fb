#include "schedules/rows/pair_backward.hpp"

#include <algorithm>

#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/memory/words.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/query_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/softmax/refined_delta.hpp"
#include "schedules/softmax/score_bias.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

PairBackward::PairBackward(const LayerShape& shape, const Blocks& blocks, bool makes_dq,
                           const kernels::KernelTable<float>& kernels, const Workers& workers,
                           WorkspaceLayout* layout)
    : kernels_(kernels),
      n_(shape.n),
      m_(shape.m),
      d_(shape.d),
      e_(shape.dv),
      nr_(kernels.tile.cols),
      makes_dq_(makes_dq),
      mask_(shape.mask),
      r_(rows_per_block(shape, blocks, workers)),
      c_(std::min(blocks.c, m_)),
      rho_(std::min(blocks.rho, r_)),
      query_stride_(padded_stride(words_of<Word>(d_), nr_)),
      d_o_stride_(padded_stride(words_of<Word>(e_), nr_)),
      sum_stride_(padded_stride(d_, nr_)),
      tile_stride_(padded_stride(c_, nr_)) {
  worker_.queries = workers_.add<Word>(r_ * query_stride_);
  worker_.d_o = workers_.add<Word>(r_ * d_o_stride_);
  worker_.keys = workers_.add<Word>(round_up(c_, nr_) * words_of<Word>(d_));
  worker_.values = workers_.add<Word>(round_up(c_, nr_) * words_of<Word>(e_));
  worker_.key_rows = workers_.add<Word>(makes_dq ? words_of<Word>(c_) * round_up(d_, nr_) : 0);
  worker_.f = workers_.add<float>(rho_ * tile_stride_);
  worker_.q = workers_.add<float>(rho_ * tile_stride_);
  worker_.sums = workers_.add<float>(makes_dq ? r_ * sum_stride_ : 0);
  worker_.lse = workers_.add<float>(r_);
  worker_.delta = workers_.add<float>(rho_);
  workers_.add_to(layout, workers.count);
}

void PairBackward::run_block(const Trace& trace, const BackwardTask<bf16>& task,
                             const Operands& operands, index_t block, int worker,
                             void* workspace) const {
  const Work work = {trace, task, operands, workers_.of(worker, workspace),
                     Range(block * r_, n_, r_)};
  start(work);
  const Interval seen = mask_.of_any(interval_of(work.rows), m_);
  for (Range keys = blocks_within(seen, c_); keys; keys.next()) stream_keys(work, keys);
  finish(work);
}

void PairBackward::start(const Work& work) const {
  const Range& rows = work.rows;
  const auto load = [&](const MatrixView<const bf16>& from, index_t cols, const Slot<Word>& to,
                        index_t stride) {
    load_terms(kernels_, from.at(rows.begin, 0), from.stride, rows.size(), cols, 1.f,
               to.in(work.local), stride);
  };
  work.trace.read(rows_of(Operand::S, rows, d_));
  load(work.operands.queries, d_, worker_.queries, query_stride_);
  work.trace.read(rows_of(Operand::dO, rows, e_));
  load(work.task.d_o, e_, worker_.d_o, d_o_stride_);
  work.trace.read(rows_of(Operand::delta, rows, 1));
  work.trace.read(rows_of(Operand::LSE, rows, 1));
  for (Range row(rows.begin, rows.end, 1); makes_dq_ && row && work.trace.is_observed(); row.next())
    work.trace.create(rows_of(Operand::U, row, d_));
  if (!mask_.hides()) return;
  // Rows that see no key get no term.
  if (makes_dq_) fill_words(kernels_, worker_.sums.in(work.local), rows.size() * sum_stride_, 0.f);
  if (work.makes_d_bias() && !work.operands.add_to_d_bias)
    clear_d_bias(kernels_, work.trace, rows, work.operands.d_bias);
}

void PairBackward::stream_keys(const Work& work, const Range& keys) const {
  const MatrixView<const bf16>&all_keys = work.task.in.a2, &all_values = work.operands.values;
  const Block read[] = {rows_of(Operand::A2, keys, d_), rows_of(Operand::h, keys, e_)};
  const Block second = rows_of(Operand::A2_rows, keys, d_);
  for (const Block& block : read) work.trace.read(block);
  if (makes_dq_) work.trace.create(second);
  const PairPanels packed(keys, c_, nr_);
  load_word_panels(kernels_, all_keys.at(packed.first, 0), all_keys.stride, 1, packed.count, d_,
                   worker_.keys.in(work.local));
  load_word_panels(kernels_, all_values.at(packed.first, 0), all_values.stride, 1, packed.count, e_,
                   worker_.values.in(work.local));
  if (makes_dq_) pack_key_rows(work, packed);
  for (Range strip(work.rows.size(), rho_); strip; strip.next()) {
    const Interval queries = {work.rows.begin + strip.begin, work.rows.begin + strip.end};
    const Interval seen = intersect(mask_.of_any(queries, m_), interval_of(keys));
    if (seen.is_empty()) continue;
    add_keys(work, meeting_of(work, strip, Range(seen.begin, seen.end, seen.size()), packed));
  }
  if (makes_dq_) work.trace.remove(second);
  for (const Block& block_of : read) work.trace.remove(block_of);
}

void PairBackward::pack_key_rows(const Work& work, const PairPanels& packed) const {
  const MatrixView<const bf16>& keys = work.task.in.a2;
  load_word_panels(kernels_, keys.at(packed.first, 0), 1, keys.stride, d_, packed.count,
                   worker_.key_rows.in(work.local));
}

auto PairBackward::meeting_of(const Work& work, const Range& strip, const Range& seen,
                              const PairPanels& packed) const -> Meeting {
  const index_t query = work.rows.begin + strip.begin;
  const Range queries(query, query + strip.size(), strip.size());
  const Range computed = packed.around(seen);
  const bool full = is_full(mask_, interval_of(queries), interval_of(computed));
  return {strip, queries, seen, computed, packed, full};
}

void PairBackward::add_keys(const Work& work, const Meeting& meeting) const {
  const auto& [strip, queries, seen, computed, packed, full] = meeting;
  const Block weights = part_of(Operand::p, queries, seen);
  const Block products = part_of(Operand::q, queries, seen);
  const Block paired = part_of(Operand::p_pairs, queries, seen);
  if (work.has_bias()) {
    const index_t skipped = seen.begin - computed.begin;
    load_bias_rows(kernels_, work.trace, work.operands.bias, queries, seen,
                   round_up(computed.size(), nr_) - skipped, worker_.f.in(work.local) + skipped,
                   tile_stride_);
  }
  work.trace.create(weights);
  make_weights(work, meeting);
  work.trace.create(products);
  make_p(work, meeting);
  work.trace.remove(weights);
  if (makes_dq_) work.trace.create(paired);
  if (work.makes_d_bias()) add_to_d_bias(work, meeting);
  work.trace.remove(products);
  if (!makes_dq_) return;
  add_to_dq(work, meeting);
  work.trace.remove(paired);
}

// tile[query][key] = the products of rows of the strip and keys in panels.
auto PairBackward::score(const Meeting& meeting, const Word* rows, index_t stride, index_t depth,
                         const Word* panels, float* tile) const -> Product {
  Product p;
  p.rows = meeting.strip.size();
  p.cols = meeting.computed.size();
  p.depth = depth;
  p.a = {rows + meeting.strip.begin * stride, stride, 1};
  p.b = {panels + (meeting.computed.begin - meeting.packed.first) * depth, depth * nr_, nr_};
  p.c = {tile, nr_, tile_stride_};
  p.padded = true;
  return p;
}

// f = exp(scale Q K^T + bias - LSE)
void PairBackward::make_weights(const Work& work, const Meeting& meeting) const {
  const float* lse =
      shifts_of(work.task.lse + work.rows.begin, work.rows.size(), worker_.lse.in(work.local));
  Product p = score(meeting, worker_.queries.in(work.local), query_stride_, words_of<Word>(d_),
                    worker_.keys.in(work.local), worker_.f.in(work.local));
  p.scale = work.operands.scale;
  p.accumulate = work.has_bias();
  p.epilogue = kernels::Epilogue::exp;
  p.row = lse + meeting.strip.begin;
  multiply(kernels_, p);
}

// p = f o (dO V^T - delta)
void PairBackward::make_p(const Work& work, const Meeting& meeting) const {
  float *f = worker_.f.in(work.local), *q = worker_.q.in(work.local);
  multiply(kernels_, score(meeting, worker_.d_o.in(work.local), d_o_stride_, words_of<Word>(e_),
                           worker_.values.in(work.local), q));
  kernels::PairGradient p;
  p.rows = meeting.strip.size();
  p.cols = meeting.computed.size();
  p.f = f;
  p.q = q;
  p.stride = p.by_cols_stride = tile_stride_;
  p.delta = refined_deltas(
      kernels_, mask_, m_,
      {meeting.queries, meeting.computed, f, q, p.stride, work.task.lse + meeting.queries.begin},
      work.operands.delta + meeting.queries.begin, worker_.delta.in(work.local));
  p.scale = work.operands.scale;
  if (makes_dq_) p.by_cols = reinterpret_cast<Word*>(f);
  if (work.makes_d_bias()) p.in_f32 = q;
  kernels_.pairs_of_bf16->gradient(p);
  if (meeting.full) return;
  if (makes_dq_)
    hide_in_col_pairs(mask_, meeting.queries, meeting.computed, p.by_cols, tile_stride_);
  if (work.makes_d_bias())
    hide(kernels_, mask_, meeting.queries, meeting.computed, 0.f, q, tile_stride_);
}

void PairBackward::add_to_d_bias(const Work& work, const Meeting& meeting) const {
  const bool add = mask_.hides() || work.operands.add_to_d_bias;
  const index_t skipped = meeting.seen.begin - meeting.computed.begin;
  store_d_bias_rows(kernels_, work.trace, worker_.q.in(work.local) + skipped, tile_stride_,
                    meeting.queries, meeting.seen, add, work.operands.d_bias);
}

// dQ += p K, p scaled
void PairBackward::add_to_dq(const Work& work, const Meeting& meeting) const {
  const auto& [strip, queries, seen, computed, packed, full] = meeting;
  Product p;
  p.rows = strip.size();
  p.cols = d_;
  p.depth = words_of<Word>(computed.size());
  p.a = {reinterpret_cast<const Word*>(worker_.f.in(work.local)), tile_stride_, 1};
  p.c = {worker_.sums.in(work.local) + strip.begin * sum_stride_, nr_, sum_stride_};
  p.accumulate = mask_.hides() || computed.begin > 0;
  p.padded = true;
  Word* panels =
      worker_.key_rows.in(work.local) + words_of<Word>(computed.begin - packed.first) * nr_;
  p.b = {panels, words_of<Word>(packed.count) * nr_, nr_};
  const MatrixView<const bf16>& keys = work.task.in.a2;
  const MatrixView<const bf16> stored = {keys.at(computed.begin, 0), computed.size(), d_,
                                         keys.stride};
  if (masked_product(kernels_, p, mask_, queries, computed, panels, stored)) {
    pack_key_rows(work, packed);  // other strips may see what was taken out
  }
}

void PairBackward::finish(const Work& work) const {
  const Range& rows = work.rows;
  work.trace.remove(rows_of(Operand::S, rows, d_));
  work.trace.remove(rows_of(Operand::dO, rows, e_));
  work.trace.remove(rows_of(Operand::delta, rows, 1));
  work.trace.remove(rows_of(Operand::LSE, rows, 1));
  if (!makes_dq_) return;
  const bool rounds = work.operands.d_queries.data == nullptr, adds = work.operands.accumulate;
  if (rounds) {
    write_dq(work, work.operands.rounded_d_queries);
  } else {
    write_dq(work, work.operands.d_queries);
  }
  for (Range row(rows.begin, rows.end, 1); row && work.trace.is_observed(); row.next()) {
    const Block sums = rows_of(Operand::U, row, d_), dq = rows_of(Operand::dQ, row, d_);
    if (adds && rounds) work.trace.read_rounded(dq);
    if (adds && !rounds) work.trace.read(dq);
    if (rounds) {
      work.trace.write_rounded_and_remove(sums);
    } else {
      work.trace.write_and_remove(sums);
    }
    if (adds) work.trace.remove(dq);
  }
}

template <class Result>
void PairBackward::write_dq(const Work& work, const MatrixView<Result>& dq) const {
  store_rows(kernels_, worker_.sums.in(work.local), sum_stride_, work.rows.size(), d_, 1.f,
             work.operands.accumulate, dq.row(work.rows.begin), dq.stride,
             work.trace.counted(Operand::dQ));
}

}  // namespace ioattn::schedules
