#include "schedules/rows/u_pass.hpp"

#include "schedules/memory/workspace.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

RowPassKind kind_of(Schedule schedule, const LayerShape& shape, const Blocks& blocks) {
  const bool stored = blocks.products == Products::stored;
  RowPassKind kind;
  kind.stored_s = kind.stored_u = stored;
  if (schedule == Schedule::row_stream) {
    kind.values = blocks.form == Form::h ? RowPassKind::Values::h : RowPassKind::Values::g;
    kind.stored_delta = stored;
    kind.stored_g = stored && blocks.form == Form::g;
    return kind;
  }
  kind.values = RowPassKind::Values::q;
  kind.stored_delta = true;
  if (schedule == Schedule::half_dim) kind.first_col = shape.d / 2;
  return kind;
}

}  // namespace

template <class S>
UPass<S>::UPass(Schedule schedule, const BackwardTask<S>& task, int threads,
                WorkspaceLayout* layout)
    : schedule_(schedule),
      task_(task),
      kind_(kind_of(schedule, task.shape, task.blocks)),
      rows_(task, kind_, threads, layout) {
  if (kind_.values == RowPassKind::Values::q) q_.emplace(task, threads, layout);
  const index_t half = kind_.first_col;
  if (half == 0) return;
  const index_t nr = task.kernels->tile.cols;
  scores_ = StoredScores<T>(task.shape, half, task.blocks.f, nr, threads, layout, factors_of<S>);
  u_product_ = ProductPass<T>(task.shape.n, task.shape.m, half, task.blocks.u, nr, threads, layout,
                              factors_of<S>);
}

template <class S>
void UPass<S>::run(const Trace& trace, const StoredProducts<S>& products, void* workspace) const {
  const kernels::KernelTable<T>& kernels = *task_.kernels;
  const Factor<const S> a2 = factor(Operand::A2, task_.in.a2);
  QueryPassOperands<S, T> operands = stored_operands(products, kind_, workspace);
  if (q_) {
    q_->run(trace, products, workspace);
    operands.q = q_->transposed(workspace);
  }
  const bool halved = kind_.first_col > 0;
  if (halved) {
    // In the place of p, and under its name.
    trace.phase("scores");
    scores_.run(kernels, trace, Operand::p, factor(Operand::S, operands.queries), a2, workspace);
    operands.p = scores_.transposed(workspace);
  }
  trace.phase(name_of(schedule_));
  rows_.run(trace, operands, workspace);
  if (!halved) return;
  trace.phase("U");
  u_product_.run(kernels, trace, scores_.matrix(Operand::p, workspace), a2,
                 {Operand::U, operands.d_queries.data, operands.d_queries.stride}, workspace);
}

template class UPass<float>;
template class UPass<double>;
template class UPass<bf16>;
template class UPass<f16>;

}  // namespace ioattn::schedules
