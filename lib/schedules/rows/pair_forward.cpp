#include "schedules/rows/pair_forward.hpp"

#include <algorithm>
#include <limits>

#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/memory/words.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/query_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/softmax/online_softmax.hpp"
#include "schedules/softmax/score_bias.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

PairForward::PairForward(const LayerShape& shape, const Blocks& blocks,
                         const kernels::KernelTable<float>& kernels, const Workers& workers,
                         WorkspaceLayout* layout)
    : kernels_(kernels),
      n_(shape.n),
      m_(shape.m),
      d_(shape.d),
      e_(shape.dv),
      nr_(kernels.tile.cols),
      mask_(shape.mask),
      r_(rows_per_block(shape, blocks, workers)),
      c_(std::min(blocks.c, m_)),
      rho_(std::min(blocks.rho, r_)),
      query_stride_(padded_stride(words_of<Word>(d_), nr_)),
      sum_stride_(padded_stride(e_, nr_)),
      tile_stride_(padded_stride(c_, nr_)),
      pair_stride_(padded_stride(words_of<Word>(c_), nr_)) {
  worker_.queries = workers_.add<Word>(r_ * query_stride_);
  worker_.keys = workers_.add<Word>(round_up(c_, nr_) * words_of<Word>(d_));
  worker_.values = workers_.add<Word>(words_of<Word>(c_) * round_up(e_, nr_));
  worker_.tile = workers_.add<float>(rho_ * tile_stride_);
  worker_.pairs = workers_.add<Word>(rho_ * pair_stride_);
  worker_.sums = workers_.add<float>(r_ * sum_stride_);
  worker_.row_max = workers_.add<float>(r_);
  worker_.row_sum = workers_.add<float>(r_);
  worker_.rescale = workers_.add<float>(rho_);
  workers_.add_to(layout, workers.count);
}

void PairForward::run_block(const Trace& trace, const ForwardOperands<bf16>& operands,
                            index_t block, int worker, void* workspace) const {
  void* local = workers_.of(worker, workspace);
  const Range rows(block * r_, n_, r_);
  trace.read(rows_of(Operand::S, rows, d_));
  const Interval seen = mask_.of_any(interval_of(rows), m_);
  const Queries queries = load_queries(operands.queries, rows, local);
  const Work work = {trace, operands, local, rows, seen, queries};
  start(work);
  for (Range keys = blocks_within(seen, c_); keys; keys.next()) stream_keys(work, keys);
  finish(work);
}

PairForward::Queries PairForward::load_queries(const MatrixView<const bf16>& queries,
                                               const Range& rows, void* local) const {
  const bf16* first = queries.at(rows.begin, 0);
  if (are_words<Word>(first, queries.stride, d_) && begin_lines(first, queries.stride))
    return {reinterpret_cast<const Word*>(first), words_of<Word>(queries.stride)};
  Word* copy = worker_.queries.in(local);
  load_terms(kernels_, first, queries.stride, rows.size(), d_, 1.f, copy, query_stride_);
  return {copy, query_stride_};
}

void PairForward::start(const Work& work) const {
  const Range& rows = work.rows;
  work.trace.create(rows_of(Operand::O, rows, e_));
  work.trace.create(rows_of(Operand::row_max, rows, 1));
  work.trace.create(rows_of(Operand::row_sum, rows, 1));
  begin_softmax(kernels_, worker_.row_max.in(work.local), worker_.row_sum.in(work.local),
                rows.size());
  if (mask_.hides()) {
    fill_words(kernels_, worker_.sums.in(work.local), rows.size() * sum_stride_, 0.f);
  }
}

