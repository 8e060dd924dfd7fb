#include "schedules/rows/row_pass.hpp"

#include <algorithm>

#include "parallel/parallel.hpp"
#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/pass_types.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/shared_blocks.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/softmax/score_bias.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

template <class S>
QueryPassOperands<S, Compute<S>> stored_operands(const StoredProducts<S>& products,
                                                 const RowPassKind& kind, void* workspace) {
  QueryPassOperands<S, Compute<S>> operands;
  if (kind.stored_s) operands.queries = products.s(workspace);
  if (kind.stored_g) operands.g = products.g(workspace);
  if (kind.values == RowPassKind::Values::h) operands.values = products.h(workspace);
  if (kind.stored_delta) operands.delta = products.delta(workspace);
  if (kind.stored_u) operands.d_queries = products.u(workspace);
  return operands;
}

template <class S, class P>
RowPass<S, P>::RowPass(const BackwardTask<S>& task, const RowPassKind& kind, const Workers& workers,
                       WorkspaceLayout* layout)
    : task_(task),
      kind_(kind),
      threads_(workers.count),
      kernels_(*task.kernels),
      n_(task.shape.n),
      m_(task.shape.m),
      d_(task.shape.d),
      e_(task.shape.dv),
      nr_(kernels_.tile.cols),
      width_(d_ - kind.first_col),
      mask_(task.shape.mask),
      tied_(kind.values == Values::g && task.shape.tie != Tie::none),
      r_(rows_per_block(task.shape, task.blocks, workers)),
      c_(std::min(task.blocks.c, m_)),
      layout_{std::min(task.blocks.rho, r_), nr_},
      value_width_(kind.values == Values::h ? e_ : d_),
      stride_(padded_stride(width_, nr_)),
      value_stride_(padded_stride(value_width_, nr_)),
      tile_stride_(padded_stride(layout_.sub_lanes(), nr_)) {
  const index_t lanes = layout_.lanes(r_);
  worker_.s = workers_.add<T>(lanes * width_);
  const index_t a1_words = kind.stored_s ? 0 : lanes * d_;
  const index_t d_o_words = uses_d_o() ? lanes * e_ : 0;
  const index_t u_words = kind.makes_u ? r_ * stride_ + nr_ : 0;
  // A1 is dead before dO is packed, and dO, unless it stays, before U is made. In memory of their
  // own they would be fetched and written back once more per row block.
  const bool d_o_stays = kind.values == Values::h;
  worker_.u = workers_.add<T>(std::max({a1_words, u_words, d_o_stays ? 0 : d_o_words}));
  worker_.a1 = {worker_.u.offset, a1_words};
  worker_.d_o = d_o_stays ? workers_.add<T>(d_o_words) : Slot<T>{worker_.u.offset, d_o_words};
  worker_.u.count = u_words;
  worker_.g = workers_.add<T>(kind.values == Values::g ? lanes * d_ : 0);
  worker_.key = workers_.add<T>(c_ * stride_);
  worker_.value = workers_.add<T>(is_half_storage<S> && streams_values() ? c_ * value_stride_ : 0);
  worker_.tile = workers_.add<T>(kind.first_col > 0 ? 0 : c_ * tile_stride_);
  if (is_half_storage<S> && !kind.stored_u) {
    const Blocks& blocks = task.blocks;
    worker_.copy = workers_.add<T>(
        std::max(std::min(blocks.w, d_) * std::max(d_, e_), layout_.rho * std::min(blocks.a, d_)));
  }
  worker_.lse = workers_.add<T>(lanes);
  worker_.delta = workers_.add<T>(lanes);
  workers_.add_to(layout, workers.count);
}

template <class S, class P>
void RowPass<S, P>::run(const Trace& trace, const Operands& operands, void* workspace) const {
  // One worker takes dX in the plan's blocks, uncut.
  OrderedRows dx(d_, threads_ > 1 ? index_t(kernels_.tile.rows) : d_);
  const index_t count = block_count();
  const BlockOrder order(threads_, mask_, n_, m_);
  const auto run_in_turn = [&](index_t block, int worker) {
    if (kind_.stored_u) {
      run_block(trace, task_, operands, order.block(block, count), worker, workspace);
      return;
    }
    const Work work = {trace, task_, operands, workers_.of(worker, workspace),
                       Range(block * r_, n_, r_)};
    make_u(work);
    add_to_dx(work, block, &dx);
  };
  parallel::for_each(
      threads_, count, [&](int worker) { begin(worker, workspace); }, run_in_turn);
}

template <class S, class P>
void RowPass<S, P>::begin(int worker, void* workspace) const {
  // The padding of the rows is read as lanes.
  fill_words(kernels_, worker_.key.in(workers_.of(worker, workspace)), worker_.key.count, T(0));
}

template <class S, class P>
void RowPass<S, P>::run_block(const Trace& trace, const BackwardTask<S>& task,
                              const Operands& operands, index_t block, int worker,
                              void* workspace) const {
  const Work work = {trace, task, operands, workers_.of(worker, workspace),
                     Range(block * r_, n_, r_)};
  make_u(work);
  if (kind_.makes_u) write_u(work);
}

