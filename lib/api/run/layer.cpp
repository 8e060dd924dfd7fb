#include "api/run/layer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/array_types.hpp"
#include "api/checks/layer_checks.hpp"
#include "base/aligned_buffer.hpp"
#include "schedules/schedules.hpp"

namespace ioattn::api {

template <class S>
Status layer_forward(const LayerInputs<S>& inputs, const plan::Plan& plan,
                     const Execution& execution, MatrixView<S> o, Compute<S>* lse,
                     std::optional<Tie> tie) {
  using T = Compute<S>;
  LayerShape shape = shape_of(inputs);
  if (tie) shape.tie = *tie;
  MatrixCheck check;
  Status status = check_inputs(inputs, shape, &check);
  if (!status.is_ok()) return status;
  const index_t rows = inputs.batch * shape.n;
  if (o.data != nullptr) check.output<S>("O", of_batch(o, inputs.batch), rows, shape.dv);
  if (lse != nullptr) check.output<T>("LSE", {lse, 1, rows, rows}, 1, rows);
  if (!check.status().is_ok()) return check.status();
  if (status = validate_plan(Pass::forward, plan, shape.mask, dtype_of<S>::value); !status.is_ok())
    return status;
  schedules::ForwardTask<S> task;
  if (status = resolve<S>(execution, plan.tile.isa, &task); !status.is_ok()) return status;

  if (shape.n == 0 || (o.data == nullptr && lse == nullptr)) return Status::ok();
  if (shape.d == 0 || seen_keys(shape).is_empty()) {
    // Keys that all score 0 and have the value 0, or none that is seen.
    if (o.data != nullptr) fill(of_batch(o, inputs.batch), S{});
    if (lse != nullptr) {
      for (index_t i = 0; i < rows; ++i) {
        const index_t seen = shape.mask.of_row(i % shape.n, shape.m).size();
        lse[i] = seen == 0 ? -std::numeric_limits<T>::infinity() : std::log(static_cast<T>(seen));
      }
    }
    return Status::ok();
  }

  // An output that is not wanted is still computed, into scratch memory.
  const index_t o_bytes = o.data == nullptr ? rows * shape.dv * index_t(sizeof(S)) : 0;
  const index_t lse_words = lse == nullptr ? rows : 0;
  const index_t bytes = lse_words * index_t(sizeof(T)) + o_bytes;
  const AlignedBuffer unwanted(static_cast<std::size_t>(bytes));
  if (bytes > 0 && unwanted.data() == nullptr) return no_memory(bytes);
  T* scratch = static_cast<T*>(unwanted.data());

  task.shape = shape;
  task.in = inputs;
  task.o = o.data != nullptr ? o
                             : MatrixView<S>{reinterpret_cast<S*>(scratch + lse_words), shape.n,
                                             shape.dv, shape.dv};
  task.lse = lse != nullptr ? lse : scratch;
  task.blocks = plan.blocks;
  if (o.data == nullptr) task.overflows = nullptr;
  return schedules::run_forward(plan.schedule, task);
}

template <class S, class G>
Status layer_backward(const LayerInputs<S>& inputs, MatrixView<const S> d_o, MatrixView<const S> o,
                      const Compute<S>* lse, const plan::Plan& plan, const Execution& execution,
                      MatrixView<G> dx, std::optional<Tie> tie) {
  plan::LayerPlan gradients = {plan.level, {}, plan.tile};
  gradients.blocks.schedule = plan.schedule;
  gradients.blocks.rows = plan.blocks;
  LayerGradients<G, S> out;
  out.dx = dx;
  return layer_gradients<S, G>(inputs, d_o, o, lse, gradients, execution, out, tie);
}

#define IOATTN_INSTANTIATE(S)                                                               \
  template Status layer_forward(const LayerInputs<S>&, const plan::Plan&, const Execution&, \
                                MatrixView<S>, Compute<S>*, std::optional<Tie>)
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                                  \
  template Status layer_backward(const LayerInputs<S>&, MatrixView<const S>, MatrixView<const S>, \
                                 const Compute<S>*, const plan::Plan&, const Execution&,          \
                                 MatrixView<G>, std::optional<Tie>)
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