void PairForward::stream_keys(const Work& work, const Range& keys) const {
  const ForwardOperands<bf16>& in = work.operands;
  work.trace.read(rows_of(Operand::A2, keys, d_));
  work.trace.read(rows_of(Operand::h, keys, e_));
  const KeyPanels packed = panels_of(work, keys);
  if (packed.are_packed) {
    load_word_panels(kernels_, in.keys.at(packed.first, 0), in.keys.stride, 1, packed.count, d_,
                     worker_.keys.in(work.local));
    load_values(work, packed);
  }
  for (Range strip(work.rows.size(), rho_); strip; strip.next()) {
    const Interval queries = {work.rows.begin + strip.begin, work.rows.begin + strip.end};
    const Interval seen = intersect(mask_.of_any(queries, m_), interval_of(keys));
    if (seen.is_empty()) continue;
    add_keys(work, strip, Range(seen.begin, seen.end, seen.size()), packed);
  }
  work.trace.remove(rows_of(Operand::A2, keys, d_));
  work.trace.remove(rows_of(Operand::h, keys, e_));
}

PairForward::KeyPanels PairForward::panels_of(const Work& work, const Range& keys) const {
  const PairPanels panels(keys, c_, nr_);
  const bool are_few = kernels_.pairs_of_bf16->few_product != nullptr &&
                       work.rows.size() <= kernels::PairKernels::few_rows &&
                       work.operands.bias.data == nullptr;
  const Interval all = {panels.first, panels.first + panels.count};
  return {panels, !are_few || !is_full(mask_, interval_of(work.rows), all)};
}

void PairForward::load_values(const Work& work, const PairPanels& packed) const {
  if (e_ == 0) return;
  const MatrixView<const bf16>& values = work.operands.values;
  load_word_panels(kernels_, values.at(packed.first, 0), 1, values.stride, e_, packed.count,
                   worker_.values.in(work.local));
}

void PairForward::add_keys(const Work& work, const Range& strip, const Range& seen,
                           const KeyPanels& packed) const {
  const index_t first = work.rows.begin + strip.begin;
  const Range queries(first, first + strip.size(), strip.size());
  const Block tile = part_of(Operand::scores, queries, seen);
  const Block paired = part_of(Operand::p_pairs, queries, seen);
  const Block factors = rows_of(Operand::rescale, queries, 1);
  const Range computed = packed.around(seen);
  if (work.operands.bias.data != nullptr) {
    const index_t skipped = seen.begin - computed.begin;
    load_bias_rows(kernels_, work.trace, work.operands.bias, queries, seen,
                   round_up(computed.size(), nr_) - skipped, worker_.tile.in(work.local) + skipped,
                   tile_stride_);
  }
  work.trace.create(tile);
  work.trace.create(factors);
  work.trace.create(paired);
  const bool rescales = make_weights(work, strip, queries, computed, packed);
  add_values(work, strip, queries, computed, packed, rescales);
  work.trace.remove(paired);
  work.trace.remove(factors);
  work.trace.remove(tile);
}

// The online softmax of the scores; whether sums are to be rescaled.
bool PairForward::make_weights(const Work& work, const Range& strip, const Range& queries,
                               const Range& computed, const KeyPanels& packed) const {
  const kernels::PairKernels& pairs = *kernels_.pairs_of_bf16;
  float* row_max = worker_.row_max.in(work.local) + strip.begin;
  float* row_sum = worker_.row_sum.in(work.local) + strip.begin;
  Word* rounded = worker_.pairs.in(work.local);
  const bool late = work.operands.scales_late();
  const float scale = late ? work.operands.scale : 1;
  const kernels::Product<float, Word> scores = scores_of(work, strip, computed, packed);
  const bool full = is_full(mask_, interval_of(queries), interval_of(computed));
  const bool are_made = !packed.are_packed;
  if (are_made) make_few_scores(work, scores, computed);
  if (pairs.weights != nullptr && late && full) {
    const bool have_seen = row_max[0] > -std::numeric_limits<float>::infinity();
    if (!have_seen && make_first_weights(scores, are_made, scale, row_max, row_sum, work))
      return true;
    if (have_seen && weigh(scores, are_made, {scale, row_max, row_sum, rounded, pair_stride_}))
      return false;
  }
  if (!are_made) multiply(kernels_, scores);
  if (!full) {
    hide(kernels_, mask_, queries, computed, -std::numeric_limits<float>::infinity(), scores.c.data,
         tile_stride_);
  }
  pairs.softmax_rows({scores.c.data, tile_stride_, computed.size(), strip.size()}, scale, row_max,
                     row_sum, worker_.rescale.in(work.local), rounded, pair_stride_, 0);
  return true;
}

