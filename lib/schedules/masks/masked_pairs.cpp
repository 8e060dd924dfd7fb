#include <algorithm>

#include "base/half.hpp"
#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/range.hpp"

// Masked tiles in pairs of terms (words.hpp).
namespace ioattn::schedules {

using kernels::bf16x2;

namespace {

// What is left of a pair of terms of which one alone is visible.
constexpr std::uint32_t first_alone = 0xffffu, second_alone = 0xffff0000u;

// Clears what is not in `kept` of the pairs [first, last).
void keep(std::uint32_t kept, index_t first, index_t last, bf16x2* row) {
  for (index_t j = first; j < last; ++j) row[j].bits &= kept;
}
void clear(index_t first, index_t last, bf16x2* row) {
  if (first < last) std::fill(row + first, row + last, bf16x2{});
}

// Of a tile's keys those that a query sees, counted from the first; of none, the end twice.
Interval seen_in_tile(const Mask& mask, index_t query, const Range& keys) {
  const Interval seen = within(mask.of_row(query, keys.end), keys);
  return seen.is_empty() ? Interval{keys.size(), keys.size()} : seen;
}

}  // namespace

void hide_in_row_pairs(const Mask& mask, const Range& queries, const Range& keys, bf16x2* tile,
                       index_t stride) {
  for (index_t i = queries.begin; i < queries.end; i += 2, tile += stride) {
    const Interval first = seen_in_tile(mask, i, keys);
    if (i + 1 == queries.end) {  // paired with a query that is not there
      clear(0, first.begin, tile);
      clear(first.end, keys.size(), tile);
      return;
    }
    const Interval second = seen_in_tile(mask, i + 1, keys);
    const index_t begin = std::min(first.begin, second.begin);
    const index_t end = std::max({first.end, second.end, begin});
    clear(0, begin, tile);
    keep(second_alone, begin, first.begin, tile);
    keep(first_alone, begin, second.begin, tile);
    keep(second_alone, first.end, end, tile);
    keep(first_alone, second.end, end, tile);
    clear(end, keys.size(), tile);
  }
}

void hide_in_col_pairs(const Mask& mask, const Range& queries, const Range& keys, bf16x2* tile,
                       index_t stride) {
  for (index_t i = queries.begin; i < queries.end; ++i, tile += stride) {
    const Interval seen = seen_in_tile(mask, i, keys);
    clear(0, seen.begin / 2, tile);
    if (seen.begin % 2 != 0) tile[seen.begin / 2].bits &= second_alone;
    if (seen.end % 2 != 0) tile[seen.end / 2].bits &= first_alone;
    clear(ceil_div(seen.end, 2), ceil_div(keys.size(), 2), tile);
  }
}

namespace {

// The exponent of a number that is not finite is all ones: one more carries into the sign's place.
constexpr std::uint32_t exponents = 0x7f807f80u, ones = 0x00800080u, carries = 0x80008000u;

bool is_finite(bf16 x) { return (x.bits & 0x7f80u) != 0x7f80u; }

class MaskedPairs {
 public:
  MaskedPairs(const kernels::KernelTable<float>& kernels,
              const kernels::Product<float, bf16x2>& whole, const Mask& mask, const Range& rows,
              const Range& terms)
      : kernels_(kernels), whole_(whole), mask_(mask), rows_(rows), terms_(terms) {}

  // Calls take(members, taken, common) for every group that sees a term: its rows among these, the
  // pairs that it takes and those of them that all these rows see whole.
  template <class Take>
  void for_each_group(const Take& take) const {
    constexpr index_t count = rows_of_pair_group;
    for (index_t g = round_down(rows_.begin, count); g < rows_.end; g += count) {
      // Of the whole group, whose other rows may be in another product.
      const Interval seen = within(mask_.of_any({g, g + count}, terms_.end), terms_);
      if (seen.is_empty()) continue;
      const Interval members = intersect({g, g + count}, interval_of(rows_));
      const Interval common = within(mask_.of_every(members, terms_.end), terms_);
      const index_t end = common.end == terms_.size() ? whole_.depth : common.end / 2;
      take(members, Interval{seen.begin / 2, ceil_div(seen.end, 2)},
           Interval{ceil_div(common.begin, 2), end});
    }
  }

  void multiply_groups() const {
    Interval rows, pairs;  // of groups that take the same terms
    for_each_group([&](const Interval& members, const Interval& taken, const Interval&) {
      if (members.begin != rows.end || taken != pairs) {
        multiply_rows(rows, pairs);
        rows.begin = members.begin;
        pairs = taken;
      }
      rows.end = members.end;
    });
    multiply_rows(rows, pairs);
  }

  // Whether all terms that a group takes, and one of its rows does not see, are finite.
  bool hides_finite_terms() const {
    std::uint32_t found = 0;
    for_each_group([&](const Interval&, const Interval& taken, const Interval& common) {
      if (common.is_empty()) {
        found |= carries_of(taken);
      } else {
        found |= carries_of({taken.begin, common.begin}) | carries_of({common.end, taken.end});
      }
    });
    return (found & carries) == 0;
  }

