#include "schedules/products/blocked_product.hpp"

#include <algorithm>

#include "schedules/memory/memory_moves.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

template <class T>
void gather(const kernels::KernelTable<T>& kernels, const T* from, index_t stride, index_t count,
            T* to) {
  for (index_t q = 0; q < count; ++q) copy_words(kernels, from + q * stride, 1, to + q);
}

// One element of C: gathers what is not contiguous and takes a dot product, as a tile would be
// almost empty.
template <class T>
void multiply_element(const kernels::KernelTable<T>& kernels, const T* a, index_t a_stride,
                      const T* b, index_t b_stride, index_t depth, T* c, bool accumulate, T* pack) {
  if (a_stride != 1) {
    gather(kernels, a, a_stride, depth, pack);
    a = pack;
  }
  if (b_stride != 1) {
    gather(kernels, b, b_stride, depth, pack + depth);
    b = pack + depth;
  }
  T sum;
  kernels.row_dot(1, depth, a, depth, b, depth, &sum);
  if (accumulate) tell_read(kernels, c, 1);
  tell_written(kernels, c, 1);
  *c = accumulate ? *c + sum : sum;
}

// The order of the blocks and their events.
template <class T, class Multiply>
void walk(const Trace& trace, const Factor<const T>& a, const Factor<const T>& b,
          const Factor<T>& c, index_t n1, index_t k, index_t n2, const ProductBlocks& blocks,
          const Multiply& multiply) {
  for (Range i(n1, blocks.rows); i; i.next()) {
    for (Range j(n2, blocks.cols); j; j.next()) {
      trace.create(c.block(i, j));
      for (Range q(k, blocks.depth); q; q.next()) {
        trace.read(a.block(i, q));
        trace.read(b.block(q, j));
        multiply(i, q, j);
        trace.remove(a.block(i, q));
        trace.remove(b.block(q, j));
      }
      trace.write_and_remove(c.block(i, j));
    }
  }
}

}  // namespace

index_t pack_elements(index_t rows, index_t depth, index_t cols, index_t nr) {
  return std::max(round_up(std::max(rows, cols), nr), index_t(2)) * depth;
}

template <class T>
kernels::Panels<const T> lane_panels(const kernels::KernelTable<T>& kernels,
                                     const Factor<const T>& lanes, const Range& q,
                                     const Range& lane, T* pack) {
  const index_t nr = kernels.tile.cols;
  if (lanes.padded && lanes.col_stride == 1) {
    return {lanes.at(q.begin, lane.begin), nr, lanes.row_stride};
  }
  kernels.pack(lanes.at(q.begin, lane.begin), lanes.col_stride, lanes.row_stride, lane.size(),
               q.size(), pack);
  return {pack, q.size() * nr, nr};
}

template <class T>
void multiply_panels(const kernels::KernelTable<T>& kernels, const Factor<const T>& a,
                     const kernels::Panels<const T>& b, const Factor<T>& c, const Range& i,
                     const Range& q, const Range& j, bool accumulate) {
  kernels::Product<T> p;
  p.rows = i.size();
  p.cols = j.size();
  p.depth = q.size();
  p.a = {a.at(i.begin, q.begin), a.row_stride, a.col_stride};
  p.b = b;
  p.c = {c.at(i.begin, j.begin), kernels.tile.cols, c.row_stride};
  p.accumulate = accumulate;
  kernels.product(p);
}

template <class T>
void multiply_lanes(const kernels::KernelTable<T>& kernels, const Factor<const T>& a,
                    const Factor<const T>& b, const Factor<T>& c, const Range& i, const Range& q,
                    const Range& j, bool accumulate, T* pack) {
  if (c.col_stride == 1) {
    multiply_panels(kernels, a, lane_panels(kernels, b, q, j, pack), c, i, q, j, accumulate);
  } else {
    multiply_panels(kernels, transposed(b), lane_panels(kernels, transposed(a), q, i, pack),
                    transposed_result(c), j, q, i, accumulate);
  }
}

template <class T>
void multiply_block(const kernels::KernelTable<T>& kernels, const Factor<const T>& a,
                    const Factor<const T>& b, const Factor<T>& c, const Range& i, const Range& q,
                    const Range& j, bool accumulate, T* pack) {
  if (i.size() == 1 && j.size() == 1) {
    multiply_element(kernels, a.at(i.begin, q.begin), a.col_stride, b.at(q.begin, j.begin),
                     b.row_stride, q.size(), c.at(i.begin, j.begin), accumulate, pack);
  } else {
    multiply_lanes(kernels, a, b, c, i, q, j, accumulate, pack);
  }
}

template <class T>
void blocked_product(const kernels::KernelTable<T>& kernels, const Trace& trace,
                     const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                     index_t n1, index_t k, index_t n2, const ProductBlocks& blocks, T* pack) {
  walk(trace, a, b, c, n1, k, n2, blocks, [&](const Range& i, const Range& q, const Range& j) {
    multiply_block(kernels, a, b, c, i, q, j, q.begin > 0, pack);
  });
}

template <class T>
void unblocked_product(const kernels::KernelTable<T>& kernels, const Trace& trace,
                       const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                       index_t n1, index_t k, index_t n2, index_t depth, T* pack) {
  const Range all_rows(n1, n1), all_terms(k, k), all_cols(n2, n2);
  multiply_block(kernels, a, b, c, all_rows, all_terms, all_cols, false, pack);
  if (!trace.is_observed()) return;
  walk(trace, a, b, c, n1, k, n2, ProductBlocks{1, 1, depth},
       [](const Range&, const Range&, const Range&) {});
}

#define IOATTN_INSTANTIATE(T)                                                                     \
  template kernels::Panels<const T> lane_panels(                                                  \
      const kernels::KernelTable<T>&, const Factor<const T>&, const Range&, const Range&, T*);    \
  template void multiply_panels(const kernels::KernelTable<T>&, const Factor<const T>&,           \
                                const kernels::Panels<const T>&, const Factor<T>&, const Range&,  \
                                const Range&, const Range&, bool);                                \
  template void multiply_lanes(const kernels::KernelTable<T>&, const Factor<const T>&,            \
                               const Factor<const T>&, const Factor<T>&, const Range&,            \
                               const Range&, const Range&, bool, T*);                             \
  template void multiply_block(const kernels::KernelTable<T>&, const Factor<const T>&,            \
                               const Factor<const T>&, const Factor<T>&, const Range&,            \
                               const Range&, const Range&, bool, T*);                             \
  template void blocked_product(const kernels::KernelTable<T>&, const Trace&,                     \
                                const Factor<const T>&, const Factor<const T>&, const Factor<T>&, \
                                index_t, index_t, index_t, const ProductBlocks&, T*);             \
  template void unblocked_product(const kernels::KernelTable<T>&, const Trace&,                   \
                                  const Factor<const T>&, const Factor<const T>&,                 \
                                  const Factor<T>&, index_t, index_t, index_t, index_t, T*)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
