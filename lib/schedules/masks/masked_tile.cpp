#include "schedules/masks/masked_tile.hpp"

#include <algorithm>

#include "base/sum_length.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

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
void hide(const kernels::KernelTable<T>& kernels, const Mask& mask, const Range& rows,
          const Range& lanes, T value, T* tile, index_t stride) {
  for (index_t i = rows.begin; i < rows.end; ++i, tile += stride) {
    const Interval seen = mask.of_row(i, lanes.end);
    const index_t first = std::clamp(seen.begin, lanes.begin, lanes.end) - lanes.begin;
    const index_t last = std::clamp(seen.end, lanes.begin + first, lanes.end) - lanes.begin;
    if (first > 0) fill_words(kernels, tile, first, value);
    if (last < lanes.size()) fill_words(kernels, tile + last, lanes.size() - last, value);
  }
}

template <class T, class W>
void masked_scores(const kernels::KernelTable<T>& kernels, const kernels::Product<T, W>& product,
                   const Mask& mask, const Range& rows, const Range& lanes) {
  if (is_full(mask, interval_of(rows), interval_of(lanes))) return multiply(kernels, product);
  constexpr index_t block = 32;  // any will do: what is hidden beside it takes part in no sum
  const index_t nr = kernels.tile.cols;
  const auto seen_by = [&](const Range& some) -> Interval {
    const Interval seen = within(mask.of_any(interval_of(some), lanes.end), lanes);
    return {round_down(seen.begin, nr), std::min(round_up(seen.end, nr), lanes.size())};
  };
  const auto make = [&](const Interval& some, const Interval& seen) {
    if (seen.is_empty()) return;
    kernels::Product<T, W> part = product;
    const index_t i = some.begin - rows.begin;
    part.rows = some.size();
    part.cols = seen.size();
    part.a.data += i * product.a.row;
    part.b.data += seen.begin / nr * product.b.panel;
    part.c.data += i * product.c.row + seen.begin / nr * product.c.panel;
    if (product.row != nullptr) part.row += i;
    if (product.lane != nullptr) part.lane += seen.begin;
    if (product.beside != nullptr) part.beside += i * product.beside_row;
    multiply(kernels, part);
  };
  Interval some, seen;  // blocks that see the same panels
  for (Range next(rows.begin, rows.end, block); next; next.next()) {
    const Interval of_next = seen_by(next);
    if (!(of_next == seen)) {
      make(some, seen);
      some.begin = next.begin;
      seen = of_next;
    }
    some.end = next.end;
  }
  make(some, seen);
}

namespace {

// Rows of a product by their indices in the whole matrix: what all rows of a block see is taken at
// once, what else a group of them sees by the group.
template <class T>
class MaskedProduct {
 public:
  MaskedProduct(const kernels::KernelTable<T>& kernels, const kernels::Product<T>& whole,
                const Mask& mask, const Range& rows, const Range& terms)
      : kernels_(kernels),
        whole_(whole),
        mask_(mask),
        rows_(rows),
        terms_(terms),
        group_(kernels.tile.rows),
        block_(round_up(index_t(64), group_)) {}

  void multiply() const {
    const Interval all = interval_of(terms_);
    Interval full;  // blocks of rows that see all terms
    for (index_t first = round_down(rows_.begin, block_); first < rows_.end; first += block_) {
      const Interval block = {first, first + block_};
      const Interval members = intersect(block, interval_of(rows_));
      if (common_of(block) == all) {
        if (full.is_empty()) full.begin = members.begin;
        full.end = members.end;
        continue;
      }
      add_full(full);
      full = {};
      add_block(block, members);
    }
    add_full(full);
  }

 private:
  Interval common_of(const Interval& rows) const {
    return intersect(mask_.of_every(rows, terms_.end), interval_of(terms_));
  }
  Interval any_of(const Interval& rows) const {
    return intersect(mask_.of_any(rows, terms_.end), interval_of(terms_));
  }

  void add_full(const Interval& rows) const {
    if (!rows.is_empty()) add(rows, interval_of(terms_), true);
  }

