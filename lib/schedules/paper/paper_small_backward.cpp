#include "schedules/memory/memory_moves.hpp"
#include "schedules/paper/square_blocks.hpp"
#include "schedules/range.hpp"
#include "schedules/schedules.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// Paper, Alg. 2-6: four phases over B x B blocks; f, q and p pass through memory. Scores are stored
// unexponentiated and the row maximum is kept with the row sum, so that nothing overflows; the
// words are the paper's.
namespace ioattn::schedules {
namespace {

// Phase 1b for the rows i, of which there are raw scores and LSE.
template <class T>
void make_weights(const kernels::KernelTable<T>& kernels, const Trace& trace,
                  const paper::SquareBlocks<T>& blocks, const Factor<T>& f, const Range& i,
                  const Range& keys) {
  for (Range j = keys; j; j.next()) {
    const Block raw = part_of(Operand::scores, i, j);
    trace.read(raw);
    trace.create(f.block(i, j));
    kernels.exp_tile(blocks.tile(f, i, j), blocks.lse());
    trace.write_and_remove(f.block(i, j));
    trace.remove(raw);
  }
  trace.remove(rows_of(Operand::row_max, i, 1));
  trace.remove(rows_of(Operand::row_sum, i, 1));
}

// Phase 3 for the rows i: delta = rowsum(f o q), then p = f o (q - delta) in the place of q.
template <class T>
void make_gradients(const kernels::KernelTable<T>& kernels, const Trace& trace,
                    const paper::SquareBlocks<T>& blocks, const Factor<T>& f, const Factor<T>& q,
                    const Factor<T>& p, const Range& i, const Range& keys) {
  T* delta = blocks.row_sum();
  trace.create(rows_of(Operand::delta, i, 1));
  fill_words(kernels, delta, i.size(), T(0));
  for (Range j = keys; j; j.next()) {
    trace.read(f.block(i, j));
    trace.read(q.block(i, j));
    kernels.dot_tile(blocks.tile(f, i, j), blocks.tile(q, i, j), delta);
    trace.remove(f.block(i, j));
    trace.remove(q.block(i, j));
  }
  for (Range j = keys; j; j.next()) {
    trace.read(f.block(i, j));
    trace.read(q.block(i, j));
    trace.create(p.block(i, j));
    kernels.gradient_tile(blocks.tile(f, i, j), blocks.tile(q, i, j), delta, blocks.tile(p, i, j));
    trace.remove(f.block(i, j));
    trace.remove(q.block(i, j));
    trace.write_and_remove(p.block(i, j));
  }
  trace.remove(rows_of(Operand::delta, i, 1));
}

}  // namespace

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
    make_weights(kernels, trace, blocks, f_factor, i, Range(m, b));
  }

  trace.phase("2a");
  product(factor(Operand::A3, task.in.a3), factor(Operand::Y, task.in.y), h_factor, m, d, e);
  trace.phase("2b");
  product(factor(Operand::dO, task.d_o), transposed(as_const(h_factor)), q_factor, n, e, m);

  trace.phase("3");
  for (Range i(n, b); i; i.next())
    make_gradients(kernels, trace, blocks, f_factor, q_factor, p_factor, i, Range(m, b));

  trace.phase("4a");
  product(transposed(a1), as_const(p_factor), t_factor, d, n, m);
  trace.phase("4b");
  product(as_const(t_factor), a2, {Operand::dX, task.dx.data, task.dx.stride}, d, m, d);
  return Status::ok();
}

template Status paper_small_backward(const BackwardTask<float>&);
template Status paper_small_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
