#include <algorithm>
#include <limits>

#include "api/array_types.hpp"
#include "api/checks/layer_checks.hpp"
#include "api/checks/validate_sdpa.hpp"
#include "api/run/grouped_heads.hpp"
#include "api/run/lent_memory.hpp"
#include "api/run/sdpa_run.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/sdpa/sdpa.hpp"

namespace ioattn::api {
namespace {

// Nothing is computed for a view without elements.
template <class T>
void drop_empty(TensorView<T>* view) {
  if (view->batch * view->heads * view->rows * view->cols == 0) view->data = nullptr;
}

template <class T>
void fill_heads(const TensorView<T>& view, T value) {
  if (view.data == nullptr) return;
  for (index_t b = 0; b < view.batch; ++b)
    for (index_t h = 0; h < view.heads; ++h) fill(view.matrix(b, h), value);
}

// What the passes of both directions have in common.
template <class S, class Task>
Status prepare(const SdpaRun& run, const SdpaInputs<S>& inputs, Task* task) {
  task->shape = run.problem.shape;
  task->in = inputs;
  task->scale = static_cast<Compute<S>>(scale_of(run.problem));
  return resolve<S>(run.execution, run.plan.tile.isa, task);
}

}  // namespace

template <class S>
Status run_forward(const SdpaRun& run, const SdpaInputs<S>& inputs, TensorView<S> o,
                   TensorView<Compute<S>> lse) {
  drop_empty(&o);
  drop_empty(&lse);
  if (o.data == nullptr && lse.data == nullptr) return Status::ok();
  if (seen_keys(run.problem.shape.head()).is_empty()) {
    if (run.execution.only_tells()) return Status::ok();
    fill_heads(o, S{});
    fill_heads(lse, -std::numeric_limits<Compute<S>>::infinity());
    return Status::ok();
  }
  schedules::SdpaForwardTask<S> task;
  const Status prepared = prepare(run, inputs, &task);
  if (!prepared.is_ok()) return prepared;
  task.o = o;
  task.lse = lse;
  task.blocks = run.plan.blocks.rows;
  keep_seen_keys(&task);
  if (task.shape.has_grouped_rows() && run.groups_heads) group_heads(&task);
  return schedules::sdpa_forward(task);
}

template <class S, class G>
Status run_backward(const SdpaRun& run, const SdpaInputs<S>& inputs,
                    const SdpaForwardResults<S>& forward, SdpaGradients<G> out) {
  drop_empty(&out.dq);
  drop_empty(&out.dk);
  drop_empty(&out.dv);
  drop_empty(&out.d_bias);
  if (out.set().is_empty()) return Status::ok();
  const SdpaShape& shape = run.problem.shape;
  if (is_trivial(shape)) {
    if (out.accumulate || run.execution.only_tells()) return Status::ok();
    for (const TensorView<G>& view : {out.dq, out.dk, out.dv, out.d_bias}) fill_heads(view, G{});
    return Status::ok();
  }
  schedules::SdpaBackwardTask<S> task;
  const Status prepared = prepare(run, inputs, &task);
  if (!prepared.is_ok()) return prepared;
  task.d_o = forward.d_o;
  task.o = forward.o;
  task.lse = forward.lse;
  set_results(out, &task);
  task.blocks = run.plan.blocks;
  return schedules::sdpa_backward(task);
}

namespace {

// A tensor that is wanted, but never written: a null one would not be wanted.
template <class T>
TensorView<T> wanted(bool is_wanted, index_t batch, index_t heads, index_t rows, index_t cols) {
  static T element{};
  return {is_wanted ? &element : nullptr, batch, heads, rows, cols, 0, 0, 0};
}

template <class S, class G>
Status tell(const SdpaRun& run, const std::optional<SdpaSet>& set) {
  using T = Compute<S>;
  const SdpaShape& s = run.problem.shape;
  const SdpaInputs<S> inputs = {wanted<const S>(true, s.batch, s.heads, s.n, s.d),
                                wanted<const S>(true, s.batch, s.kv_heads, s.m, s.d),
                                wanted<const S>(true, s.batch, s.kv_heads, s.m, s.dv),
                                wanted<const S>(true, s.bias_batch, s.bias_heads, s.n, s.m)};
  if (!set) {
    TensorView<T> lse = wanted<T>(true, s.batch, s.heads, 1, s.n);
    lse.head_stride = s.n;
    return run_forward<S>(run, inputs, wanted<S>(true, s.batch, s.heads, s.n, s.dv), lse);
  }
  const TensorView<const S> o = wanted<const S>(true, s.batch, s.heads, s.n, s.dv);
  const TensorView<const T> lse = wanted<const T>(true, s.batch, s.heads, 1, s.n);
  return run_backward<S, G>(run, inputs, {o, o, lse},
                            {wanted<G>(set->dQ, s.batch, s.heads, s.n, s.d),
                             wanted<G>(set->dK, s.batch, s.kv_heads, s.m, s.d),
                             wanted<G>(set->dV, s.batch, s.kv_heads, s.m, s.dv), set->accumulate,
                             wanted<G>(set->dBias, s.bias_batch, s.bias_heads, s.n, s.m)});
}

Status told(const SdpaProblem& problem, const plan::SdpaPlan& plan,
            const std::optional<SdpaSet>& set, int threads, bool groups_heads, index_t* bytes) {
  schedules::CallerMemory memory;
  const SdpaRun run = {problem, plan, {threads, nullptr, &memory}, groups_heads};
  const bool in_f32 = set && set->in_f32;
  const Status status =
      with_gradient_types(problem.dtype, in_f32, [&](auto element, auto gradient) {
        return tell<decltype(element), decltype(gradient)>(run, set);
      });
  return workspace_told(status, memory, bytes);
}

}  // namespace

Status workspace_of(const SdpaProblem& problem, const plan::SdpaPlan& plan,
                    const std::optional<SdpaSet>& set, int threads, index_t* bytes) {
  Status status = told(problem, plan, set, threads, !set, bytes);
  if (!status.is_ok() || set || !problem.shape.has_grouped_rows()) return status;
  index_t of_heads = 0;  // where rows of a group do not follow each other
  status = told(problem, plan, set, threads, false, &of_heads);
  *bytes = std::max(*bytes, of_heads);
  return status;
}

template <class S>
Status sdpa_forward(const SdpaProblem& problem, const SdpaInputs<S>& inputs,
                    const plan::SdpaPlan& plan, const Execution& execution, TensorView<S> o,
                    TensorView<Compute<S>> lse) {
  Status status = validate_problem(problem);
  if (!status.is_ok()) return status;
  if (status = check_forward(inputs, o, lse); !status.is_ok()) return status;
  if (status = validate_plan(plan, std::nullopt); !status.is_ok()) return status;
  return run_forward<S>({problem, plan, execution}, inputs, o, lse);
}

template <class S, class G>
Status sdpa_backward(const SdpaProblem& problem, const SdpaInputs<S>& inputs,
                     const SdpaForwardResults<S>& forward, const plan::SdpaPlan& plan,
                     const Execution& execution, const SdpaGradients<G>& gradients) {
  Status status = validate_problem(problem);
  if (!status.is_ok()) return status;
  if (status = check_backward(inputs, forward, gradients); !status.is_ok()) return status;
  if (status = validate_plan(plan, gradients.set()); !status.is_ok()) return status;
  return run_backward<S, G>({problem, plan, execution}, inputs, forward, gradients);
}

#define IOATTN_INSTANTIATE(S)                                                                   \
  template Status run_forward(const SdpaRun&, const SdpaInputs<S>&, TensorView<S>,              \
                              TensorView<Compute<S>>);                                          \
  template Status sdpa_forward(const SdpaProblem&, const SdpaInputs<S>&, const plan::SdpaPlan&, \
                               const Execution&, TensorView<S>, TensorView<Compute<S>>)
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                                   \
  template Status run_backward(const SdpaRun&, const SdpaInputs<S>&, const SdpaForwardResults<S>&, \
                               SdpaGradients<G>);                                                  \
  template Status sdpa_backward(const SdpaProblem&, const SdpaInputs<S>&,                          \
                                const SdpaForwardResults<S>&, const plan::SdpaPlan&,               \
                                const Execution&, const SdpaGradients<G>&)
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
