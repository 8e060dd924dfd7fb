#include "base/tile_steps.hpp"
#include "schedules/masks/masked_strips.hpp"
#include "schedules/masks/masked_tile.hpp"
#include "schedules/range.hpp"
#include "schedules/softmax/refined_delta.hpp"
#include "schedules/tiles/tile_fused_tile.hpp"

// Weights and gradients of a pair of score tiles by one kernel.
namespace ioattn::schedules {

static_assert(most_terms_at_once == 2 * kernels::PairKernels::most_pairs_weighed);

// Of more than a few keys, which every query sees, no delta is refined: of all keys or, under a
// mask, of the tile's, whose number does not depend on workers there (keys_of_block). What a mask
// cuts is made by strips, with scores and q in that half of q's memory where no p is.
template <class S, class W>
bool TileFused<S, W>::Tile::are_made_at_once() const {
  if constexpr (are_pairs<W>) {
    return pass.at_once_ && run.kernels.pairs_of_bf16->gradients != nullptr && !has_bias() &&
           (pass.mask_.hides() ? keys.size() : pass.m_) > few_keys &&
           (!is_cut() || MaskedStrips::rows_of_strip(pass.rho_) > 0);
  } else {
    return false;
  }
}

template <class S, class W>
const W* TileFused<S, W>::Tile::p_by_queries() const {
  if constexpr (are_pairs<W>) {
    return are_made_at_once() ? reinterpret_cast<const W*>(q) : pairs;
  } else {
    return p();
  }
}

// An observer is told of the steps one by one, and of f and q as they would be between them.
template <class S, class W>
void TileFused<S, W>::Tile::make_weights_and_gradients() const {
  if constexpr (are_pairs<W>) {
    const Range d(pass.d_, pass.d_), e(pass.e_, pass.e_);
    const Block lse = rows_of(Operand::LSE, rows, 1);
    trace.read(lse);
    trace.read(part_of(Operand::S, rows, d));
    const kernels::Product<T, W> scores =
        score(keys, d, terms_of(queries, rows, d, T(1), copy), keys_as_lanes(d, panels), f);
    trace.remove(part_of(key_name(), keys, d));
    trace.remove(part_of(Operand::S, rows, d));
    trace.remove(lse);
    trace.create(part_of(Operand::p_pairs, rows, keys));

    trace.create(part_of(Operand::q, rows, keys));
    trace.read(part_of(Operand::dO, rows, e));
    const Terms terms = terms_of(d_o, rows, e, T(1), copy + pass.rho_ * pass.row_stride_);
    const kernels::Product<T, W> products =
        score(keys, e, terms, values_as_lanes(keys, e, panels + pass.panel_words_), q);
    kernels::PairGradients made;
    made.lse = shift();
    made.delta = run.operands.delta + head * run.operands.delta_step + rows.begin;
    made.scale = run.operands.scale;
    made.f_by_rows = pairs;
    made.p_by_rows = reinterpret_cast<W*>(q);
    made.p_by_cols = reinterpret_cast<W*>(f);
    made.stride = pass.tile_stride_;
    if (is_cut()) {
      float* const scratch = q + words_of<W>(pass.rho_) * pass.tile_stride_;
      const MaskedStrips strips(run.kernels, pass.mask_, pass.m_, rows, keys, scores, products,
                                made, {scratch, pass.worker_.delta.in(run.memory)});
      strips.make(MaskedStrips::rows_of_strip(pass.rho_));
    } else {
      run.kernels.pairs_of_bf16->gradients(scores, products, made);
    }
    trace.remove(part_of(value_name(), keys, e));

    if (pass.kind_.of_values()) {
      const Block panels_of_d_o = part_of(Operand::dO_panels, rows, e);
      trace.create(panels_of_d_o);
      run.pack_terms(d_o, rows, e, panels);
      const bool reads_sums = pass.kind_.queries && adds_to_queries();
      add_to_key_sums(pairs, d_o, keys, e, panels, run.d_values, Operand::W,
                      reads_sums ? rows_ahead(sums_of_queries(), rows) : kernels::RowsAhead{});
      trace.remove(panels_of_d_o);
    }
    trace.remove(part_of(Operand::dO, rows, e));
    const Block delta = rows_of(Operand::delta, rows, 1);
    trace.read(delta);
    trace.remove(delta);
    trace.remove(part_of(Operand::q, rows, keys));
  }
}

#define IOATTN_INSTANTIATE(S, W)                                 \
  template bool TileFused<S, W>::Tile::are_made_at_once() const; \
  template const W* TileFused<S, W>::Tile::p_by_queries() const; \
  template void TileFused<S, W>::Tile::make_weights_and_gradients() const;
IOATTN_OF_ALL_TILES(IOATTN_INSTANTIATE)
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
