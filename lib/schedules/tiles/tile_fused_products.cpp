#include "schedules/masks/masked_tile.hpp"
#include "schedules/range.hpp"
#include "schedules/tiles/tile_fused_tile.hpp"

// Products of a pair of score tiles, and the columns that they take.
namespace ioattn::schedules {

template <class S, class W>
void TileFused<S, W>::Tile::add_to_key_sums(const W* tile, const MatrixView<const S>& terms,
                                            const Range& some, const Range& k, W* packed,
                                            const MatrixView<T>& sums, Operand name,
                                            const kernels::RowsAhead& ahead,
                                            const MatrixView<const S>* rest_of_terms) const {
  const index_t first = some.begin - keys.begin;
  kernels::Product<T, W> p = sum_of(rows, k, packed, nullptr, sums.stride);
  p.transposed = run.transposes_sums();
  p.c.data = p.transposed ? sums.at(k.begin, first) : sums.at(first, k.begin);
  if (p.transposed) p.b.row = pass.term_stride_;
  p.rows = some.size();
  p.a = {tile + first, 1, pass.tile_stride_};
  p.ahead = ahead;
  const Range all(rows.begin, rows.end, rows.size());
  const Block of_sums = part_of(name, some, k);
  if (rest_of_terms == nullptr) {
    add_product(p, of_sums, begun, pass.seen_by_, some, all, packed, terms, k);
    return;
  }
  trace.begin_sum(of_sums, begun);
  p.accumulate = begun;
  masked_product(run.kernels, p, pass.seen_by_, some, all, packed, terms, k);
  run.pack_columns(*rest_of_terms, rows, k, packed);
  p.accumulate = true;
  p.ahead = {};
  masked_product(run.kernels, p, pass.seen_by_, some, all, packed, *rest_of_terms, k);
  trace.write_and_remove(of_sums);
}

template <class S, class W>
auto TileFused<S, W>::Tile::sum_of(const Range& terms, const Range& k, const W* packed, T* sums,
                                   index_t stride) const -> kernels::Product<T, W> {
  kernels::Product<T, W> p;
  p.cols = k.size();
  p.depth = words_of<W>(terms.size());
  p.b = {packed, p.depth * pass.nr_, pass.nr_};
  p.c = {sums, pass.nr_, stride};
  return p;
}

template <class S, class W>
void TileFused<S, W>::Tile::add_product(kernels::Product<T, W> p, const Block& sums,
                                        bool accumulate, const Mask& mask, const Range& of_rows,
                                        const Range& terms, W* packed,
                                        const MatrixView<const S>& matrix,
                                        const Range& cols) const {
  p.accumulate = accumulate;
  trace.begin_sum(sums, accumulate);
  for (Range share = terms; share; share.next()) {
    p.depth = words_of<W>(share.size());
    masked_product(run.kernels, p, mask, of_rows, share, packed, matrix, cols);
    p.accumulate = true;
    p.ahead = {};
    p.a.data += p.depth * p.a.depth;
    p.b.data += p.depth * p.b.row;
    packed += p.depth * p.b.row;
  }
  trace.write_and_remove(sums);
}

template <class S, class W>
const W* TileFused<S, W>::Tile::keys_as_lanes(const Range& k, W* to) const {
  trace.read(part_of(key_name(), keys, k));
  if (pass.packed_) return run.columns_in(pass.worker_.key_panels, k);
  run.pack_rows(run.operands.keys, keys, k, to);
  return to;
}

template <class S, class W>
const W* TileFused<S, W>::Tile::values_as_lanes(const Range& some, const Range& k, W* to) const {
  trace.read(part_of(value_name(), some, k));
  if (pass.packed_) return run.columns_in(pass.worker_.value_panels, k);
  run.pack_rows(run.operands.values, some, k, to);
  return to;
}

template <class S, class W>
auto TileFused<S, W>::Tile::score(const Range& some, const Range& k, const Terms& terms,
                                  const W* packed, T* tile) const -> kernels::Product<T, W> {
  kernels::Product<T, W> p;
  p.rows = rows.size();
  p.cols = some.size();
  p.depth = words_of<W>(k.size());
  p.a = {terms.data, terms.row, 1};
  p.b = {packed, p.depth * pass.nr_, pass.nr_};
  p.c = {tile + (some.begin - keys.begin), pass.nr_, pass.tile_stride_};
  p.accumulate = k.begin > 0;
  p.padded = some.size() == keys.size();  // beyond a half are other keys, or other queries
  return p;
}

template <class S, class W>
auto TileFused<S, W>::Tile::terms_of(const MatrixView<const S>& from, const Range& some,
                                     const Range& k, T scale, W* to) const -> Terms {
  const S* first = from.at(some.begin, k.begin);
  if constexpr (are_pairs<W>) {
    if (are_words<W>(first, from.stride, k.size()))
      return {reinterpret_cast<const W*>(first), words_of<W>(from.stride)};
  }
  load_terms(run.kernels, first, from.stride, some.size(), k.size(), scale, to, pass.row_stride_);
  return {to, pass.row_stride_};
}

template <class S, class W>
void TileFused<S, W>::Tile::pack_copied_columns(const W* copied, const Range& k, W* to) const {
  if constexpr (!are_pairs<W>)
    load_word_panels(run.kernels, copied, 1, pass.row_stride_, k.size(), rows.size(), to);
}

#define IOATTN_INSTANTIATE(S, W)                                                                  \
  template void TileFused<S, W>::Tile::add_to_key_sums(                                           \
      const W*, const MatrixView<const S>&, const Range&, const Range&, W*,                       \
      const MatrixView<Compute<S>>&, Operand, const kernels::RowsAhead&,                          \
      const MatrixView<const S>*) const;                                                          \
  template auto TileFused<S, W>::Tile::sum_of(const Range&, const Range&, const W*, Compute<S>*,  \
                                              index_t) const->kernels::Product<Compute<S>, W>;    \
  template void TileFused<S, W>::Tile::add_product(                                               \
      kernels::Product<Compute<S>, W>, const Block&, bool, const Mask&, const Range&,             \
      const Range&, W*, const MatrixView<const S>&, const Range&) const;                          \
  template const W* TileFused<S, W>::Tile::keys_as_lanes(const Range&, W*) const;                 \
  template const W* TileFused<S, W>::Tile::values_as_lanes(const Range&, const Range&, W*) const; \
  template auto TileFused<S, W>::Tile::score(const Range&, const Range&, const Terms&, const W*,  \
                                             Compute<S>*) const->kernels::Product<Compute<S>, W>; \
  template auto TileFused<S, W>::Tile::terms_of(const MatrixView<const S>&, const Range&,         \
                                                const Range&, Compute<S>, W*) const->Terms;       \
  template void TileFused<S, W>::Tile::pack_copied_columns(const W*, const Range&, W*) const;
IOATTN_OF_ALL_TILES(IOATTN_INSTANTIATE)
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
