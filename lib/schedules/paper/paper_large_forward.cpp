#include <algorithm>
#include <cmath>

#include "schedules/online_softmax.hpp"
#include "schedules/paper/projections.hpp"
#include "schedules/schedules.hpp"

// The large-cache forward pass in FlashAttention-2 order: after phase 1, a row block of S and of O
// stays and blocks of keys and then of values stream past it.
namespace ioattn::schedules {

template <class T>
Status paper_large_forward(const ForwardTask<T>& task) {
  const auto [n, m, d, e, tie, mask] = task.shape;
  const index_t r = std::min(task.blocks.r, n);
  const index_t c = std::min(task.blocks.c, m);
  const Trace trace(task.observer);
  const kernels::KernelTable<T>& kernels = *task.kernels;
  const index_t nr = kernels.tile.cols;

  paper::Projections<T> memory(task.shape, task.blocks, nr);
  const index_t tile_stride = round_up(r, nr);
  const index_t o_stride = round_up(e, nr);
  const Slot<T> pack_slot = memory.add(pack_elements(r, d, c, nr));
  const Slot<T> tile_slot = memory.add(c * tile_stride);
  const Slot<T> o_slot = memory.add(r * o_stride);
  const Slot<T> max_slot = memory.add(r);
  const Slot<T> sum_slot = memory.add(r);
  const Slot<T> rescale_slot = memory.add(r);
  const Status projected = memory.run(kernels, trace, task.in, task.memory);
  if (!projected.is_ok()) return projected;

  trace.phase("FA2");
  T* row_max = memory.at(max_slot);
  T* row_sum = memory.at(sum_slot);
  T* rescale = memory.at(rescale_slot);
  T* o = memory.at(o_slot);
  const Factor<const T> s = memory.s();
  const Factor<const T> h = memory.h();
  const Factor<const T> keys = transposed(factor(Operand::A2, task.in.a2));
  const Range all_d(d, d), all_e(e, e);

  for (Range i(n, r); i; i.next()) {
    const Block o_block = {Operand::O, i.begin, 0, i.size(), e};
    const Block max_block = {Operand::row_max, i.begin, 0, i.size(), 1};
    const Block sum_block = {Operand::row_sum, i.begin, 0, i.size(), 1};
    const Block rescale_block = {Operand::rescale, i.begin, 0, i.size(), 1};
    trace.read(s.block(i, all_d));
    trace.create(o_block);
    trace.create(max_block);
    trace.create(sum_block);
    begin_softmax(kernels, row_max, row_sum, i.size());
    for (Range j(m, c); j; j.next()) {
      const kernels::ScoreTile<T> tile = {memory.at(tile_slot), tile_stride, j.size(), i.size()};
      const Block tile_block = {Operand::scores, i.begin, j.begin, i.size(), j.size()};
      trace.read(keys.block(all_d, j));
      trace.create(tile_block);
      paper::scores(kernels, s, keys, i, j, d, tile, memory.at(pack_slot));
      trace.remove(keys.block(all_d, j));
      trace.read(h.block(j, all_e));
      trace.create(rescale_block);
      kernels.softmax_update(tile, true, row_max, row_sum, rescale);
      kernels::Product<T> p;
      p.rows = i.size();
      p.cols = e;
      p.depth = j.size();
      p.a = {tile.data, 1, tile_stride};
      p.b = {h.at(j.begin, 0), nr, h.row_stride};
      p.c = {o, nr, o_stride};
      p.accumulate = j.begin > 0;
      p.row_scale = rescale;
      p.padded = true;
      kernels.product(p);
      trace.remove(rescale_block);
      trace.remove(h.block(j, all_e));
      trace.remove(tile_block);
    }
    for (index_t row = 0; row < i.size(); ++row) {
      const T inverse = T(1) / row_sum[row];
      T* target = task.o.row(i.begin + row);
      tell_read(kernels, o + row * o_stride, e);
      tell_written(kernels, target, e);
      tell_written(kernels, task.lse + i.begin + row, 1);
      for (index_t k = 0; k < e; ++k) target[k] = o[row * o_stride + k] * inverse;
      task.lse[i.begin + row] = row_max[row] + std::log(row_sum[row]);
    }
    trace.write_and_remove(o_block);
    trace.write_and_remove(sum_block);  // LSE takes the place of the running sum
    trace.remove(max_block);
    trace.remove(s.block(i, all_d));
  }
  return Status::ok();
}

template Status paper_large_forward(const ForwardTask<float>&);
template Status paper_large_forward(const ForwardTask<double>&);

}  // namespace ioattn::schedules
