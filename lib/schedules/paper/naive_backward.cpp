#include <algorithm>

#include "schedules/memory/memory_moves.hpp"
#include "schedules/paper/square_blocks.hpp"
#include "schedules/range.hpp"
#include "schedules/schedules.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// Paper, Alg. 1 as printed: every matrix whole, in fast memory. O and LSE are not inputs. When M is
// too small for that (blocks.r = 1), nothing is reused: the phases of paper_small with one word of
// a result at a time.
namespace ioattn::schedules {
namespace {

template <class T>
class NaiveBackward {
 public:
  explicit NaiveBackward(const BackwardTask<T>& task)
      : task_(task),
        trace_(task.observer),
        kernels_(*task.kernels),
        n_(task.shape.n, task.shape.n),
        m_(task.shape.m, task.shape.m),
        d_(task.shape.d, task.shape.d),
        e_(task.shape.dv, task.shape.dv),
        blocks_(task.shape, longest(task.shape), longest(task.shape), kernels_.tile.cols),
        s_(blocks_.by_row(d_.size(), n_.size())),
        f_(blocks_.by_row(m_.size(), n_.size())),
        h_(blocks_.by_row(m_.size(), e_.size())),
        p_(blocks_.by_row(m_.size(), n_.size())),
        t_(blocks_.by_row(m_.size(), d_.size())) {}

  Status run() {
    const Status allocated = blocks_.allocate(task_.memory);
    if (!allocated.is_ok()) return allocated;
    trace_.phase("forward");
    trace_.read(rows_of(Operand::A1, n_, d_.size()));
    trace_.read(rows_of(Operand::A2, m_, d_.size()));
    make_weights();
    trace_.phase("backward");
    make_gradients();
    make_dx();
    trace_.remove(rows_of(Operand::A1, n_, d_.size()));
    trace_.remove(rows_of(Operand::A2, m_, d_.size()));
    return Status::ok();
  }

 private:
  // f = softmax(A1 X A2^T)
  void make_weights() const {
    const Factor<const T> x = factor(Operand::X, task_.in.x);
    const Factor<T> s = blocks_.columns_first(Operand::S, s_);
    const Factor<T> f = blocks_.columns_first(Operand::f, f_);
    const Block scores = part_of(Operand::scores, n_, m_);
    const Block row_sum = rows_of(Operand::row_sum, n_, 1);
    trace_.read(x.block(d_, d_));
    trace_.create(scores);
    trace_.create(s.block(n_, d_));
    multiply(factor(Operand::A1, task_.in.a1), x, s, n_, d_, d_);
    multiply(as_const(s), transposed(factor(Operand::A2, task_.in.a2)), f, n_, d_, m_);
    trace_.remove(s.block(n_, d_));
    trace_.remove(x.block(d_, d_));
    trace_.create(row_sum);
    blocks_.set_lse(kernels_, blocks_.tile(f, n_, m_));
    trace_.create(f.block(n_, m_));
    kernels_.exp_tile(blocks_.tile(f, n_, m_), blocks_.lse());
    trace_.remove(scores);
    trace_.remove(row_sum);
  }

  // p = f o (q - delta) with q = dO (A3 Y)^T and delta = rowsum(f o q)
  void make_gradients() const {
    const Factor<const T> a3 = factor(Operand::A3, task_.in.a3), y = factor(Operand::Y, task_.in.y);
    const Factor<const T> d_o = factor(Operand::dO, task_.d_o);
    const Factor<T> f = blocks_.columns_first(Operand::f, f_);
    const Factor<T> h = blocks_.rows_first(Operand::h, h_);
    const Factor<T> p = blocks_.columns_first(Operand::p, p_);
    const Block q = part_of(Operand::q, n_, m_);
    const Block delta = rows_of(Operand::delta, n_, 1);
    trace_.read(a3.block(m_, d_));
    trace_.read(y.block(d_, e_));
    trace_.create(h.block(m_, e_));
    multiply(a3, y, h, m_, d_, e_);
    trace_.remove(a3.block(m_, d_));
    trace_.remove(y.block(d_, e_));
    trace_.read(d_o.block(n_, e_));
    trace_.create(q);
    multiply(d_o, transposed(as_const(h)), p, n_, e_, m_);
    trace_.remove(d_o.block(n_, e_));
    trace_.remove(h.block(m_, e_));
    trace_.create(p.block(n_, m_));
    trace_.create(delta);
    fill_words(kernels_, blocks_.row_sum(), n_.size(), T(0));
    const kernels::ScoreTile<T> f_tile = blocks_.tile(f, n_, m_);
    const kernels::ScoreTile<T> p_tile = blocks_.tile(p, n_, m_);
    kernels_.dot_tile(f_tile, p_tile, blocks_.row_sum());
    kernels_.gradient_tile(f_tile, p_tile, blocks_.row_sum(), p_tile);
    trace_.remove(f.block(n_, m_));
    trace_.remove(q);
    trace_.remove(delta);
  }

  // dX = (A1^T p) A2
  void make_dx() const {
    const Factor<const T> p = as_const(blocks_.columns_first(Operand::p, p_));
    const Factor<T> t = blocks_.columns_first(Operand::T, t_);
    const Factor<T> dx = {Operand::dX, task_.dx.data, task_.dx.stride};
    trace_.create(t.block(d_, m_));
    multiply(transposed(factor(Operand::A1, task_.in.a1)), p, t, d_, n_, m_);
    trace_.create(dx.block(d_, d_));
    multiply(as_const(t), factor(Operand::A2, task_.in.a2), dx, d_, m_, d_);
    trace_.write_and_remove(dx.block(d_, d_));
    trace_.remove(t.block(d_, m_));
    trace_.remove(p.block(n_, m_));
  }

  void multiply(const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                const Range& i, const Range& q, const Range& j) const {
    multiply_block(kernels_, a, b, c, i, q, j, false, blocks_.pack());
  }
  static index_t longest(const LayerShape& shape) {
    return std::max({shape.n, shape.m, shape.d, shape.dv});
  }

  const BackwardTask<T>& task_;
  Trace trace_;
  const kernels::KernelTable<T>& kernels_;
  Range n_, m_, d_, e_;  // all of them
  paper::SquareBlocks<T> blocks_;
  typename paper::SquareBlocks<T>::Matrix s_, f_, h_, p_, t_;  // p_: q first
};

}  // namespace

template <class T>
Status naive_backward(const BackwardTask<T>& task) {
  if (task.blocks.r == 1) return paper_small_backward(task);
  return NaiveBackward<T>(task).run();
}

template Status naive_backward(const BackwardTask<float>&);
template Status naive_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
