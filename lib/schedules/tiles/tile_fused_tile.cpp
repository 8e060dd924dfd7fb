#include "schedules/tiles/tile_fused_tile.hpp"

#include <algorithm>

#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/range.hpp"
#include "schedules/softmax/refined_delta.hpp"
#include "schedules/softmax/score_bias.hpp"

// What becomes of one pair of score tiles.
namespace ioattn::schedules {

template <class S, class W>
TileFused<S, W>::Tile::Tile(const Run& of, index_t query_head, const Range& queries_of,
                            const Range& next_queries, bool has_terms)
    : run(of),
      pass(of.pass),
      trace(of.trace),
      rows(queries_of),
      next_rows(next_queries),
      keys(of.keys),
      head(query_head),
      begun(has_terms),
      queries(of.operands.queries),
      rest(of.operands.queries),
      d_o(of.operands.d_o),
      bias(of.operands.bias),
      f(pass.worker_.f.in(of.memory)),
      q(pass.worker_.q.in(of.memory)),
      pairs(pass.worker_.pairs.in(of.memory)),
      copy(pass.worker_.rows.in(of.memory)),
      panels(pass.worker_.panels.in(of.memory)) {
  queries.data += queries.data != nullptr ? head * of.operands.queries_step : 0;
  if (has_rest()) rest.data = queries.data + of.operands.rest_of_queries;
  d_o.data += head * of.operands.d_o_step;
  if (has_bias()) bias.data += head * of.operands.bias_step;
}

template <class S, class W>
void TileFused<S, W>::Tile::add() const {
  const KeyPassKind& kind = pass.kind_;
  const Block tile = part_of(Operand::p, rows, keys);
  const Block weights = pass.parked_ ? part_of(Operand::f, rows, keys) : tile;
  if (has_bias()) {
    load_bias_rows(run.kernels, trace, bias, rows, keys, round_up(keys.size(), pass.nr_), f,
                   pass.tile_stride_);
  }
  trace.create(weights);
  const Block paired = part_of(Operand::p_pairs, rows, keys);
  if (are_made_at_once()) {
    make_weights_and_gradients();
  } else {
    make_weights();
    if (are_pairs<W>) trace.create(paired);
    if (pass.by_steps_) {
      make_gradients_by_steps();
    } else if (pass.parked_) {
      make_gradients_of_parked();
    } else {
      make_gradients();
    }
  }
  if (kind.of_keys()) add_to_keys();
  if (kind.queries) add_to_queries();
  if (are_pairs<W>) trace.remove(paired);
  trace.remove(tile);
}

template <class S, class W>
void TileFused<S, W>::Tile::make_weights() const {
  const Block lse = rows_of(Operand::LSE, rows, 1);
  trace.read(lse);
  Terms s[most_slots];
  const auto bring = [&](const Range& k, int slot) {
    trace.read(part_of(Operand::S, rows, k));
    s[slot] = terms_of(queries, rows, k, run.operands.scale, row_slot(slot));
  };
  stream(pass.d_, bring, [&](const Range& k, int slot) {
    kernels::Product<T, W> p = score(keys, k, s[slot], keys_as_lanes(k, panel_slot(0)), f);
    if (are_pairs<W>) p.scale = run.operands.scale;
    p.accumulate = p.accumulate || has_bias();
    if (has_rest()) {
      masked_scores(run.kernels, p, pass.mask_, rows, keys);
      const Terms terms = terms_of(rest, rows, k, T(1), row_slot(slot));
      p.a = {terms.data, terms.row, 1};
      p.accumulate = true;
    }
    if (k.end == pass.d_) {
      p.epilogue = kernels::Epilogue::exp;
      p.row = shift();
    }
    masked_scores(run.kernels, p, pass.mask_, rows, keys);
    trace.remove(part_of(key_name(), keys, k));
    trace.remove(part_of(Operand::S, rows, k));
  });
  if (!are_pairs<W> && pass.kind_.of_values()) hide_in(f);
  trace.remove(lse);
}

template <class S, class W>
void TileFused<S, W>::Tile::hide_in(T* tile) const {
  hide_weights(run.kernels, pass.mask_, rows, keys, tile, pass.tile_stride_);
}

template <class S, class W>
template <class Bring, class Use>
void TileFused<S, W>::Tile::stream(index_t cols, const Bring& bring, const Use& use) const {
  const auto after = [&](int slot) { return (slot + 1) % pass.slots_; };
  Range k(cols, pass.w_);
  int slot = 0;
  bring(k, slot);
  do {  // also where there are none
    Range next = k;
    next.next();
    if (next && pass.ahead_) bring(next, after(slot));
    use(k, slot);
    if (next && !pass.ahead_) bring(next, after(slot));
    k = next;
    slot = after(slot);
  } while (k);
}

template <class S, class W>
const Compute<S>* TileFused<S, W>::Tile::shift() const {
  const T* lse = run.operands.lse + head * run.operands.lse_step + rows.begin;
  return shifts_of(lse, rows.size(), pass.worker_.lse.in(run.memory));
}

template <class S, class W>
void TileFused<S, W>::Tile::make_gradients() const {
  const bool makes_p = pass.kind_.makes_p(), of_values = pass.kind_.of_values();
  if (makes_p) trace.create(part_of(Operand::q, rows, keys));
  if (are_pairs<W> && of_values) round_weights();
  stream_d_o(makes_p, of_values);
  if (!makes_p) return;
  make_p_of_q();
  trace.remove(part_of(Operand::q, rows, keys));
}

template <class S, class W>
void TileFused<S, W>::Tile::make_gradients_of_parked() const {
  if (pass.kind_.of_values()) stream_d_o(false, true);
  trace.write_and_remove(part_of(Operand::f, rows, keys));
  trace.create(part_of(Operand::p, rows, keys));
  stream_d_o(true, false);
  make_p_of_q();
}

template <class S, class W>
void TileFused<S, W>::Tile::stream_d_o(bool makes_q, bool of_values) const {
  Range k(pass.e_, pass.w_);
  do {
    const Block streamed = part_of(Operand::dO, rows, k);
    const Block second = part_of(Operand::dO_panels, rows, k);
    trace.read(streamed);
    if (makes_q) {
      const Terms terms = terms_of(d_o, rows, k, T(1), copy);
      masked_scores(run.kernels, score(keys, k, terms, values_as_lanes(keys, k, panels), q),
                    pass.mask_, rows, keys);
      trace.remove(part_of(value_name(), keys, k));
      if (of_values) trace.create(second);
    }
    if (of_values) {
      if (!are_pairs<W> && makes_q) {
        pack_copied_columns(copy, k, panels);
      } else {
        run.pack_terms(d_o, rows, k, panels);
      }
      add_to_key_sums(weights_by_queries(), d_o, keys, k, panels, run.d_values, Operand::W);
      if (makes_q) trace.remove(second);
    }
    trace.remove(streamed);
    k.next();
  } while (k);
}

template <class S, class W>
void TileFused<S, W>::Tile::make_p_of_q() const {
  const Block delta = rows_of(Operand::delta, rows, 1);
  trace.read(delta);
  if constexpr (are_pairs<W>) {
    make_pairs_of_p();
  } else {
    make_p();
  }
  trace.remove(delta);
}

template <class S, class W>
const Compute<S>* TileFused<S, W>::Tile::deltas() const {
  const T* delta = run.operands.delta + head * run.operands.delta_step + rows.begin;
  if constexpr (are_pairs<W>) {
    const T* lse = run.operands.lse + head * run.operands.lse_step + rows.begin;
    return refined_deltas(run.kernels, pass.mask_, pass.m_,
                          {rows, keys, f, q, pass.tile_stride_, lse, has_rest()}, delta,
                          pass.worker_.delta.in(run.memory));
  } else {
    return delta;
  }
}

template <class S, class W>
void TileFused<S, W>::Tile::make_p() const {
  const T* shift = deltas();
  // From the last row on: for parked rows that come back LRU drops the first rows of q.
  for (index_t i = rows.size() - 1; i >= 0; --i) {
    const T* weights = f + i * pass.tile_stride_;
    const T* products = q + i * pass.tile_stride_;
    T* const made = p() + i * pass.tile_stride_;
    const T shift_i = shift[i], scale = run.operands.scale;
    const Block parked = {Operand::f, rows.begin + i, keys.begin, 1, keys.size()};
    if (pass.parked_) trace.read(parked);
    tell_read(run.kernels, shift + i, 1);
    tell_read(run.kernels, products, keys.size());
    if (pass.parked_) tell_read(run.kernels, weights, keys.size());
    tell_written(run.kernels, made, keys.size());
    const Interval seen = intersect(pass.mask_.of_row(rows.begin + i, pass.m_), interval_of(keys));
    const index_t first = seen.begin - keys.begin, last = seen.end - keys.begin;
    // Two pointers each: with three clang makes no vectors.
    if (pass.parked_) {
      for (index_t j = first; j < last; ++j) made[j] = weights[j] * (scale * (made[j] - shift_i));
      trace.remove(parked);
    } else {
      for (index_t j = first; j < last; ++j) made[j] *= scale * (products[j] - shift_i);
    }
  }
  hide_in(p());
}

template <class S, class W>
void TileFused<S, W>::Tile::make_pairs_of_p() const {
  if constexpr (are_pairs<W>) {
    kernels::PairGradient p;
    p.rows = rows.size();
    p.cols = keys.size();
    p.f = f;
    p.q = q;
    p.stride = pass.tile_stride_;
    p.delta = deltas();
    p.scale = run.operands.scale;
    p.by_rows_stride = p.by_cols_stride = pass.tile_stride_;
    if (pass.kind_.of_keys()) p.by_rows = pairs;
    if (pass.kind_.queries) p.by_cols = reinterpret_cast<W*>(f);
    run.kernels.pairs_of_bf16->gradient(p);
    if (!is_cut()) return;
    if (p.by_rows != nullptr)
      hide_in_row_pairs(pass.mask_, rows, keys, p.by_rows, pass.tile_stride_);
    if (p.by_cols != nullptr)
      hide_in_col_pairs(pass.mask_, rows, keys, p.by_cols, pass.tile_stride_);
  }
}

template <class S, class W>
bool TileFused<S, W>::Tile::is_cut() const {
  return !is_full(pass.mask_, interval_of(rows), interval_of(keys));
}

template <class S, class W>
void TileFused<S, W>::Tile::round_weights() const {
  if constexpr (are_pairs<W>) {
    run.kernels.pairs_of_bf16->round(f, pass.tile_stride_, rows.size(), keys.size(), pairs,
                                     pass.tile_stride_);
    if (is_cut()) hide_in_row_pairs(pass.mask_, rows, keys, pairs, pass.tile_stride_);
  }
}

template <class S, class W>
const W* TileFused<S, W>::Tile::weights_by_queries() const {
  if constexpr (are_pairs<W>) {
    return pairs;
  } else {
    return f;
  }
}

template <class S, class W>
const W* TileFused<S, W>::Tile::p_by_keys() const {
  if constexpr (are_pairs<W>) {
    return reinterpret_cast<const W*>(f);
  } else {
    return p();
  }
}

// What the next tile begins with. More columns than come together would drive out what is there.
template <class S, class W>
kernels::RowsAhead TileFused<S, W>::Tile::next_columns(const MatrixView<const S>& from) const {
  return rows_ahead(
      MatrixView<const S>{from.data, from.rows, std::min(from.cols, pass.w_), from.stride},
      next_rows);
}

template <class S, class W>
void TileFused<S, W>::Tile::add_to_keys() const {
  const bool are_last = !pass.kind_.queries || pass.d_ <= pass.w_;
  const auto bring = [&](const Range& k, int slot) {
    trace.read(part_of(Operand::S, rows, k));
    run.pack_terms(queries, rows, k, panel_slot(slot));
  };
  stream(pass.d_, bring, [&](const Range& k, int slot) {
    add_to_key_sums(p_by_queries(), queries, keys, k, panel_slot(slot), run.d_keys,
                    run.operands.d_keys_name,
                    are_last && k.end == pass.d_ ? next_columns(queries) : kernels::RowsAhead(),
                    has_rest() ? &rest : nullptr);
    trace.remove(part_of(Operand::S, rows, k));
  });
}

template <class S, class W>
MatrixView<Compute<S>> TileFused<S, W>::Tile::sums_of_queries() const {
  MatrixView<T> sums = run.operands.d_queries;
  if (sums.data != nullptr) sums.data += head * run.operands.d_queries_step;
  return sums;
}

template <class S, class W>
bool TileFused<S, W>::Tile::adds_to_queries() const {
  return run.operands.accumulate_queries || pass.mask_.hides() || keys.begin > 0;
}

template <class S, class W>
void TileFused<S, W>::Tile::add_to_queries() const {
  const MatrixView<T> sums = sums_of_queries();
  parallel::OrderedGate* gate = pass.gates_.at(run.problem, head, rows.begin, run.workspace);
  if (gate != nullptr) gate->wait_for(run.turn);
  // A product under a mask clears what is hidden and not finite: not in panels that stay.
  const bool packed_before = pass.packed_ && !is_cut();
  const Operand name = packed_before ? Operand::A2_rows : Operand::A2;
  const auto bring = [&](const Range& k, int slot) {
    trace.read(part_of(name, keys, k));
    if (!packed_before) run.pack_columns(run.operands.keys, keys, k, panel_slot(slot));
  };
  stream(pass.d_, bring, [&](const Range& k, int slot) {
    W* const packed = packed_before ? run.columns_in(pass.worker_.key_rows, k) : panel_slot(slot);
    kernels::Product<T, W> p = sum_of(keys, k, packed, sums.at(rows.begin, k.begin), sums.stride);
    if (k.end == pass.d_) p.ahead = next_columns(pass.d_ <= pass.w_ ? d_o : queries);
    p.rows = rows.size();
    p.a = {p_by_keys(), pass.tile_stride_, 1};
    add_product(p, part_of(run.operands.d_queries_name, rows, k), adds_to_queries(), pass.mask_,
                rows, Range(keys.begin, keys.end, pass.share_), packed, run.operands.keys, k);
    trace.remove(part_of(name, keys, k));
  });
  if (gate != nullptr) gate->pass(run.turn);
}

#define IOATTN_INSTANTIATE(S, W) template struct TileFused<S, W>::Tile;
IOATTN_OF_ALL_TILES(IOATTN_INSTANTIATE)
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
