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

template <class T>
Status naive_backward(const BackwardTask<T>& task) {
  if (task.blocks.r == 1) return paper_small_backward(task);
  const auto [n, m, d, e, tie, mask] = task.shape;
  const Trace trace(task.observer);
  const kernels::KernelTable<T>& kernels = *task.kernels;
  const index_t nr = kernels.tile.cols;
  const index_t longest = std::max({n, m, d, e});

  paper::SquareBlocks<T> blocks(task.shape, longest, longest, nr);
  const auto s_matrix = blocks.by_row(d, n);
  const auto f_matrix = blocks.by_row(m, n);
  const auto h_matrix = blocks.by_row(m, e);
  const auto p_matrix = blocks.by_row(m, n);
  const auto t_matrix = blocks.by_row(m, d);
  const Status allocated = blocks.allocate(task.memory);
  if (!allocated.is_ok()) return allocated;

  const Range all_n(n, n), all_m(m, m), all_d(d, d), all_e(e, e);
  const Factor<const T> a1 = factor(Operand::A1, task.in.a1), x = factor(Operand::X, task.in.x);
  const Factor<const T> a2 = factor(Operand::A2, task.in.a2), y = factor(Operand::Y, task.in.y);
  const Factor<const T> a3 = factor(Operand::A3, task.in.a3);
  const Factor<const T> d_o = factor(Operand::dO, task.d_o);
  const Factor<T> s = blocks.columns_first(Operand::S, s_matrix);
  const Factor<T> f = blocks.columns_first(Operand::f, f_matrix);
  const Factor<T> h = blocks.rows_first(Operand::h, h_matrix);
  const Factor<T> p = blocks.columns_first(Operand::p, p_matrix);
  const Factor<T> t = blocks.columns_first(Operand::T, t_matrix);
  const Factor<T> g = {Operand::dX, task.dx.data, task.dx.stride};
  const auto multiply = [&](const Factor<const T>& a, const Factor<const T>& b, const Factor<T>& c,
                            const Range& i, const Range& q, const Range& j) {
    multiply_block(kernels, a, b, c, i, q, j, false, blocks.pack());
  };
  const Block scores = {Operand::scores, 0, 0, n, m};
  const Block row_sum = {Operand::row_sum, 0, 0, n, 1};
  const Block q = {Operand::q, 0, 0, n, m};
  const Block delta = {Operand::delta, 0, 0, n, 1};

  trace.phase("forward");
  trace.read(a1.block(all_n, all_d));
  trace.read(a2.block(all_m, all_d));
  trace.read(x.block(all_d, all_d));
  trace.create(scores);
  trace.create(s.block(all_n, all_d));
  multiply(a1, x, s, all_n, all_d, all_d);
  multiply(as_const(s), transposed(a2), f, all_n, all_d, all_m);
  trace.remove(s.block(all_n, all_d));
  trace.remove(x.block(all_d, all_d));
  trace.create(row_sum);
  blocks.set_lse(kernels, blocks.tile(f, all_n, all_m));
  trace.create(f.block(all_n, all_m));
  kernels.exp_tile(blocks.tile(f, all_n, all_m), blocks.lse());
  trace.remove(scores);
  trace.remove(row_sum);

  trace.phase("backward");
  trace.read(a3.block(all_m, all_d));
  trace.read(y.block(all_d, all_e));
  trace.create(h.block(all_m, all_e));
  multiply(a3, y, h, all_m, all_d, all_e);
  trace.remove(a3.block(all_m, all_d));
  trace.remove(y.block(all_d, all_e));
  trace.read(d_o.block(all_n, all_e));
  trace.create(q);
  multiply(d_o, transposed(as_const(h)), p, all_n, all_e, all_m);
  trace.remove(d_o.block(all_n, all_e));
  trace.remove(h.block(all_m, all_e));
  trace.create(p.block(all_n, all_m));
  trace.create(delta);
  fill_words(kernels, blocks.row_sum(), n, T(0));
  const kernels::ScoreTile<T> f_tile = blocks.tile(f, all_n, all_m);
  const kernels::ScoreTile<T> p_tile = blocks.tile(p, all_n, all_m);
  kernels.dot_tile(f_tile, p_tile, blocks.row_sum());
  kernels.gradient_tile(f_tile, p_tile, blocks.row_sum(), p_tile);
  trace.remove(f.block(all_n, all_m));
  trace.remove(q);
  trace.remove(delta);
  trace.create(t.block(all_d, all_m));
  multiply(transposed(a1), as_const(p), t, all_d, all_n, all_m);
  trace.create(g.block(all_d, all_d));
  multiply(as_const(t), a2, g, all_d, all_m, all_d);
  trace.write_and_remove(g.block(all_d, all_d));
  trace.remove(t.block(all_d, all_m));
  trace.remove(p.block(all_n, all_m));
  trace.remove(a1.block(all_n, all_d));
  trace.remove(a2.block(all_m, all_d));
  return Status::ok();
}

template Status naive_backward(const BackwardTask<float>&);
template Status naive_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
