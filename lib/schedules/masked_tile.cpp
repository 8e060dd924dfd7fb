#include "schedules/masked_tile.hpp"

#include <algorithm>

#include "schedules/memory_moves.hpp"
#include "schedules/words.hpp"

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

// What is left of a pair of terms of which one alone is visible.
constexpr std::uint32_t first_alone = 0xffffu, second_alone = 0xffff0000u;

// Clears what is not in `kept` of the pairs [first, last).
void keep(std::uint32_t kept, index_t first, index_t last, kernels::bf16x2* row) {
  for (index_t j = first; j < last; ++j) row[j].bits &= kept;
}

}  // namespace

void hide_in_row_pairs(const Mask& mask, const Range& queries, const Range& keys,
                       kernels::bf16x2* tile, index_t stride) {
  for (index_t i = queries.begin; i < queries.end; ++i) {
    const Interval seen = intersect(mask.of_row(i, keys.end), interval_of(keys));
    const index_t local = i - queries.begin;
    kernels::bf16x2* row = tile + local / 2 * stride;
    const std::uint32_t kept = local % 2 == 0 ? second_alone : first_alone;
    const index_t first = seen.is_empty() ? keys.size() : seen.begin - keys.begin;
    const index_t last = seen.is_empty() ? keys.size() : seen.end - keys.begin;
    keep(kept, 0, first, row);
    keep(kept, last, keys.size(), row);
  }
}

void hide_in_col_pairs(const Mask& mask, const Range& queries, const Range& keys,
                       kernels::bf16x2* tile, index_t stride) {
  for (index_t i = queries.begin; i < queries.end; ++i, tile += stride) {
    const Interval seen = intersect(mask.of_row(i, keys.end), interval_of(keys));
    for (index_t j = 0; j < keys.size(); ++j) {
      const index_t key = keys.begin + j;
      if (key >= seen.begin && key < seen.end) continue;
      tile[j / 2].bits &= j % 2 == 0 ? second_alone : first_alone;
    }
  }
}

namespace {

// Some rows and terms of a product, as indices in the whole matrices.
template <class T, class W>
class ProductPart {
 public:
  ProductPart(const kernels::KernelTable<T>& kernels, const kernels::Product<T, W>& whole,
              const Range& all_rows, const Range& all_terms)
      : kernels_(kernels), whole_(whole), rows_(all_rows), terms_(all_terms) {}

  void add(const Interval& rows, const Interval& terms, bool scales) {
    kernels::Product<T, W> part = whole_;
    const index_t i = rows.begin - rows_.begin;
    part.rows = rows.size();
    part.a = whole_.a + i * whole_.a_row;
    part.c = whole_.c + i * whole_.c_row;
    part.accumulate = true;
    part.row_scale = scales && whole_.row_scale != nullptr ? whole_.row_scale + i : nullptr;
    const index_t first = terms.begin - terms_.begin, last = terms.end - terms_.begin;
    if constexpr (are_pairs<W>) {
      add_pairs(part, first, last);
    } else {
      add_words(part, first, last);
    }
  }

 private:
  void add_words(kernels::Product<T, W> part, index_t first, index_t last) {
    part.a += first * part.a_depth;
    part.b += first * part.b_row;
    part.depth = last - first;
    multiply(kernels_, part);
  }
  // Ascending; the first product of those that follow each other scales C.
  void add_pairs(kernels::Product<T, W> part, index_t first, index_t last) {
    const index_t whole = round_up(first, 2) / 2, end = last / 2;
    const bool ends_alone = last % 2 != 0 && last < terms_.size() && last > first;
    if (first % 2 != 0 && first < last) add_alone(&part, first / 2, second_alone);
    // The last pair of all is whole: its second term is 0.
    const index_t until = last == terms_.size() ? ceil_div(last, 2) : end;
    if (whole < until || first == last) {
      add_words(part, whole, std::max(whole, until));
      part.row_scale = nullptr;
    }
    if (ends_alone) add_alone(&part, end, first_alone);
  }
  // One pair: a hidden term of B need not be a number.
  void add_alone(kernels::Product<T, W>* part, index_t pair, std::uint32_t kept) {
    if constexpr (are_pairs<W>) {
      constexpr index_t at_once = 512;
      W row[at_once];
      const index_t nr = kernels_.tile.cols;
      const index_t panels = at_once / nr;
      for (index_t panel = 0; panel * nr < whole_.cols; panel += panels) {
        kernels::Product<T, W> one = *part;
        one.cols = std::min(panels * nr, whole_.cols - panel * nr);
        for (index_t k = 0; k < ceil_div(one.cols, nr); ++k)
          for (index_t j = 0; j < nr; ++j)
            row[k * nr + j] = {
                whole_.b[(panel + k) * whole_.b_panel + pair * whole_.b_row + j].bits & kept};
        one.a += pair * one.a_depth;
        one.b = row;
        one.b_panel = nr;
        one.c += panel * one.c_panel;
        one.depth = 1;
        multiply(kernels_, one);
      }
      part->row_scale = nullptr;
    }
  }

  const kernels::KernelTable<T>& kernels_;
  const kernels::Product<T, W>& whole_;
  const Range &rows_, &terms_;
};

}  // namespace

template <class T, class W>
void masked_product(const kernels::KernelTable<T>& kernels, const kernels::Product<T, W>& product,
                    const Mask& mask, const Range& rows, const Range& terms) {
  const Interval all = interval_of(terms);
  const index_t group = kernels.tile.rows;
  const index_t first_group = round_down(rows.begin, group);
  if (is_full(mask, {first_group, round_up(rows.end, group)}, all)) {
    multiply(kernels, product);
    return;
  }
  ProductPart<T, W> part(kernels, product, rows, terms);
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
  template void masked_product(const kernels::KernelTable<T>&, const kernels::Product<T, T>&,    \
                               const Mask&, const Range&, const Range&)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE
template void masked_product(const kernels::KernelTable<float>&,
                             const kernels::Product<float, kernels::bf16x2>&, const Mask&,
                             const Range&, const Range&);

}  // namespace ioattn::schedules
