#include <algorithm>

#include "schedules/memory_moves.hpp"
#include "schedules/paper/projections.hpp"
#include "schedules/schedules.hpp"

// Paper, Alg. 7-9: S and h once, then g = dX, a row block of S, dO, A1 and tiles of B_r x B_c. The
// fitted form deletes h_J after q; the literal one keeps it, as printed, and overflows M.
namespace ioattn::schedules {

template <class T>
Status paper_large_backward(const BackwardTask<T>& task) {
  const auto [n, m, d, e, tie, mask] = task.shape;
  const index_t r = std::min(task.blocks.r, n);
  const index_t c = std::min(task.blocks.c, m);
  const bool literal = task.blocks.literal;
  const Trace trace(task.observer);
  const kernels::KernelTable<T>& kernels = *task.kernels;
  const index_t nr = kernels.tile.cols;

  paper::Projections<T> memory(task.shape, task.blocks, nr);
  const index_t tile_stride = round_up(r, nr);
  const index_t t_stride = round_up(d, nr);
  const Slot<T> pack_slot =
      memory.add(std::max(pack_elements(r, e, c, nr), pack_elements(c, c, d, nr)));
  const Slot<T> a1_slot = memory.add(round_up(d, nr) * r);
  const Slot<T> weight_slot = memory.add(c * tile_stride);
  const Slot<T> gradient_slot = memory.add(c * tile_stride);
  const Slot<T> t_slot = memory.add(c * t_stride);
  const Slot<T> delta_slot = memory.add(r);
  const Status projected = memory.run(kernels, trace, task.in, task.memory);
  if (!projected.is_ok()) return projected;

  trace.phase("P2");
  T* pack = memory.at(pack_slot);
  T* a1_panels = memory.at(a1_slot);
  T* t = memory.at(t_slot);
  T* delta = memory.at(delta_slot);
  const Factor<const T> s = memory.s();
  const Factor<const T> h = memory.h();
  const Factor<const T> keys = transposed(factor(Operand::A2, task.in.a2));
  const Factor<const T> d_o = factor(Operand::dO, task.d_o);
  const Range all_d(d, d), all_e(e, e);

  const Block g = {Operand::dX, 0, 0, d, d};
  trace.create(g);
  for (index_t k = 0; k < d; ++k) fill_words(kernels, task.dx.row(k), d, T(0));
  for (Range i(n, r); i; i.next()) {
    const Block lse = {Operand::LSE, i.begin, 0, i.size(), 1};
    const Block delta_block = {Operand::delta, i.begin, 0, i.size(), 1};
    const Block o = {Operand::O, i.begin, 0, i.size(), e};
    const Block a1 = {Operand::A1, i.begin, 0, i.size(), d};
    trace.read(s.block(i, all_d));
    trace.read(o);
    trace.read(d_o.block(i, all_e));
    trace.read(a1);
    kernels.pack(task.in.a1.row(i.begin), 1, task.in.a1.stride, d, i.size(), a1_panels);
    trace.read(lse);
    trace.create(delta_block);
    kernels.row_dot(i.size(), e, task.o.row(i.begin), task.o.stride, task.d_o.row(i.begin),
                    task.d_o.stride, delta);
    trace.remove(o);

    for (Range j(m, c); j; j.next()) {
      // Tiles are key-major and lie at the origin of their buffers.
      const kernels::ScoreTile<T> f = {memory.at(weight_slot), tile_stride, j.size(), i.size()};
      const kernels::ScoreTile<T> p = {memory.at(gradient_slot), tile_stride, j.size(), i.size()};
      const Range local_j(j.size(), j.size());
      const Block f_block = {Operand::f, i.begin, j.begin, i.size(), j.size()};
      const Block q_block = {Operand::q, i.begin, j.begin, i.size(), j.size()};
      const Block p_block = {Operand::p, i.begin, j.begin, i.size(), j.size()};
      const Block score_block = {Operand::scores, i.begin, j.begin, i.size(), j.size()};
      const Block h_block = h.block(j, all_e);
      const Block a2_block = keys.block(all_d, j);
      const Block t_block = {Operand::T, 0, j.begin, d, j.size()};

      trace.read(h_block);
      trace.create(q_block);
      paper::scores(kernels, d_o, transposed(h), i, j, e, p, pack);
      if (!literal) trace.remove(h_block);
      trace.read(a2_block);
      trace.create(score_block);
      paper::scores(kernels, s, keys, i, j, d, f, pack);
      trace.create(f_block);
      kernels.exp_tile(f, task.lse + i.begin);
      trace.remove(score_block);
      trace.create(p_block);
      kernels.gradient_tile(f, p, delta, p);
      trace.remove(f_block);
      trace.remove(q_block);

      trace.create(t_block);  // T = A1_I^T p, kept as T^T [keys][d]
      kernels::Product<T> product;
      product.rows = j.size();
      product.cols = d;
      product.depth = i.size();
      product.a = {p.data, tile_stride, 1};
      product.b = {a1_panels, i.size() * nr, nr};
      product.c = {t, nr, t_stride};
      product.padded = true;
      kernels.product(product);

      const Factor<const T> t_factor = {Operand::T, t, 1, t_stride, false, false};
      const Factor<const T> a2 = {Operand::A2, task.in.a2.row(j.begin), task.in.a2.stride, 1, false,
                                  false};
      const Factor<T> dx = {Operand::dX, task.dx.data, task.dx.stride, 1, false, false};
      multiply_block(kernels, t_factor, a2, dx, all_d, local_j, all_d, true, pack);
      trace.remove(t_block);
      trace.remove(a2_block);
      trace.remove(p_block);
      if (literal) trace.remove(h_block);
    }
    trace.remove(s.block(i, all_d));
    trace.remove(d_o.block(i, all_e));
    trace.remove(a1);
    trace.remove(lse);
    trace.remove(delta_block);
  }
  trace.write_and_remove(g);
  return Status::ok();
}

template Status paper_large_backward(const BackwardTask<float>&);
template Status paper_large_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
