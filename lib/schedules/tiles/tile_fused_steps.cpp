#include "base/tile_steps.hpp"
#include "schedules/masks/masked_tile.hpp"
#include "schedules/range.hpp"
#include "schedules/tiles/tile_fused_tile.hpp"

// dV and q of a pair of score tiles where columns of dO, V and dV would meet in few sets of a
// cache.
namespace ioattn::schedules {

template <class S, class W>
void TileFused<S, W>::Tile::make_gradients_by_steps() const {
  trace.create(part_of(Operand::q, rows, keys));
  const index_t chunks = ceil_div(pass.e_, pass.w_);
  const auto columns = [&](index_t chunk) { return Range(chunk * pass.w_, pass.e_, pass.w_); };
  const auto copied = [&](index_t chunk) {
    return copy + chunk % copied_steps * pass.rho_ * pass.row_stride_;
  };
  const auto packed = [&](index_t chunk) {
    return panels + (1 + chunk % packed_steps) * pass.panel_words_;
  };
  const auto halves_of = [](const Range& all) {
    return Range(all.begin, all.end, ceil_div(all.size(), index_t(2)));
  };
  const auto bring = [&](const Range& some, index_t chunk) {
    const Range k = columns(chunk);
    trace.read(part_of(Operand::dO, some, k));
    terms_of(d_o, some, k, T(1), copied(chunk) + (some.begin - rows.begin) * pass.row_stride_);
  };
  const auto add_to_q = [&](const Range& some, index_t chunk) {
    const Range k = columns(chunk);
    const Terms terms = {copied(chunk), pass.row_stride_};
    masked_scores(run.kernels, score(some, k, terms, values_as_lanes(some, k, panels), q),
                  pass.mask_, rows, some);
    trace.remove(part_of(value_name(), some, k));
  };
  const auto pack = [&](index_t chunk) {
    const Range k = columns(chunk);
    trace.create(part_of(Operand::dO_panels, rows, k));
    pack_copied_columns(copied(chunk), k, packed(chunk));
    for (Range some = halves_of(rows); some; some.next())
      trace.remove(part_of(Operand::dO, some, k));
  };
  const auto add_to_values = [&](const Range& some, index_t chunk) {
    add_to_key_sums(weights_by_queries(), d_o, some, columns(chunk), packed(chunk), run.d_values,
                    Operand::W);
  };
  const auto each_half = [&](const Range& all, index_t chunk, const auto& action) {
    for (Range some = halves_of(all); some; some.next(), --chunk)
      if (chunk >= 0 && chunk < chunks) action(some, chunk);
  };
  for (index_t step = 0; step < chunks + steps_of_values - 1; ++step) {
    each_half(rows, step, bring);
    each_half(keys, step - 2, add_to_q);
    const index_t of_values = step - 4;
    if (of_values >= 0 && of_values < chunks) pack(of_values);
    each_half(keys, of_values, add_to_values);
    if (of_values >= 1) trace.remove(part_of(Operand::dO_panels, rows, columns(of_values - 1)));
  }
  make_p_of_q();
  trace.remove(part_of(Operand::q, rows, keys));
}

#define IOATTN_INSTANTIATE(S, W) \
  template void TileFused<S, W>::Tile::make_gradients_by_steps() const;
IOATTN_OF_ALL_TILES(IOATTN_INSTANTIATE)
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
