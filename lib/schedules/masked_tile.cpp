#include "schedules/masked_tile.hpp"

#include <algorithm>

#include "schedules/memory_moves.hpp"

namespace ioattn::schedules {

template <class T>
void write_zeros(const kernels::KernelTable<T>& kernels, const Trace& trace, Operand name,
                 const MatrixView<T>& sums, const Range& rows, index_t width) {
  for (Range row(rows.begin, rows.end, 1); row; row.next()) {
    for (Range k(sums.cols, width); k; k.next()) {
      trace.create(part_of(name, row, k));
      fill_words(kernels, sums.at(row.begin, k.begin), k.size(), T(0));
      trace.write_and_remove(part_of(name, row, k));
    }
  }
}

template <class T>
void hide(const kernels::KernelTable<T>& kernels, const Mask& mask, const Range& queries,
          const Range& keys, T value, T* tile, index_t stride) {
  const Mask seen_by = mask.transposed();
  for (index_t j = keys.begin; j < keys.end; ++j, tile += stride) {
    const Interval seen = seen_by.of_row(j, queries.end);
    const index_t first = std::clamp(seen.begin, queries.begin, queries.end) - queries.begin;
    const index_t last = std::clamp(seen.end, queries.begin + first, queries.end) - queries.begin;
    fill_words(kernels, tile, first, value);
    fill_words(kernels, tile + last, queries.size() - last, value);
  }
}

namespace {

// Some rows and terms of a product, as indices in the whole matrices.
template <class T>
class ProductPart {
 public:
  ProductPart(const kernels::KernelTable<T>& kernels, const kernels::Product<T>& whole,
              const Range& all_rows, const Range& all_terms)
      : kernels_(kernels), whole_(whole), rows_(all_rows), terms_(all_terms) {}

  void add(const Interval& rows, const Interval& terms, bool scales) {
    kernels::Product<T> part = whole_;
    const index_t i = rows.begin - rows_.begin;
    part.rows = rows.size();
    part.a = whole_.a + i * whole_.a_row;
    part.c = whole_.c + i * whole_.c_row;
    part.accumulate = true;
    part.row_scale = scales && whole_.row_scale != nullptr ? whole_.row_scale + i : nullptr;
    const index_t first = terms.begin - terms_.begin, last = terms.end - terms_.begin;
    part.a += first * whole_.a_depth;
    part.b += first * whole_.b_row;
    part.depth = last - first;
    kernels_.product(part);
  }

 private:
  const kernels::KernelTable<T>& kernels_;
  const kernels::Product<T>& whole_;
  const Range &rows_, &terms_;
};

}  // namespace

template <class T>
void masked_product(const kernels::KernelTable<T>& kernels, const kernels::Product<T>& product,
                    const Mask& mask, const Range& rows, const Range& terms) {
  const Interval all = interval_of(terms);
  const index_t group = kernels.tile.rows;
  const index_t first_group = round_down(rows.begin, group);
  if (is_full(mask, {first_group, round_up(rows.end, group)}, all)) {
    kernels.product(product);
    return;
  }
  ProductPart<T> part(kernels, product, rows, terms);
  for (index_t g = first_group; g < rows.end; g += group) {
    const Interval members = intersect({g, g + group}, interval_of(rows));
    // Of the whole group, whose other members may be rows of another product.
    const Interval common = mask.of_every({g, g + group}, terms.end);
    const Interval shared = intersect(common, all);
    const auto add_each = [&](const Interval& limits, bool scales) {
      for (index_t i = members.begin; i < members.end; ++i) {
        Interval visible = intersect(mask.of_row(i, terms.end), limits);
        // A row that sees none of the terms has nothing to be rescaled to: its maximum stays.
        if (visible.is_empty()) continue;
        part.add({i, i + 1}, visible, scales);
      }
    };
    if (shared.is_empty()) {
      add_each(all, true);
      continue;
    }
    // Ascending terms: those before the shared ones, those, and those after.
    const bool leads =
        mask.of_any({g, g + group}, terms.end).begin < shared.begin && all.begin < shared.begin;
    if (leads && product.row_scale != nullptr) {
      part.add(members, {shared.begin, shared.begin}, true);
    }
    add_each({all.begin, shared.begin}, false);
    part.add(members, shared, !leads);
    add_each({shared.end, all.end}, false);
  }
}

#define IOATTN_INSTANTIATE(T)                                                                    \
  template void write_zeros(const kernels::KernelTable<T>&, const Trace&, Operand,               \
                            const MatrixView<T>&, const Range&, index_t);                        \
  template void hide(const kernels::KernelTable<T>&, const Mask&, const Range&, const Range&, T, \
                     T*, index_t);                                                               \
  template void masked_product(const kernels::KernelTable<T>&, const kernels::Product<T>&,       \
                               const Mask&, const Range&, const Range&)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