template <class S, class P>
void RowPass<S, P>::make_u(const Work& work) const {
  const Trace& trace = work.trace;
  make_resident(work);
  const bool clears = mask_.hides() && !work.operands.add_to_d_bias;
  if (work.operands.d_bias.data != nullptr && clears) {
    clear_d_bias(kernels_, trace, work.rows, work.operands.d_bias);
  }
  const Interval seen = mask_.of_any(interval_of(work.rows), m_);
  for (Range keys = blocks_within(seen, c_); keys; keys.next()) stream_keys(work, keys);
  trace.remove(inner_rows(Operand::S, work.rows));
  if (kind_.values == Values::g) trace.remove(rows_of(Operand::G, work.rows, d_));
  if (kind_.values == Values::h) trace.remove(rows_of(Operand::dO, work.rows, e_));
  trace.remove(rows_of(Operand::delta, work.rows, 1));
  trace.remove(rows_of(Operand::LSE, work.rows, 1));
}

template <class S, class P>
template <class Result>
void RowPass<S, P>::store_u(const Work& work, const MatrixView<Result>& result) const {
  store_rows(kernels_, worker_.u.in(work.local), stride_, work.rows.size(), width_,
             work.operands.scale, work.operands.accumulate,
             result.at(work.rows.begin, kind_.first_col), result.stride,
             work.trace.counted(Operand::dQ));
}

template <class S, class P>
void RowPass<S, P>::write_u(const Work& work) const {
  const Trace& trace = work.trace;
  const Block made = inner_rows(Operand::U, work.rows);
  const Block written = work.operands.accumulate ? rows_of(Operand::dQ, work.rows, width_) : made;
  const bool rounds = is_half_storage<S> && work.operands.d_queries.data == nullptr;
  if (work.operands.accumulate && rounds) {
    trace.read_rounded(written);
  } else if (work.operands.accumulate) {
    trace.read(written);
  }
  if (rounds) {
    store_u(work, work.operands.rounded_d_queries);
    trace.write_rounded_and_remove(written);
  } else {
    store_u(work, work.operands.d_queries);
    trace.write_and_remove(written);
  }
  if (work.operands.accumulate) trace.remove(made);
}

// dX += A1_I^T U_I.
template <class S, class P>
void RowPass<S, P>::add_to_dx(const Work& work, index_t turn, OrderedRows* dx) const {
  const Block a1 = rows_of(Operand::A1, work.rows, d_);
  work.trace.read(a1);
  dx->take_turn(turn, [&](const Range& strip) {
    for (Range k(strip.begin, strip.end, work.task.blocks.a); k; k.next())
      for (Range l(d_, work.task.blocks.b); l; l.next()) add_to_dx_tile(work, k, l);
  });
  work.trace.remove(a1);
  work.trace.remove(inner_rows(Operand::U, work.rows));
}

// One term of the sum per sub-block of rows.
template <class S, class P>
void RowPass<S, P>::add_to_dx_tile(const Work& work, const Range& k, const Range& l) const {
  const Range& rows = work.rows;
  const Interval seeing = seeing_queries(work.task.shape);
  const T* u = worker_.u.in(work.local);
  const Factor<const S> all = factor(Operand::A1, work.task.in.a1);
  const Block tile = {Operand::dX, k.begin, l.begin, k.size(), l.size()};
  work.trace.begin_sum(tile, rows.begin > 0);
  for (Range sub(rows.size(), layout_.rho); sub; sub.next()) {
    // Rows that see no key are left out, whatever they hold.
    const index_t first = std::max(rows.begin + sub.begin, seeing.begin);
    const index_t last = std::max(std::min(rows.begin + sub.end, seeing.end), first);
    const Factor<const T> part =
        in_compute(kernels_, all, Range(first, last, last - first), k, worker_.copy.in(work.local));
    kernels::Product<T> p;
    p.rows = k.size();
    p.cols = l.size();
    p.depth = last - first;
    p.a = {part.data, part.col_stride, part.row_stride};
    p.b = {u + (first - rows.begin) * stride_ + l.begin, nr_, stride_};
    p.c = {work.task.dx.at(k.begin, l.begin), nr_, work.task.dx.stride};
    p.accumulate = rows.begin + sub.begin > 0;
    kernels_.product(p);
  }
  work.trace.write_and_remove(tile);
}

// What stays is defined in row_pass_rows.cpp, which instantiates these members.
#define IOATTN_INSTANTIATE(S, P)                                                               \
  template RowPass<S, P>::RowPass(const BackwardTask<S>&, const RowPassKind&, const Workers&,  \
                                  WorkspaceLayout*);                                           \
  template void RowPass<S, P>::run(const Trace&, const QueryPassOperands<S, P>&, void*) const; \
  template void RowPass<S, P>::begin(int, void*) const;                                        \
  template void RowPass<S, P>::run_block(const Trace&, const BackwardTask<S>&,                 \
                                         const QueryPassOperands<S, P>&, index_t, int, void*)  \
      const
IOATTN_FOR_PASS_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S)                                                         \
  template QueryPassOperands<S, Compute<S>> stored_operands(const StoredProducts<S>&, \
                                                            const RowPassKind&, void*)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
IOATTN_INSTANTIATE(bf16);
IOATTN_INSTANTIATE(f16);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
