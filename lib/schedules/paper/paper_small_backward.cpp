#include "schedules/memory_moves.hpp"
#include "schedules/paper/square_blocks.hpp"
#include "schedules/schedules.hpp"

// Paper, Alg. 2-6: four phases over B x B blocks; f, q and p pass through memory. Scores are stored
// unexponentiated and the row maximum is kept with the row sum, so that nothing overflows; the
// words are the paper's.
namespace ioattn::schedules {

template <class T>
Status paper_small_backward(const BackwardTask<T>& task) {
  const auto [n, m, d, e, tie, mask] = task.shape;
  const index_t b = task.blocks.r;
  const index_t depth = task.blocks.c;
  const Trace trace(task.observer);
  const kernels::KernelTable<T>& kernels = *task.kernels;

  paper::SquareBlocks<T> blocks(task.shape, b, depth, kernels.tile.cols);
  const auto s = blocks.by_row(d, n);       // S^T [d][n]
  const auto scores = blocks.by_row(m, n);  // f^T [m][n]
  const auto h = blocks.by_row(m, e);
  const auto q = blocks.by_row(m, n);  // q^T [m][n], then p^T
  const auto t = blocks.by_row(m, d);  // T^T [m][d]
  const Status allocated = blocks.allocate(task.memory);
  if (!allocated.is_ok()) return allocated;

  const Factor<const T> a1 = factor(Operand::A1, task.in.a1);
  const Factor<const T> a2 = factor(Operand::A2, task.in.a2);
  const Factor<T> s_factor = blocks.columns_first(Operand::S, s);
  const Factor<T> f_factor = blocks.columns_first(Operand::f, scores);
  const Factor<T> h_factor = blocks.rows_first(Operand::h, h);
  const Factor<T> q_factor = blocks.columns_first(Operand::q, q);
  const Factor<T> p_factor = blocks.columns_first(Operand::p, q);
  const Factor<T> t_factor = blocks.columns_first(Operand::T, t);
  const auto product = [&](const Factor<const T>& a, const Factor<const T>& c,
                           const Factor<T>& result, index_t n1, index_t k, index_t n2) {
    if (b == 1) {
      unblocked_product(kernels, trace, a, c, result, n1, k, n2, depth, blocks.pack());
    } else {
      blocked_product(kernels, trace, a, c, result, n1, k, n2, ProductBlocks{b, b, depth},
                      blocks.pack());
    }
  };

  trace.phase("1a");
  product(a1, factor(Operand::X, task.in.x), s_factor, n, d, d);

  trace.phase("1b");
  for (Range i(n, b); i; i.next()) {
    blocks.softmax_rows(kernels, trace, as_const(s_factor), a2, f_factor, i, m, d);
    const Block row_max = {Operand::row_max, i.begin, 0, i.size(), 1};
    const Block row_sum = {Operand::row_sum, i.begin, 0, i.size(), 1};
    for (Range j(m, b); j; j.next()) {
      const Block raw = {Operand::scores, i.begin, j.begin, i.size(), j.size()};
      const Block weights = f_factor.block(i, j);
      trace.read(raw);
      trace.create(weights);
      kernels.exp_tile(blocks.tile(f_factor, i, j), blocks.lse());
      trace.write_and_remove(weights);
      trace.remove(raw);
    }
    trace.remove(row_max);
    trace.remove(row_sum);
  }

  trace.phase("2a");
  product(factor(Operand::A3, task.in.a3), factor(Operand::Y, task.in.y), h_factor, m, d, e);
  trace.phase("2b");
  product(factor(Operand::dO, task.d_o), transposed(as_const(h_factor)), q_factor, n, e, m);

  trace.phase("3");
  T* delta = blocks.row_sum();
  for (Range i(n, b); i; i.next()) {
    const Block delta_block = {Operand::delta, i.begin, 0, i.size(), 1};
    trace.create(delta_block);
    fill_words(kernels, delta, i.size(), T(0));
    for (Range j(m, b); j; j.next()) {
      trace.read(f_factor.block(i, j));
      trace.read(q_factor.block(i, j));
      kernels.dot_tile(blocks.tile(f_factor, i, j), blocks.tile(q_factor, i, j), delta);
      trace.remove(f_factor.block(i, j));
      trace.remove(q_factor.block(i, j));
    }
    for (Range j(m, b); j; j.next()) {
      trace.read(f_factor.block(i, j));
      trace.read(q_factor.block(i, j));
      trace.create(p_factor.block(i, j));
      kernels.gradient_tile(blocks.tile(f_factor, i, j), blocks.tile(q_factor, i, j), delta,
                            blocks.tile(p_factor, i, j));
      trace.remove(f_factor.block(i, j));
      trace.remove(q_factor.block(i, j));
      trace.write_and_remove(p_factor.block(i, j));
    }
    trace.remove(delta_block);
  }

  trace.phase("4a");
  product(transposed(a1), as_const(p_factor), t_factor, d, n, m);
  trace.phase("4b");
  product(as_const(t_factor), a2, {Operand::dX, task.dx.data, task.dx.stride, 1, false, false}, d,
          m, d);
  return Status::ok();
}

template Status paper_small_backward(const BackwardTask<float>&);
template Status paper_small_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
