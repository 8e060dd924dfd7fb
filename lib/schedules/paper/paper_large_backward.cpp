#include <algorithm>

#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/paper/projections.hpp"
#include "schedules/range.hpp"
#include "schedules/schedules.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// Paper, Alg. 7-9: S and h once, then g = dX, a row block of S, dO, A1 and tiles of B_r x B_c. The
// fitted form deletes h_J after q; the literal one keeps it, as printed, and overflows M.
namespace ioattn::schedules {
namespace {

template <class T>
class PaperLargeBackward {
 public:
  explicit PaperLargeBackward(const BackwardTask<T>& task)
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
        t_stride_(round_up(d_, nr_)),
        all_d_(d_, d_),
        all_e_(e_, e_),
        memory_(task.shape, task.blocks, nr_) {
    pack_ = memory_.add(std::max(pack_elements(r_, e_, c_, nr_), pack_elements(c_, c_, d_, nr_)));
    a1_ = memory_.add(round_up(d_, nr_) * r_);
    f_ = memory_.add(c_ * tile_stride_);
    p_ = memory_.add(c_ * tile_stride_);
    t_ = memory_.add(c_ * t_stride_);
    delta_ = memory_.add(r_);
  }

  Status run() {
    const Status projected = memory_.run(kernels_, trace_, task_.in, task_.memory);
    if (!projected.is_ok()) return projected;
    trace_.phase("P2");
    const Block g = part_of(Operand::dX, all_d_, all_d_);
    trace_.create(g);
    for (index_t k = 0; k < d_; ++k) fill_words(kernels_, task_.dx.row(k), d_, T(0));
    for (Range i(n_, r_); i; i.next()) add_rows(i);
    trace_.write_and_remove(g);
    return Status::ok();
  }

 private:
  // g += A1_I^T p A2 for a row block.
  void add_rows(const Range& i) const {
    const Block s = memory_.s().block(i, all_d_), a1 = part_of(Operand::A1, i, all_d_);
    const Block o = part_of(Operand::O, i, all_e_), d_o = part_of(Operand::dO, i, all_e_);
    const Block lse = rows_of(Operand::LSE, i, 1), delta = rows_of(Operand::delta, i, 1);
    for (const Block& read : {s, o, d_o, a1}) trace_.read(read);
    kernels_.pack(task_.in.a1.row(i.begin), 1, task_.in.a1.stride, d_, i.size(), memory_.at(a1_));
    trace_.read(lse);
    trace_.create(delta);
    kernels_.row_dot(i.size(), e_, task_.o.row(i.begin), task_.o.stride, task_.d_o.row(i.begin),
                     task_.d_o.stride, memory_.at(delta_));
    trace_.remove(o);
    for (Range j(m_, c_); j; j.next()) add_keys(i, j);
    for (const Block& read : {s, d_o, a1, lse}) trace_.remove(read);
    trace_.remove(delta);
  }

  void add_keys(const Range& i, const Range& j) const {
    const Block h = memory_.h().block(j, all_e_), a2 = part_of(Operand::A2, j, all_d_);
    const Block q = part_of(Operand::q, i, j), p = part_of(Operand::p, i, j);
    trace_.read(h);
    trace_.create(q);
    paper::scores(kernels_, factor(Operand::dO, task_.d_o), transposed(memory_.h()), i, j, e_,
                  tile_of(p_, i, j), memory_.at(pack_));
    if (!task_.blocks.literal) trace_.remove(h);
    trace_.read(a2);
    make_p(i, j);
    trace_.remove(q);
    add_to_g(i, j);
    trace_.remove(a2);
    trace_.remove(p);
    if (task_.blocks.literal) trace_.remove(h);
  }

  // p = f o (q - delta), in the place of q
  void make_p(const Range& i, const Range& j) const {
    const kernels::ScoreTile<T> f = tile_of(f_, i, j), p = tile_of(p_, i, j);
    const Block scores = part_of(Operand::scores, i, j), weights = part_of(Operand::f, i, j);
    trace_.create(scores);
    paper::scores(kernels_, memory_.s(), transposed(factor(Operand::A2, task_.in.a2)), i, j, d_, f,
                  memory_.at(pack_));
    trace_.create(weights);
    kernels_.exp_tile(f, task_.lse + i.begin);
    trace_.remove(scores);
    trace_.create(part_of(Operand::p, i, j));
    kernels_.gradient_tile(f, p, memory_.at(delta_), p);
    trace_.remove(weights);
  }

  // g += T A2_J with T = A1_I^T p, kept as T^T [keys][d]
  void add_to_g(const Range& i, const Range& j) const {
    const kernels::ScoreTile<T> p = tile_of(p_, i, j);
    T* t = memory_.at(t_);
    trace_.create(part_of(Operand::T, all_d_, j));
    kernels::Product<T> product;
    product.rows = j.size();
    product.cols = d_;
    product.depth = i.size();
    product.a = {p.data, tile_stride_, 1};
    product.b = {memory_.at(a1_), i.size() * nr_, nr_};
    product.c = {t, nr_, t_stride_};
    product.padded = true;
    kernels_.product(product);
    const Factor<const T> left = {Operand::T, t, 1, t_stride_, false, false};
    const Factor<const T> a2 = part_from(factor(Operand::A2, task_.in.a2), j.begin, 0);
    const Factor<T> dx = {Operand::dX, task_.dx.data, task_.dx.stride};
    multiply_block(kernels_, left, a2, dx, all_d_, from_0(j), all_d_, true, memory_.at(pack_));
    trace_.remove(part_of(Operand::T, all_d_, j));
  }

  // Tiles are key-major and lie at the origin of their buffers.
  kernels::ScoreTile<T> tile_of(const Slot<T>& slot, const Range& i, const Range& j) const {
    return {memory_.at(slot), tile_stride_, j.size(), i.size()};
  }

  const BackwardTask<T>& task_;
  Trace trace_;
  const kernels::KernelTable<T>& kernels_;
  index_t n_, m_, d_, e_, nr_;
  index_t r_, c_, tile_stride_, t_stride_;
  Range all_d_, all_e_;
  paper::Projections<T> memory_;
  Slot<T> pack_;
  Slot<T> a1_;     // panels [d][r]
  Slot<T> f_, p_;  // [c][r]; p_: q first
  Slot<T> t_;      // [c][d]
  Slot<T> delta_;
};

}  // namespace

template <class T>
Status paper_large_backward(const BackwardTask<T>& task) {
  return PaperLargeBackward<T>(task).run();
}

template Status paper_large_backward(const BackwardTask<float>&);
template Status paper_large_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