// Values are fetched meanwhile.
void PairForward::make_few_scores(const Work& work, kernels::Product<float, Word> scores,
                                  const Range& computed) const {
  const MatrixView<const bf16>& keys = work.operands.keys;
  scores.ahead = rows_ahead(work.operands.values, computed);
  kernels_.pairs_of_bf16->few_product(scores, {keys.at(computed.begin, 0), keys.stride, 1, d_});
}

// Whether maxima stay.
bool PairForward::weigh(const kernels::Product<float, Word>& scores, bool are_made,
                        const kernels::PairWeights& weights) const {
  const kernels::PairKernels& pairs = *kernels_.pairs_of_bf16;
  if (!are_made) return pairs.weights(scores, weights);
  return pairs.few_weights({scores.c.data, scores.c.row, scores.cols, scores.rows}, weights);
}

// Of queries that have seen no key. Weights refer to what is well above the largest score of a
// panel of keys, so that few of the others rise above it by too much, and powers of two lose
// nothing. Of a query with such a score they refer to the largest of all: each by itself, lest its
// bits depend on the queries beside it.
bool PairForward::make_first_weights(const kernels::Product<float, Word>& scores, bool are_made,
                                     float scale, float* row_max, float* row_sum,
                                     const Work& work) const {
  const kernels::PairKernels& pairs = *kernels_.pairs_of_bf16;
  constexpr float least = -std::numeric_limits<float>::infinity();
  constexpr float margin = 16;  // weights are less by 2^23, and may reach 2^8
  const index_t rows = scores.rows;
  constexpr index_t least_panels = 8, most_rows = kernels::PairKernels::most_rows_weighed;
  if (rho_ > most_rows || scores.cols < least_panels * nr_) return false;
  if (scores.depth > kernels::PairKernels::most_pairs_weighed) return false;
  if (std::any_of(row_max, row_max + rows, [](float max) { return max != least; })) return false;
  Word* const rounded = worker_.pairs.in(work.local);
  float* const rescale = worker_.rescale.in(work.local);
  kernels::Product<float, Word> panel = scores, others = scores;
  panel.cols = nr_;
  others.cols -= nr_;
  others.b.data += others.b.panel;
  others.c.data += others.c.panel;
  if (!are_made) multiply(kernels_, panel);
  pairs.softmax_rows({panel.c.data, panel.c.row, nr_, rows}, scale, row_max, row_sum, rescale,
                     rounded, pair_stride_, margin);
  float panel_max[most_rows];
  std::copy_n(row_max, rows, panel_max);
  Word* const beside = rounded + words_of<Word>(nr_);
  if (weigh(others, are_made, {scale, row_max, row_sum, beside, pair_stride_})) return true;
  if (!are_made) multiply(kernels_, others);
  pairs.softmax_rows({others.c.data, others.c.row, others.cols, rows}, scale, row_max, row_sum,
                     rescale, beside, pair_stride_, 0);
  for (index_t i = 0; i < rows; ++i) {
    if (row_max[i] == panel_max[i]) continue;
    row_max[i] = least;  // of the sum nothing is left then
    pairs.softmax_rows({scores.c.data + i * scores.c.row, scores.c.row, scores.cols, 1}, scale,
                       row_max + i, row_sum + i, rescale + i, rounded + i * pair_stride_,
                       pair_stride_, 0);
  }
  return true;
}

