#include "schedules/paper/projections.hpp"

#include <algorithm>

#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules::paper {

template <class T>
Projections<T>::Projections(const LayerShape& shape, const Blocks& blocks, index_t nr)
    : shape_(shape),
      blocks_(blocks),
      s_stride_(round_up(shape.n, nr)),
      h_stride_(round_up(shape.dv, nr)) {
  const index_t r = std::min(blocks.r, std::max(shape.n, shape.m));
  const index_t c = std::min(blocks.c, std::max(shape.d, shape.dv));
  s_ = layout_.add<T>(shape.d * s_stride_ + nr);  // S^T [d][n]
  h_ = layout_.add<T>(shape.m * h_stride_ + nr);
  pack_ = layout_.add<T>(pack_elements(r, shape.d, c, nr));
}

template <class T>
Factor<const T> Projections<T>::s() const {
  return {Operand::S, at(s_), 1, s_stride_, false, true};
}

template <class T>
Factor<const T> Projections<T>::h() const {
  return {Operand::h, at(h_), h_stride_, 1, false, true};
}

template <class T>
Status Projections<T>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                           const LayerInputs<T>& in, CallerMemory* caller) {
  const Status allocated = layout_.allocate(caller, &buffer_);
  if (!allocated.is_ok()) return allocated;
  const index_t d = shape_.d;
  T* pack = at(pack_);
  const Range all(d, d);
  const Factor<const T> a1 = factor(Operand::A1, in.a1), a3 = factor(Operand::A3, in.a3);
  const Factor<const T> x = factor(Operand::X, in.x), y = factor(Operand::Y, in.y);
  const Factor<T> s = {Operand::S, at(s_), 1, s_stride_, false, true};
  const Factor<T> h = {Operand::h, at(h_), h_stride_, 1, false, true};

  const auto block = [&](const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                         const Range& i, const Range& j) {
    if (!j) return;
    trace.read(b.block(all, j));
    trace.create(c.block(i, j));
    multiply_block(kernels, a, b, c, i, all, j, false, pack);
    trace.write_and_remove(c.block(i, j));
    trace.remove(b.block(all, j));
  };

  trace.phase("P1");
  if (shape_.n == shape_.m) {
    for (Range i(shape_.n, blocks_.r); i; i.next()) {
      trace.read(a1.block(i, all));
      trace.read(a3.block(i, all));
      Range j(d, blocks_.c), k(shape_.dv, blocks_.c);
      for (; j || k; j.next(), k.next()) {
        block(a1, x, s, i, j);
        block(a3, y, h, i, k);
      }
      trace.remove(a1.block(i, all));
      trace.remove(a3.block(i, all));
    }
    return Status::ok();
  }
  const auto loop = [&](const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                        index_t rows, index_t cols) {
    for (Range i(rows, blocks_.r); i; i.next()) {
      trace.read(a.block(i, all));
      for (Range j(cols, blocks_.c); j; j.next()) block(a, b, c, i, j);
      trace.remove(a.block(i, all));
    }
  };
  loop(a1, x, s, shape_.n, d);
  loop(a3, y, h, shape_.m, shape_.dv);
  return Status::ok();
}

template <class T>
void scores(const kernels::KernelTable<T>& kernels, const Factor<const T>& left,
            const Factor<const T>& right, const Range& i, const Range& j, index_t depth,
            const kernels::ScoreTile<T>& tile, T* pack) {
  const Range all(depth, depth);
  const Factor<T> c = {Operand::scores, tile.data, 1, tile.stride, false, false};
  multiply_block(kernels, part_from(left, i.begin, 0), part_from(right, 0, j.begin), c, from_0(i),
                 all, from_0(j), false, pack);
}

#define IOATTN_INSTANTIATE(T)                                                       \
  template class Projections<T>;                                                    \
  template void scores(const kernels::KernelTable<T>&, const Factor<const T>&,      \
                       const Factor<const T>&, const Range&, const Range&, index_t, \
                       const kernels::ScoreTile<T>&, T*)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules::paper