  // Terms are ascending: those before the common ones, those, and those after. Each row of C is
  // rescaled before its first.
  void add_block(const Interval& block, const Interval& members) const {
    const Interval any = any_of(block);
    if (any.is_empty()) return;
    Interval common = common_of(block);
    if (common.size() < group_) common = {any.begin, any.begin};
    const Interval before = {any.begin, common.begin}, after = {common.end, any.end};
    const bool by_groups = are_finite(before) && are_finite(after);
    if (!before.is_empty()) add_part(block, members, before, true, by_groups);
    if (!common.is_empty()) add(members, common, before.is_empty());
    add_part(block, members, after, before.is_empty() && common.is_empty(), by_groups);
  }

  void add_part(const Interval& block, const Interval& members, const Interval& part, bool scales,
                bool by_groups) const {
    for (index_t g = block.begin; g < members.end; g += group_) {
      const Interval some = intersect({g, g + group_}, members);
      if (some.is_empty()) continue;
      const Interval taken = intersect(mask_.of_any({g, g + group_}, terms_.end), part);
      if (by_groups) {
        add_by_places(some, taken, scales);
        continue;
      }
      for (index_t i = some.begin; i < some.end; ++i)
        add_by_places({i, i + 1}, intersect(mask_.of_row(i, terms_.end), taken), scales);
    }
  }

  // Sums end at multiples of their longest, not after so many terms: of a group that two blocks of
  // rows divide, as threads cut them, the terms of one begin with some that it does not see.
  void add_by_places(const Interval& rows, const Interval& terms, bool scales) const {
    constexpr index_t most = single_terms_per_accumulator<T>;
    Interval some = terms;
    do {
      some.end = std::min(terms.end, round_down(some.begin, most) + most);
      add(rows, some, scales);
      scales = false;
      some.begin = some.end;
    } while (some.begin < terms.end);
  }

  void add(const Interval& rows, const Interval& terms, bool scales) const {
    kernels::Product<T> part = whole_;
    const index_t i = rows.begin - rows_.begin;
    const index_t q = terms.is_empty() ? 0 : terms.begin - terms_.begin;
    part.row_scale = scales && whole_.row_scale != nullptr ? whole_.row_scale + i : nullptr;
    part.depth = terms.size();
    if (part.depth == 0 && part.row_scale == nullptr) return;
    part.rows = rows.size();
    part.a.data += i * whole_.a.row + q * whole_.a.depth;
    part.b.data += q * whole_.b.row;
    part.c.data += i * whole_.c.row;
    part.accumulate = true;
    kernels_.product(part);
  }

  // Of terms of B.
  bool are_finite(const Interval& terms) const {
    if (terms.is_empty()) return true;
    const index_t nr = kernels_.tile.cols;
    const T* b = whole_.b.data + (terms.begin - terms_.begin) * whole_.b.row;
    for (index_t k = 0; k < whole_.cols; k += nr, b += whole_.b.panel)
      if (!kernels_.are_finite(terms.size(), std::min(nr, whole_.cols - k), b, whole_.b.row))
        return false;
    return true;
  }

  const kernels::KernelTable<T>& kernels_;
  const kernels::Product<T>& whole_;
  const Mask& mask_;
  const Range &rows_, &terms_;
  const index_t group_, block_;
};

}  // namespace

template <class T>
void masked_product(const kernels::KernelTable<T>& kernels, const kernels::Product<T>& product,
                    const Mask& mask, const Range& rows, const Range& terms) {
  if (!mask.hides()) {
    kernels.product(product);
    return;
  }
  MaskedProduct<T>(kernels, product, mask, rows, terms).multiply();
}

#define IOATTN_INSTANTIATE(T)                                                                    \
  template void write_zeros(const kernels::KernelTable<T>&, const Trace&, Operand,               \
                            const MatrixView<T>&, const Range&, index_t);                        \
  template void hide(const kernels::KernelTable<T>&, const Mask&, const Range&, const Range&, T, \
                     T*, index_t);                                                               \
  template void masked_product(const kernels::KernelTable<T>&, const kernels::Product<T>&,       \
                               const Mask&, const Range&, const Range&);                         \
  template void masked_scores(const kernels::KernelTable<T>&, const kernels::Product<T>&,        \
                              const Mask&, const Range&, const Range&)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE
template void masked_scores(const kernels::KernelTable<float>&,
                            const kernels::Product<float, kernels::bf16x2>&, const Mask&,
                            const Range&, const Range&);

}  // namespace ioattn::schedules
