#include "api/layer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/layer_checks.hpp"
#include "base/aligned_buffer.hpp"
#include "schedules/schedules.hpp"

namespace ioattn::api {
namespace {

Status no_memory(index_t bytes) {
  return Status::error(StatusCode::out_of_memory, "no memory for %lld bytes",
                       static_cast<long long>(bytes));
}

}  // namespace

bool takes_forward_results(Schedule schedule) {
  return schedule != Schedule::naive && schedule != Schedule::paper_small &&
         schedule != Schedule::resident;
}

template <class T>
Status layer_forward(const LayerInputs<T>& inputs, const plan::Plan& plan, int threads,
                     Observer* observer, MatrixView<T> o, T* lse, const Prepared& prepared) {
  LayerShape shape = shape_of(inputs);
  if (prepared.tie) shape.tie = *prepared.tie;
  ArgumentCheck check;
  Status status = check_inputs(inputs, shape, &check);
  if (!status.is_ok()) return status;
  if (o.data != nullptr) check.output<T>("O", o, shape.n, shape.dv);
  if (lse != nullptr) check.output<T>("LSE", {lse, 1, shape.n, shape.n}, 1, shape.n);
  if (!check.status().is_ok()) return check.status();
  if (status = validate_plan(Pass::forward, plan); !status.is_ok()) return status;
  const kernels::Kernels* kernels = nullptr;
  if (status = kernels_of(plan.isa, &kernels); !status.is_ok()) return status;

  if (shape.n == 0 || (o.data == nullptr && lse == nullptr)) return Status::ok();
  if (shape.m == 0 || shape.d == 0) {
    // No key, or keys that all score 0 and have the value 0.
    if (o.data != nullptr) fill(o, T(0));
    if (lse != nullptr) {
      std::fill_n(
          lse, shape.n,
          shape.m == 0 ? -std::numeric_limits<T>::infinity() : std::log(static_cast<T>(shape.m)));
    }
    return Status::ok();
  }

  // An output that is not wanted is still computed, into scratch memory.
  const index_t o_words = o.data == nullptr ? shape.n * shape.dv : 0;
  const index_t lse_words = lse == nullptr ? shape.n : 0;
  const index_t bytes = (o_words + lse_words) * index_t(sizeof(T));
  const AlignedBuffer unwanted(static_cast<std::size_t>(bytes));
  if (bytes > 0 && unwanted.data() == nullptr) return no_memory(bytes);
  T* scratch = static_cast<T*>(unwanted.data());

  schedules::ForwardTask<T> task;
  task.shape = shape;
  task.in = inputs;
  task.o = o.data != nullptr ? o : MatrixView<T>{scratch, shape.n, shape.dv, shape.dv};
  task.lse = lse != nullptr ? lse : scratch + o_words;
  task.blocks = plan.blocks;
  task.kernels = &kernels->table<T>();
  task.threads = std::max(threads, 1);
  task.observer = observer;
  task.memory = prepared.memory;
  return schedules::run_forward(plan.schedule, task);
}

template <class T>
Status layer_backward(const LayerInputs<T>& inputs, MatrixView<const T> d_o, MatrixView<const T> o,
                      const T* lse, const plan::Plan& plan, int threads, Observer* observer,
                      MatrixView<T> dx, const Prepared& prepared) {
  LayerShape shape = shape_of(inputs);
  if (prepared.tie) shape.tie = *prepared.tie;
  ArgumentCheck check;
  Status status = check_inputs(inputs, shape, &check);
  if (!status.is_ok()) return status;
  check.input<T>("dO", d_o, shape.n, shape.dv);
  check_forward_results(takes_forward_results(plan.schedule), o, lse, shape, &check);
  check.output<T>("dX", dx, shape.d, shape.d);
  if (!check.status().is_ok()) return check.status();
  if (status = validate_plan(Pass::backward, plan); !status.is_ok()) return status;
  const kernels::Kernels* kernels = nullptr;
  if (status = kernels_of(plan.isa, &kernels); !status.is_ok()) return status;

  if (shape.n == 0 || shape.m == 0 || shape.d == 0 || shape.dv == 0) {
    fill(dx, T(0));
    return Status::ok();
  }
  schedules::BackwardTask<T> task;
  task.shape = shape;
  task.in = inputs;
  task.d_o = d_o;
  task.o = o;
  task.lse = lse;
  task.dx = dx;
  task.blocks = plan.blocks;
  task.kernels = &kernels->table<T>();
  task.threads = std::max(threads, 1);
  task.observer = observer;
  task.memory = prepared.memory;
  return schedules::run_backward(plan.schedule, task);
}

#define IOATTN_INSTANTIATE(T)                                                                     \
  template Status layer_forward(const LayerInputs<T>&, const plan::Plan&, int, Observer*,         \
                                MatrixView<T>, T*, const Prepared&);                              \
  template Status layer_backward(const LayerInputs<T>&, MatrixView<const T>, MatrixView<const T>, \
                                 const T*, const plan::Plan&, int, Observer*, MatrixView<T>,      \
                                 const Prepared&)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
