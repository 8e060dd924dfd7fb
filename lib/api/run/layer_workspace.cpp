#include "api/array_types.hpp"
#include "api/run/layer.hpp"
#include "api/run/lent_memory.hpp"
#include "schedules/layer/layer_gradients.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/schedules.hpp"

namespace ioattn::api {
namespace {

bool is_empty(const LayerShape& shape, bool forward) {
  return shape.n == 0 || shape.d == 0 || (!forward && shape.dv == 0) || seen_keys(shape).is_empty();
}

template <class Task>
void set_shapes(const LayerProblem& problem, Task* task) {
  const auto [n, m, d, e, tie, mask] = problem.shape;
  task->shape = problem.shape;
  task->in = {{nullptr, n, d, d}, {nullptr, m, d, d}, {nullptr, m, d, d},
              {nullptr, d, d, d}, {nullptr, d, e, e}, mask,
              problem.scale,      problem.batch};
}

template <class S>
Status of_forward(const LayerProblem& problem, const plan::Plan& plan, int threads,
                  index_t* bytes) {
  schedules::CallerMemory memory;
  schedules::ForwardTask<S> task;
  const Status found = resolve<S>({threads, nullptr, &memory}, plan.tile.isa, &task);
  if (!found.is_ok()) return found;
  set_shapes(problem, &task);
  task.blocks = plan.blocks;
  return workspace_told(schedules::run_forward(plan.schedule, task), memory, bytes);
}

// G: of the gradients.
template <class S, class G>
Status of_gradients(const LayerProblem& problem, const plan::LayerPlan& plan,
                    const GradientSet& set, int threads, index_t* bytes) {
  schedules::CallerMemory memory;
  schedules::GradientTask<S> task;
  const Status found = resolve<S>({threads, nullptr, &memory}, plan.tile.isa, &task);
  if (!found.is_ok()) return found;
  set_shapes(problem, &task);
  task.blocks = plan.blocks;
  // A null output would be one that is not wanted.
  G wanted{};
  LayerGradients<G, S> out;
  const auto output = [&](index_t rows, index_t cols) {
    return MatrixView<G>{&wanted, rows, cols, cols};
  };
  take_gradients(problem.shape, set, problem.batch, output, &out);
  set_results(out, &task);
  return workspace_told(schedules::layer_gradients(task), memory, bytes);
}

}  // namespace

Status workspace_of(const LayerProblem& problem, const plan::Plan& forward, int threads,
                    index_t* bytes) {
  *bytes = 0;
  if (is_empty(problem.shape, true)) return Status::ok();
  return with_dtype(problem.dtype, [&](auto zero) {
    return of_forward<decltype(zero)>(problem, forward, threads, bytes);
  });
}

Status workspace_of(const LayerProblem& problem, const plan::LayerPlan& plan,
                    const GradientSet& set, int threads, index_t* bytes) {
  *bytes = 0;
  if (is_empty(problem.shape, false)) return Status::ok();
  return with_gradient_types(problem.dtype, set.in_f32, [&](auto zero, auto gradient) {
    return of_gradients<decltype(zero), decltype(gradient)>(problem, plan, set, threads, bytes);
  });
}

}  // namespace ioattn::api
