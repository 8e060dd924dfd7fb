#include <limits>

#include "api/layer_checks.hpp"
#include "api/lent_memory.hpp"
#include "api/sdpa_run.hpp"
#include "schedules/sdpa.hpp"

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
template <class T, class Task>
Status prepare(const SdpaRun& run, const SdpaInputs<T>& inputs, Task* task) {
  const kernels::Kernels* kernels = nullptr;
  const Status found = kernels_of(run.plan.isa, &kernels);
  if (!found.is_ok()) return found;
  task->shape = run.problem.shape;
  task->in = inputs;
  task->scale = static_cast<T>(scale_of(run.problem));
  task->kernels = &kernels->table<T>();
  task->threads = std::max(run.threads, 1);
  task->observer = run.observer;
  task->memory = run.memory;
  return Status::ok();
}

}  // namespace

template <class T>
Status run_forward(const SdpaRun& run, const SdpaInputs<T>& inputs, TensorView<T> o,
                   TensorView<T> lse) {
  drop_empty(&o);
  drop_empty(&lse);
  if (o.data == nullptr && lse.data == nullptr) return Status::ok();
  if (seen_keys(run.problem.shape.head()).is_empty()) {
    if (run.only_tells()) return Status::ok();
    fill_heads(o, T(0));
    fill_heads(lse, -std::numeric_limits<T>::infinity());
    return Status::ok();
  }
  schedules::SdpaForwardTask<T> task;
  const Status prepared = prepare(run, inputs, &task);
  if (!prepared.is_ok()) return prepared;
  task.o = o;
  task.lse = lse;
  task.blocks = run.plan.blocks.rows;
  return schedules::sdpa_forward(task);
}

template <class T>
Status run_backward(const SdpaRun& run, const SdpaInputs<T>& inputs,
                    const SdpaForwardResults<T>& forward, SdpaGradients<T> out) {
  drop_empty(&out.dq);
  drop_empty(&out.dk);
  drop_empty(&out.dv);
  drop_empty(&out.d_bias);
  if (out.set().is_empty()) return Status::ok();
  const SdpaShape& shape = run.problem.shape;
  if (shape.heads == 0 || shape.n == 0 || shape.dv == 0 || seen_keys(shape.head()).is_empty()) {
    if (out.accumulate || run.only_tells()) return Status::ok();
    for (const TensorView<T>& view : {out.dq, out.dk, out.dv, out.d_bias}) fill_heads(view, T(0));
    return Status::ok();
  }
  schedules::SdpaBackwardTask<T> task;
  const Status prepared = prepare(run, inputs, &task);
  if (!prepared.is_ok()) return prepared;
  task.d_o = forward.d_o;
  task.o = forward.o;
  task.lse = forward.lse;
  task.out = out;
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

template <class T>
Status tell(const SdpaRun& run, const SdpaSet* set) {
  const SdpaShape& s = run.problem.shape;
  const SdpaInputs<T> inputs = {wanted<const T>(true, s.batch, s.heads, s.n, s.d),
                                wanted<const T>(true, s.batch, s.kv_heads, s.m, s.d),
                                wanted<const T>(true, s.batch, s.kv_heads, s.m, s.dv),
                                wanted<const T>(true, s.bias_batch, s.bias_heads, s.n, s.m)};
  if (set == nullptr) {
    return run_forward<T>(run, inputs, wanted<T>(true, s.batch, s.heads, s.n, s.dv),
                          wanted<T>(true, s.batch, s.heads, 1, s.n));
  }
  const TensorView<const T> o = wanted<const T>(true, s.batch, s.heads, s.n, s.dv);
  const TensorView<const T> lse = wanted<const T>(true, s.batch, s.heads, 1, s.n);
  return run_backward<T>(run, inputs, {o, o, lse},
                         {wanted<T>(set->dQ, s.batch, s.heads, s.n, s.d),
                          wanted<T>(set->dK, s.batch, s.kv_heads, s.m, s.d),
                          wanted<T>(set->dV, s.batch, s.kv_heads, s.m, s.dv), set->accumulate,
                          wanted<T>(set->dBias, s.bias_batch, s.bias_heads, s.n, s.m)});
}

Status told(const SdpaProblem& problem, const plan::SdpaPlan& plan, const SdpaSet* set, int threads,
            index_t* bytes) {
  schedules::CallerMemory memory;
  const SdpaRun run = {problem, plan, threads, nullptr, &memory};
  return workspace_told(
      problem.dtype == DType::f32 ? tell<float>(run, set) : tell<double>(run, set), memory, bytes);
}

}  // namespace

Status workspace_of(const SdpaProblem& problem, const plan::SdpaPlan& plan, int threads,
                    index_t* bytes) {
  return told(problem, plan, nullptr, threads, bytes);
}

Status workspace_of(const SdpaProblem& problem, const plan::SdpaPlan& plan, const SdpaSet& set,
                    int threads, index_t* bytes) {
  return told(problem, plan, &set, threads, bytes);
}

template <class T>
Status sdpa_forward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                    const plan::SdpaPlan& plan, int threads, Observer* observer, TensorView<T> o,
                    TensorView<T> lse, schedules::CallerMemory* memory) {
  Status status = validate_problem(problem);
  if (!status.is_ok()) return status;
  if (status = check_forward(inputs, o, lse); !status.is_ok()) return status;
  if (status = validate_plan(plan); !status.is_ok()) return status;
  return run_forward<T>({problem, plan, threads, observer, memory}, inputs, o, lse);
}

template <class T>
Status sdpa_backward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                     const SdpaForwardResults<T>& forward, const plan::SdpaPlan& plan, int threads,
                     Observer* observer, const SdpaGradients<T>& gradients,
                     schedules::CallerMemory* memory) {
  Status status = validate_problem(problem);
  if (!status.is_ok()) return status;
  if (status = check_backward(inputs, forward, gradients); !status.is_ok()) return status;
  if (status = validate_plan(plan, gradients.set()); !status.is_ok()) return status;
  return run_backward<T>({problem, plan, threads, observer, memory}, inputs, forward, gradients);
}

#define IOATTN_INSTANTIATE(T)                                                                      \
  template Status run_forward(const SdpaRun&, const SdpaInputs<T>&, TensorView<T>, TensorView<T>); \
  template Status run_backward(const SdpaRun&, const SdpaInputs<T>&, const SdpaForwardResults<T>&, \
                               SdpaGradients<T>);                                                  \
  template Status sdpa_forward(const SdpaProblem&, const SdpaInputs<T>&, const plan::SdpaPlan&,    \
                               int, Observer*, TensorView<T>, TensorView<T>,                       \
                               schedules::CallerMemory*);                                          \
  template Status sdpa_backward(const SdpaProblem&, const SdpaInputs<T>&,                          \
                                const SdpaForwardResults<T>&, const plan::SdpaPlan&, int,          \
                                Observer*, const SdpaGradients<T>&, schedules::CallerMemory*)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
