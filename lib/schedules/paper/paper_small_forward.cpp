#include <algorithm>

#include "schedules/memory/memory_moves.hpp"
#include "schedules/paper/square_blocks.hpp"
#include "schedules/range.hpp"
#include "schedules/schedules.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// The small-cache forward pass the paper cites (Saha and Ye): S, h and the raw scores pass through
// memory in B x B blocks; the weights are taken again for every block of columns of O.
namespace ioattn::schedules {
namespace {

// O of the rows i, of which there are raw scores and LSE: their weights, a tile at a time.
template <class T>
void add_values(const kernels::KernelTable<T>& kernels, const Trace& trace,
                const paper::SquareBlocks<T>& blocks, const Factor<T>& scores,
                const Factor<T>& weights, const Factor<T>& h, const Factor<T>& o, const Range& i,
                const Range& keys, const Range& cols) {
  for (Range j = cols; j; j.next()) {
    trace.create(o.block(i, j));
    for (Range q = keys; q; q.next()) {
      trace.read(scores.block(i, q));
      trace.read(h.block(q, j));
      const kernels::ScoreTile<T> raw = blocks.tile(scores, i, q);
      const kernels::ScoreTile<T> tile = {weights.data, weights.col_stride, q.size(), i.size()};
      for (index_t key = 0; key < q.size(); ++key)
        copy_words<T>(kernels, raw.data + key * raw.stride, i.size(),
                      tile.data + key * tile.stride);
      kernels.exp_tile(tile, blocks.lse());
      multiply_block(kernels, as_const(weights), part_from(as_const(h), q.begin, 0),
                     part_from(o, i.begin, 0), from_0(i), from_0(q), j, q.begin > 0, blocks.pack());
      trace.remove(scores.block(i, q));
      trace.remove(h.block(q, j));
    }
    trace.write_and_remove(o.block(i, j));
  }
}

}  // namespace

template <class T>
Status paper_small_forward(const ForwardTask<T>& task) {
  const auto [n, m, d, e, tie, mask] = task.shape;
  const index_t b = task.blocks.r;
  const index_t depth = task.blocks.c;
  const Trace trace(task.observer);
  const kernels::KernelTable<T>& kernels = *task.kernels;

  paper::SquareBlocks<T> blocks(task.shape, b, depth, kernels.tile.cols);
  const auto s = blocks.by_row(d, n);  // S^T [d][n]
  const auto h = blocks.by_row(m, e);
  const auto scores = blocks.by_row(m, n);  // scores^T [m][n]
  const auto weights = blocks.by_row(std::min(b, m), std::min(b, n));
  const Status allocated = blocks.allocate(task.memory);
  if (!allocated.is_ok()) return allocated;

  const Factor<T> s_factor = blocks.columns_first(Operand::S, s);
  const Factor<T> h_factor = blocks.rows_first(Operand::h, h);
  const Factor<T> score_factor = blocks.columns_first(Operand::scores, scores);
  const Factor<T> weight_factor = blocks.columns_first(Operand::f, weights);
  const Factor<T> o_factor = {Operand::O, task.o.data, task.o.stride};
  const ProductBlocks cube = {b, b, depth};

  trace.phase("S");
  blocked_product(kernels, trace, factor(Operand::A1, task.in.a1), factor(Operand::X, task.in.x),
                  s_factor, n, d, d, cube, blocks.pack());
  trace.phase("h");
  blocked_product(kernels, trace, factor(Operand::A3, task.in.a3), factor(Operand::Y, task.in.y),
                  h_factor, m, d, e, cube, blocks.pack());

  trace.phase("softmax");
  for (Range i(n, b); i; i.next()) {
    blocks.softmax_rows(kernels, trace, as_const(s_factor), factor(Operand::A2, task.in.a2),
                        score_factor, i, m, d);
    copy_words<T>(kernels, blocks.lse(), i.size(), task.lse + i.begin);
    trace.remove({Operand::row_max, i.begin, 0, i.size(), 1});
    const Block lse = {Operand::row_sum, i.begin, 0, i.size(), 1};  // LSE takes its place
    trace.write(lse);
    add_values(kernels, trace, blocks, score_factor, weight_factor, h_factor, o_factor, i,
               Range(m, b), Range(e, b));
    trace.remove(lse);
  }
  return Status::ok();
}

template Status paper_small_forward(const ForwardTask<float>&);
template Status paper_small_forward(const ForwardTask<double>&);

}  // namespace ioattn::schedules
