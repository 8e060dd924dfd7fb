#include "schedules/paper/square_blocks.hpp"

#include <algorithm>

#include "schedules/range.hpp"
#include "schedules/softmax/online_softmax.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules::paper {

template <class T>
SquareBlocks<T>::SquareBlocks(const LayerShape& shape, index_t side, index_t depth, index_t nr)
    : side_(side), depth_(depth), nr_(nr) {
  const index_t longest = std::max({shape.n, shape.m, shape.d, shape.dv});
  const index_t lanes = std::min(side, longest);
  // Elements one at a time are computed a matrix at a time (unblocked_product).
  const index_t packed = side == 1 ? longest : lanes;
  pack_ = layout_.add<T>(
      pack_elements(packed, side == 1 ? longest : std::min(depth, longest), packed, nr));
  row_max_ = layout_.add<T>(lanes);
  row_sum_ = layout_.add<T>(lanes);
}

template <class T>
typename SquareBlocks<T>::Matrix SquareBlocks<T>::by_row(index_t rows, index_t cols) {
  const index_t stride = round_up(cols, nr_);
  return {layout_.add<T>(rows * stride + nr_), stride};
}

template <class T>
void SquareBlocks<T>::softmax_rows(const kernels::KernelTable<T>& kernels, const Trace& trace,
                                   const Factor<const T>& s, const Factor<const T>& a2,
                                   const Factor<T>& scores, const Range& i, index_t m,
                                   index_t d) const {
  trace.create({Operand::row_max, i.begin, 0, i.size(), 1});
  trace.create({Operand::row_sum, i.begin, 0, i.size(), 1});
  T* row_max = row_max_.in(buffer_.data());
  begin_softmax(kernels, row_max, row_sum(), i.size());
  const Factor<const T> keys = transposed(a2);
  if (side_ == 1) {
    multiply_block(kernels, s, keys, scores, i, Range(d, d), Range(m, m), false, pack());
  }
  for (Range j(m, side_); j; j.next()) {
    const Block raw = {Operand::scores, i.begin, j.begin, i.size(), j.size()};
    trace.create(raw);
    for (Range q(d, depth_); q; q.next()) {
      trace.read(s.block(i, q));
      trace.read(keys.block(q, j));
      if (side_ > 1) multiply_block(kernels, s, keys, scores, i, q, j, q.begin > 0, pack());
      trace.remove(s.block(i, q));
      trace.remove(keys.block(q, j));
    }
    kernels.softmax_update(tile(scores, i, j), false, row_max, row_sum(), nullptr);
    trace.write_and_remove(raw);
  }
  finish_statistics(kernels, i.size());
}

template <class T>
void SquareBlocks<T>::set_lse(const kernels::KernelTable<T>& kernels,
                              const kernels::ScoreTile<T>& scores) const {
  T* row_max = row_max_.in(buffer_.data());
  begin_softmax(kernels, row_max, row_sum(), scores.queries);
  kernels.softmax_update(scores, false, row_max, row_sum(), nullptr);
  finish_statistics(kernels, scores.queries);
}

template <class T>
void SquareBlocks<T>::finish_statistics(const kernels::KernelTable<T>& kernels,
                                        index_t rows) const {
  T* row_max = row_max_.in(buffer_.data());
  const T* row_sum = row_sum_.in(buffer_.data());
  tell_read(kernels, row_sum, rows);
  for (index_t row = 0; row < rows; ++row)
    write_lse(kernels, row_max + row, row_sum + row, row_max + row);
}

template class SquareBlocks<float>;
template class SquareBlocks<double>;

}  // namespace ioattn::schedules::paper