// tile[query][key] = Q K^T, scaled unless that waits
kernels::Product<float, kernels::bf16x2> PairForward::scores_of(const Work& work,
                                                                const Range& strip,
                                                                const Range& computed,
                                                                const PairPanels& packed) const {
  const ForwardOperands<bf16>& in = work.operands;
  kernels::Product<float, Word> p;
  p.rows = strip.size();
  p.cols = computed.size();
  p.depth = words_of<Word>(d_);
  p.a = {work.queries.rows + strip.begin * work.queries.stride, work.queries.stride, 1};
  p.b = {worker_.keys.in(work.local) + (computed.begin - packed.first) * p.depth, p.depth * nr_,
         nr_};
  p.c = {worker_.tile.in(work.local), nr_, tile_stride_};
  p.accumulate = in.bias.data != nullptr;
  p.padded = true;
  if (!in.scales_late()) p.scale = in.scale;
  return p;
}

// O = rescale O + f V
void PairForward::add_values(const Work& work, const Range& strip, const Range& queries,
                             const Range& computed, const KeyPanels& packed, bool rescales) const {
  kernels::Product<float, Word> p;
  p.rows = strip.size();
  p.cols = e_;
  p.depth = words_of<Word>(computed.size());
  p.a = {worker_.pairs.in(work.local), pair_stride_, 1};
  p.c = {worker_.sums.in(work.local) + strip.begin * sum_stride_, nr_, sum_stride_};
  p.accumulate = mask_.hides() || computed.begin > 0;
  p.row_scale = p.accumulate && rescales ? worker_.rescale.in(work.local) : nullptr;
  p.padded = true;
  Word* panels =
      worker_.values.in(work.local) + words_of<Word>(computed.begin - packed.first) * nr_;
  p.b = {panels, words_of<Word>(packed.count) * nr_, nr_};
  if (e_ == 0) return;
  const MatrixView<const bf16>& values = work.operands.values;
  kernels::RowsAhead next_values;
  if (strip.begin == 0 && work.rows.size() <= most_rows_fetching) {
    const ForwardOperands<bf16>& in = work.operands;
    const Range next(computed.end, work.seen.end, c_);
    next_values = rows_ahead(values, next, in.next_values, c_);
    p.ahead = rows_ahead(in.keys, next, in.next_keys, c_);
    p.ahead.then = &next_values;
  }
  if (!packed.are_packed) {
    kernels_.pairs_of_bf16->few_product(
        p, {values.at(computed.begin, 0), 1, values.stride, computed.size()});
    return;
  }
  const MatrixView<const bf16> stored = {values.at(computed.begin, 0), computed.size(), e_,
                                         values.stride};
  if (masked_product(kernels_, p, mask_, queries, computed, panels, stored)) {
    load_values(work, packed);  // other strips may see what was taken out
  }
}

// Divides by the sums and writes O, rounded, and LSE.
void PairForward::finish(const Work& work) const {
  const Range& rows = work.rows;
  const float* sums = worker_.sums.in(work.local);
  const float* row_max = worker_.row_max.in(work.local);
  const float* row_sum = worker_.row_sum.in(work.local);
  float* lse = work.operands.lse;
  work.trace.remove(rows_of(Operand::S, rows, d_));
  const MatrixView<bf16>& o = work.operands.result;
  for (Range some(rows.size(), InverseSums<float>::most_rows); some; some.next()) {
    const index_t first = rows.begin + some.begin;
    if (e_ > 0) {
      const InverseSums<float> inverse(kernels_, row_sum + some.begin, some.size());
      store_rows(kernels_, sums + some.begin * sum_stride_, sum_stride_, some.size(), e_,
                 inverse.factors(), false, o.row(first), o.stride, work.trace.counted(Operand::O));
    }
    for (index_t i = some.begin; lse != nullptr && i < some.end; ++i)
      write_lse(kernels_, row_max + i, row_sum + i, lse + rows.begin + i);
  }
  // LSE takes the place of the running sum.
  work.trace.remove(rows_of(Operand::row_max, rows, 1));
  if (lse != nullptr) work.trace.write(rows_of(Operand::row_sum, rows, 1));
  work.trace.remove(rows_of(Operand::row_sum, rows, 1));
  work.trace.write_rounded_and_remove(rows_of(Operand::O, rows, e_));
}

}  // namespace ioattn::schedules
