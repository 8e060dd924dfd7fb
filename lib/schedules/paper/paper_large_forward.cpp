#include <algorithm>

#include "schedules/memory/workspace.hpp"
#include "schedules/paper/projections.hpp"
#include "schedules/range.hpp"
#include "schedules/schedules.hpp"
#include "schedules/softmax/online_softmax.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// The large-cache forward pass in FlashAttention-2 order: after phase 1, a row block of S and of O
// stays and blocks of keys and then of values stream past it.
namespace ioattn::schedules {
namespace {

template <class T>
class PaperLargeForward {
 public:
  explicit PaperLargeForward(const ForwardTask<T>& task)
      : task_(task),
        trace_(task.observer),
        kernels_(*task.kernels),
        n_(task.shape.n),
        m_(task.shape.m),
        d_(task.shape.d),
        e_(task.shape.dv),
        nr_(kernels_.tile.cols),
        r_(std::min(task.blocks.r, n_)),
        c_(std::min(task.blocks.c, m_)),
        tile_stride_(round_up(r_, nr_)),
        o_stride_(round_up(e_, nr_)),
        all_d_(d_, d_),
        all_e_(e_, e_),
        memory_(task.shape, task.blocks, nr_) {
    pack_ = memory_.add(pack_elements(r_, d_, c_, nr_));
    tile_ = memory_.add(c_ * tile_stride_);
    o_ = memory_.add(r_ * o_stride_);
    row_max_ = memory_.add(r_);
    row_sum_ = memory_.add(r_);
    rescale_ = memory_.add(r_);
  }

  Status run() {
    const Status projected = memory_.run(kernels_, trace_, task_.in, task_.memory);
    if (!projected.is_ok()) return projected;
    trace_.phase("FA2");
    for (Range i(n_, r_); i; i.next()) {
      start(i);
      for (Range j(m_, c_); j; j.next()) add_keys(i, j);
      finish(i);
    }
    return Status::ok();
  }

 private:
  void start(const Range& i) const {
    trace_.read(memory_.s().block(i, all_d_));
    trace_.create(part_of(Operand::O, i, all_e_));
    trace_.create(rows_of(Operand::row_max, i, 1));
    trace_.create(rows_of(Operand::row_sum, i, 1));
    begin_softmax(kernels_, memory_.at(row_max_), memory_.at(row_sum_), i.size());
  }

  // O_I = rescale O_I + f h_J
  void add_keys(const Range& i, const Range& j) const {
    const Factor<const T> keys = transposed(factor(Operand::A2, task_.in.a2)), h = memory_.h();
    const kernels::ScoreTile<T> tile = {memory_.at(tile_), tile_stride_, j.size(), i.size()};
    const Block scores = part_of(Operand::scores, i, j), rescale = rows_of(Operand::rescale, i, 1);
    trace_.read(keys.block(all_d_, j));
    trace_.create(scores);
    paper::scores(kernels_, memory_.s(), keys, i, j, d_, tile, memory_.at(pack_));
    trace_.remove(keys.block(all_d_, j));
    trace_.read(h.block(j, all_e_));
    trace_.create(rescale);
    kernels_.softmax_update(tile, true, memory_.at(row_max_), memory_.at(row_sum_),
                            memory_.at(rescale_));
    kernels::Product<T> p;
    p.rows = i.size();
    p.cols = e_;
    p.depth = j.size();
    p.a = {tile.data, 1, tile_stride_};
    p.b = {h.at(j.begin, 0), nr_, h.row_stride};
    p.c = {memory_.at(o_), nr_, o_stride_};
    p.accumulate = j.begin > 0;
    p.row_scale = memory_.at(rescale_);
    p.padded = true;
    kernels_.product(p);
    trace_.remove(rescale);
    trace_.remove(h.block(j, all_e_));
    trace_.remove(scores);
  }

  // Divides by the sums and writes O and LSE.
  void finish(const Range& i) const {
    for (index_t row = 0; row < i.size(); ++row) {
      const T *row_max = memory_.at(row_max_) + row, *row_sum = memory_.at(row_sum_) + row;
      const T inverse = inverse_sum(*row_sum);
      const T* o = memory_.at(o_) + row * o_stride_;
      T* target = task_.o.row(i.begin + row);
      tell_read(kernels_, row_sum, 1);
      tell_read(kernels_, o, e_);
      tell_written(kernels_, target, e_);
      for (index_t k = 0; k < e_; ++k) target[k] = o[k] * inverse;
      write_lse(kernels_, row_max, row_sum, task_.lse + i.begin + row);
    }
    trace_.write_and_remove(part_of(Operand::O, i, all_e_));
    trace_.write_and_remove(rows_of(Operand::row_sum, i, 1));  // LSE takes its place
    trace_.remove(rows_of(Operand::row_max, i, 1));
    trace_.remove(memory_.s().block(i, all_d_));
  }

  const ForwardTask<T>& task_;
  Trace trace_;
  const kernels::KernelTable<T>& kernels_;
  index_t n_, m_, d_, e_, nr_;
  index_t r_, c_, tile_stride_, o_stride_;
  Range all_d_, all_e_;
  paper::Projections<T> memory_;
  Slot<T> pack_;
  Slot<T> tile_;  // [c][r]
  Slot<T> o_;     // [r][dv]
  Slot<T> row_max_, row_sum_, rescale_;
};

}  // namespace

template <class T>
Status paper_large_forward(const ForwardTask<T>& task) {
  return PaperLargeForward<T>(task).run();
}

template Status paper_large_forward(const ForwardTask<float>&);
template Status paper_large_forward(const ForwardTask<double>&);

}  // namespace ioattn::schedules
