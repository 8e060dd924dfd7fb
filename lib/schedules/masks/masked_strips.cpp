#include "schedules/masks/masked_strips.hpp"

#include <algorithm>

#include "schedules/masks/masked_tile.hpp"
#include "schedules/range.hpp"
#include "schedules/softmax/refined_delta.hpp"

namespace ioattn::schedules {

index_t MaskedStrips::rows_of_strip(index_t tile_rows) {
  constexpr index_t side = 32;      // of what PairKernels::gradients makes at once, not of groups
  constexpr index_t per_strip = 4;  // or more strips than there are in a tile's triangle
  return round_down(tile_rows / per_strip, side);
}

void MaskedStrips::make(index_t strip_rows) const {
  for (Range strip(rows_.begin, rows_.end, strip_rows); strip; strip.next()) make_strip(strip);
}

void MaskedStrips::make_strip(const Range& strip) const {
  const index_t nr = kernels_.tile.cols;
  Interval made = within(mask_.of_any(interval_of(strip), keys_.end), keys_);
  if (made.is_empty()) return;
  made.begin = round_down(made.begin, nr);
  Interval common = within(mask_.of_every(interval_of(strip), keys_.end), keys_);
  common.begin = round_up(common.begin, nr);
  if (common.end < keys_.size()) common.end = round_down(common.end, nr);
  if (common.is_empty() || has_few_keys(strip)) common = {made.begin, made.begin};
  make_by_steps(strip, {made.begin, common.begin});
  make_at_once(strip, common);
  make_by_steps(strip, {common.end, made.end});
  hide_beside(strip, made);
}

Range MaskedStrips::keys_of(const Interval& some) const {
  return Range(keys_.begin + some.begin, keys_.begin + some.end, some.size());
}

// Their deltas need f and q.
bool MaskedStrips::has_few_keys(const Range& strip) const {
  for (index_t i = strip.begin; i < strip.end; ++i)
    if (mask_.of_row(i, m_).size() <= few_keys) return true;
  return false;
}

auto MaskedStrips::part_of(const Range& strip, const Interval& some) const -> Part {
  const index_t row = strip.begin - rows_.begin;
  Part part = all_;
  for (Product* p : {&part.scores, &part.q}) {
    p->rows = strip.size();
    p->cols = some.size();
    p->a.data += row * p->a.row;
    p->b.data += some.begin / kernels_.tile.cols * p->b.panel;
  }
  kernels::PairGradients& made = part.made;
  made.lse += row;
  made.delta += row;
  made.f_by_rows += row / 2 * made.stride + some.begin;
  made.p_by_rows += row / 2 * made.stride + some.begin;
  made.p_by_cols += row * made.stride + some.begin / 2;
  return part;
}

void MaskedStrips::make_at_once(const Range& strip, const Interval& some) const {
  if (some.is_empty()) return;
  const Part part = part_of(strip, some);
  kernels_.pairs_of_bf16->gradients(part.scores, part.q, part.made);
}

void MaskedStrips::make_by_steps(const Range& strip, const Interval& some) const {
  if (some.is_empty()) return;
  const kernels::PairKernels& kernels = *kernels_.pairs_of_bf16;
  const index_t stride = all_.made.stride;
  float* const f = scratch_.rows;
  float* const q = f + strip.step * stride;
  Part part = part_of(strip, some);
  part.scores.c = {f, kernels_.tile.cols, stride};
  part.scores.padded = true;
  part.scores.scale = part.made.scale;
  part.scores.epilogue = kernels::Epilogue::exp;
  part.scores.row = part.made.lse;
  kernels.product(part.scores);
  part.q.c = {q, kernels_.tile.cols, stride};
  part.q.padded = true;
  kernels.product(part.q);
  kernels.round(f, stride, strip.size(), some.size(), part.made.f_by_rows, stride);

  kernels::PairGradient p;
  p.rows = strip.size();
  p.cols = some.size();
  p.f = f;
  p.q = q;
  p.stride = p.by_rows_stride = p.by_cols_stride = stride;
  p.delta = refined_deltas(kernels_, mask_, m_, {strip, keys_of(some), f, q, stride, part.made.lse},
                           part.made.delta, scratch_.delta);
  p.scale = part.made.scale;
  p.by_rows = part.made.p_by_rows;
  p.by_cols = part.made.p_by_cols;
  kernels.gradient(p);
}

void MaskedStrips::hide_beside(const Range& strip, const Interval& made) const {
  // Groups of rows, and groups of keys, take no more than this beside what was made.
  const index_t first = std::max(made.begin - rows_of_pair_group, index_t(0));
  const Interval some = {round_down(first, kernels_.tile.cols),
                         std::min(made.end + rows_of_pair_group, keys_.size())};
  const kernels::PairGradients to = part_of(strip, some).made;
  const Range beside = keys_of(some);
  hide_in_row_pairs(mask_, strip, beside, to.f_by_rows, to.stride);
  hide_in_row_pairs(mask_, strip, beside, to.p_by_rows, to.stride);
  hide_in_col_pairs(mask_, strip, beside, to.p_by_cols, to.stride);
}

}  // namespace ioattn::schedules
