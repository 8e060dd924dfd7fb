#include "schedules/products/pair_product.hpp"

#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/sdpa_heads.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

PairProduct::PairProduct(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks, index_t nr,
                         int threads, WorkspaceLayout* layout, RoundedSums rounded)
    : n1_(n1),
      k_(k),
      n2_(n2),
      nr_(nr),
      blocks_(cut_blocks(n1, k, n2, blocks, nr, threads)),
      rounded_(rounded),
      threads_(threads),
      sum_stride_(padded_stride(blocks_.cols, nr)) {
  // Of rows of A that stay every block of terms begins with a word of its own.
  const index_t parts = blocks_.keep_a ? ceil_div(k, blocks_.depth) : 1;
  a_stride_ = padded_stride(parts * words_of<Word>(blocks_.depth), nr);
  worker_.a = workers_.add<Word>(blocks_.rows * a_stride_);
  worker_.b = workers_.add<Word>(words_of<Word>(blocks_.depth) * round_up(blocks_.cols, nr));
  worker_.sums = workers_.add<float>(blocks_.rows * sum_stride_);
  workers_.add_to(layout, threads);
}

void PairProduct::run(const kernels::KernelTable<float>& kernels, const Trace& trace,
                      const Factor<const bf16>& a, const Factor<const bf16>& b,
                      const Factor<bf16>& c, void* workspace) const {
  for_each_block(
      threads_, 1, ceil_div(n1_, blocks_.rows), [](int) {},
      [&](index_t, index_t block, int worker) {
        add_rows(kernels, trace, a, b, c, Range(block * blocks_.rows, n1_, blocks_.rows),
                 workers_.of(worker, workspace));
      },
      kernels.pairs_of_bf16);
}

PairProduct::Rows PairProduct::words_of_rows(const kernels::KernelTable<float>& kernels,
                                             const Factor<const bf16>& a, const Range& rows,
                                             const Range& terms, Word* copy) const {
  const bf16* first = a.at(rows.begin, terms.begin);
  if (are_words<Word>(first, a.row_stride, terms.size()))
    return {reinterpret_cast<const Word*>(first), a.row_stride / 2};
  kernels.pairs_of_bf16->copy(first, a.row_stride, rows.size(), terms.size(), copy, a_stride_);
  return {copy, a_stride_};
}

void PairProduct::add_rows(const kernels::KernelTable<float>& kernels, const Trace& trace,
                           const Factor<const bf16>& a, const Factor<const bf16>& b,
                           const Factor<bf16>& c, const Range& rows, void* local) const {
  const Range all(k_, k_);
  Word* const copy = worker_.a.in(local);
  Word* const panels = worker_.b.in(local);
  float* const sums = worker_.sums.in(local);
  if (blocks_.keep_a) trace.read(a.block(rows, all));
  for (Range j(n2_, blocks_.cols); j; j.next()) {
    trace.create(c.block(rows, j));
    index_t part = 0;
    for (Range q(k_, blocks_.depth); q; q.next(), ++part) {
      if (!blocks_.keep_a) trace.read(a.block(rows, q));
      trace.read(b.block(q, j));
      // Copies of rows that stay are made beside the first columns.
      Word* const place = copy + (blocks_.keep_a ? part * words_of<Word>(blocks_.depth) : 0);
      const bool is_copied = blocks_.keep_a && j.begin > 0 &&
                             !are_words<Word>(a.at(rows.begin, q.begin), a.row_stride, q.size());
      const Rows terms =
          is_copied ? Rows{place, a_stride_} : words_of_rows(kernels, a, rows, q, place);
      kernels.pairs_of_bf16->pack(b.at(q.begin, j.begin), 1, b.row_stride, j.size(), q.size(),
                                  panels);
      kernels::Product<float, Word> p;
      p.rows = rows.size();
      p.cols = j.size();
      p.depth = words_of<Word>(q.size());
      p.a = {terms.data, terms.stride, 1};
      p.b = {panels, p.depth * nr_, nr_};
      p.c = {sums, nr_, sum_stride_};
      p.accumulate = q.begin > 0;
      p.padded = true;
      kernels.pairs_of_bf16->product(p);
      if (!blocks_.keep_a) trace.remove(a.block(rows, q));
      trace.remove(b.block(q, j));
    }
    round(kernels, trace, sums, c, rows, j);
  }
  if (blocks_.keep_a) trace.remove(a.block(rows, all));
}

void PairProduct::round(const kernels::KernelTable<float>& kernels, const Trace& trace, float* sums,
                        const Factor<bf16>& c, const Range& rows, const Range& cols) const {
  bf16* const first = c.at(rows.begin, cols.begin);
  const auto store = [&](bf16* to) {
    store_rows<bf16>(kernels, sums, sum_stride_, rows.size(), cols.size(), 1, false, to,
                     c.row_stride);
  };
  store(first);
  if (rounded_ == RoundedSums::once) {
    trace.write_rounded_and_remove(c.block(rows, cols));
    return;
  }
  subtract_rounded(kernels, first, c.row_stride, rows.size(), cols.size(), sums, sum_stride_);
  store(c.at(n1_ + rows.begin, cols.begin));
  trace.write_and_remove(c.block(rows, cols));
}

}  // namespace ioattn::schedules
