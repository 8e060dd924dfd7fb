#include "schedules/memory/memory_moves.hpp"
#include "schedules/pass_types.hpp"
#include "schedules/range.hpp"
#include "schedules/rows/query_rows.hpp"
#include "schedules/rows/row_pass.hpp"
#include "schedules/softmax/score_bias.hpp"

// What stays in fast memory per row block of a backward pass over rows.
namespace ioattn::schedules {

// S_I, delta_I, G_I (or dO_I) and LSE_I become resident; U_I is created.
template <class S, class P>
void RowPass<S, P>::make_resident(const Work& work) const {
  make_scores_side(work);
  make_values_side(work);
  work.trace.read(rows_of(Operand::LSE, work.rows, 1));
  T* lse = worker_.lse.in(work.local);
  load_lanes(kernels_, layout_, work.task.lse, work.rows, lse);
  shifts_of(lse, layout_.lanes(work.rows.size()), lse);
  if (!kind_.makes_u) return;
  work.trace.create(inner_rows(Operand::U, work.rows));
  // Rows that see no key get no term.
  if (mask_.hides()) fill_words(kernels_, worker_.u.in(work.local), worker_.u.count, T(0));
}

template <class S, class P>
void RowPass<S, P>::make_scores_side(const Work& work) const {
  T* s = worker_.s.in(work.local);
  if (!kind_.stored_s) {
    project_queries(kernels_, work.trace, layout_, work.task.in, work.rows, work.task.blocks.w,
                    worker_.a1.in(work.local), s, worker_.copy.in(work.local));
    return;
  }
  const MatrixView<const P>& all = work.operands.queries;
  work.trace.read(inner_rows(Operand::S, work.rows));
  pack_rows(kernels_, layout_,
            MatrixView<const P>{all.at(0, kind_.first_col), all.rows, width_, all.stride},
            work.rows, s, work.operands.scale);
}

template <class S, class P>
void RowPass<S, P>::make_values_side(const Work& work) const {
  const Range& rows = work.rows;
  const Block d_o = rows_of(Operand::dO, rows, e_);
  if (uses_d_o()) {
    work.trace.read(d_o);
    pack_rows(kernels_, layout_, work.task.d_o, rows, worker_.d_o.in(work.local));
  }
  T* delta = worker_.delta.in(work.local);
  if (kind_.stored_delta) {
    work.trace.read(rows_of(Operand::delta, rows, 1));
    load_lanes(kernels_, layout_, work.operands.delta, rows, delta);
  } else {
    make_delta(work.trace, layout_, work.task, rows, delta);
  }
  T* g = worker_.g.in(work.local);
  if (kind_.values == Values::g && kind_.stored_g) {
    work.trace.read(rows_of(Operand::G, rows, d_));
    pack_rows(kernels_, layout_, work.operands.g, rows, g);
  } else if (kind_.values == Values::g) {
    project_gradients(work.trace, layout_, work.task, rows, worker_.d_o.in(work.local), g,
                      worker_.copy.in(work.local));
  }
  if (uses_d_o() && kind_.values != Values::h) work.trace.remove(d_o);
}

#define IOATTN_INSTANTIATE(S, P) template class RowPass<S, P>
IOATTN_FOR_PASS_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