  // Numbers that are not finite become 0.
  void clean(bf16x2* panels) const {
    for_each_panel({0, whole_.depth}, [&](const bf16x2* words, index_t count) {
      bf16x2* word = panels + (words - whole_.b.data);
      tell_written(kernels_, reinterpret_cast<const float*>(words), count);
      for (index_t j = 0; j < count; ++j) {
        const std::uint32_t found = ((word[j].bits & exponents) + ones) & carries;
        word[j].bits &= ~((found >> 15) * 0xffffu);
      }
    });
  }

  // What was cleaned away, for those who see it.
  void add_others(const MatrixView<const bf16>& stored) const {
    const Mask seen_by = mask_.transposed();
    for (index_t q = 0; q < stored.rows; ++q) {
      const bf16* values = stored.row(q);
      tell_words_read(values, ceil_div(stored.cols, 2));
      if (std::all_of(values, values + stored.cols, is_finite)) continue;
      const Interval seeing =
          intersect(seen_by.of_row(terms_.begin + q, rows_.end), interval_of(rows_));
      for (index_t i = seeing.begin; i < seeing.end; ++i) add_term(i - rows_.begin, q, values);
    }
  }

 private:
  void tell_words_read(const void* first, index_t count) const {
    tell_read(kernels_, static_cast<const float*>(first), count);
  }

  void multiply_rows(const Interval& rows, const Interval& pairs) const {
    if (rows.is_empty()) return;
    kernels::Product<float, bf16x2> part = whole_;
    const index_t i = rows.begin - rows_.begin;
    part.rows = rows.size();
    part.depth = pairs.size();
    part.a.data += i * whole_.a.row + pairs.begin * whole_.a.depth;
    part.b.data += whole_.transposed ? pairs.begin : pairs.begin * whole_.b.row;
    part.c.data += whole_.transposed ? i : i * whole_.c.row;
    part.accumulate = true;
    part.ahead = {};  // each part would fetch them all
    if (part.row_scale != nullptr) part.row_scale += i;
    kernels_.pairs_of_bf16->product(part);
  }

  // Calls use(words, count) for some pairs of each panel, or of each column.
  template <class Use>
  void for_each_panel(const Interval& pairs, const Use& use) const {
    if (pairs.is_empty()) return;
    if (whole_.transposed) {
      for (index_t k = 0; k < whole_.cols; ++k)
        use(whole_.b.data + k * whole_.b.row + pairs.begin, pairs.size());
      return;
    }
    const index_t panels = ceil_div(whole_.cols, kernels_.tile.cols);
    for (index_t k = 0; k < panels; ++k)
      use(whole_.b.data + k * whole_.b.panel + pairs.begin * whole_.b.row,
          pairs.size() * whole_.b.row);
  }
  std::uint32_t carries_of(const Interval& pairs) const {
    std::uint32_t found = 0;
    for_each_panel(pairs, [&](const bf16x2* words, index_t count) {
      tell_words_read(words, count);
      for (index_t j = 0; j < count; ++j) found |= (words[j].bits & exponents) + ones;
    });
    return found;
  }

  // C[i] += A[i][q] B[q], of what is not finite. The kernel counts denormals as 0.
  void add_term(index_t i, index_t q, const bf16* values) const {
    const bf16x2* pair = whole_.a.at(i, q / 2);
    tell_words_read(pair, 1);
    const bf16 weight = {std::uint16_t(q % 2 == 0 ? pair->bits : pair->bits >> 16)};
    const index_t nr = kernels_.tile.cols;
    for (index_t k = 0; k < whole_.cols; ++k) {
      if (is_finite(values[k])) continue;
      float* sum = whole_.transposed ? whole_.c.data + k * whole_.c.row + i
                                     : whole_.c.row_of(k / nr, i) + k % nr;
      tell_written(kernels_, sum, 1);
      *sum += to_float(weight) * to_float(values[k]);
    }
  }

  const kernels::KernelTable<float>& kernels_;
  const kernels::Product<float, bf16x2>& whole_;
  const Mask& mask_;
  const Range &rows_, &terms_;
};

}  // namespace

bool masked_product(const kernels::KernelTable<float>& kernels,
                    const kernels::Product<float, bf16x2>& product, const Mask& mask,
                    const Range& rows, const Range& terms, bf16x2* panels,
                    const MatrixView<const bf16>& stored) {
  if (is_full(mask, interval_of(rows), interval_of(terms))) {
    kernels.pairs_of_bf16->product(product);
    return false;
  }
  const MaskedPairs pairs(kernels, product, mask, rows, terms);
  const bool is_clean = pairs.hides_finite_terms();
  if (!is_clean) pairs.clean(panels);
  pairs.multiply_groups();
  if (!is_clean) pairs.add_others(stored);
  return !is_clean;
}

}  // namespace ioattn::schedules
