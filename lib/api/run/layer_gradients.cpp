#include <algorithm>
#include <limits>

#include "api/array_types.hpp"
#include "api/checks/layer_checks.hpp"
#include "api/run/layer.hpp"
#include "base/aligned_buffer.hpp"
#include "schedules/layer/layer_gradients.hpp"
#include "schedules/softmax/score_bias.hpp"

namespace ioattn::api {
namespace {

template <class T>
constexpr T no_weight = -std::numeric_limits<T>::infinity();

template <class G, class S>
void add_outputs(const LayerGradients<G, S>& g, const LayerShape& shape, index_t batch,
                 MatrixCheck* check) {
  const GradientSet set = g.set();
  for (std::size_t k = 0; k < gradient_count; ++k) {
    const NamedGradient& gradient = named_gradients[k];
    const MatrixView<G>& view = g.*g.matrices[k];
    if (view.data == nullptr) continue;
    const index_t entries = gradient.entries(batch);
    check->output<G>(gradient.name, of_batch(view, entries), entries * (shape.*gradient.rows),
                     gradient.cols_of(shape, set));
  }
  if (g.dw_q.data != nullptr) check->input<S>("W_K", g.w_k, shape.d, set.dk);
  if (g.dw_k.data != nullptr) check->input<S>("W_Q", g.w_q, shape.d, set.dk);
}

}  // namespace

bool takes_forward_results(const plan::LayerPlan& plan, const GradientSet& set) {
  const GradientSteps steps = steps_of(set, Tie::all, plan.blocks.rows.form);
  return steps.alone ? steps.dx && takes_forward_results(plan.blocks.schedule) : true;
}

template <class S, class G>
Status layer_gradients(const LayerInputs<S>& inputs, MatrixView<const S> d_o, MatrixView<const S> o,
                       const Compute<S>* lse, const plan::LayerPlan& plan,
                       const Execution& execution, const LayerGradients<G, S>& gradients,
                       std::optional<Tie> tie) {
  constexpr DType dtype = dtype_of<S>::value;
  LayerShape shape = shape_of(inputs);
  if (tie) shape.tie = *tie;
  LayerGradients<G, S> out = gradients;
  MatrixCheck check;
  Status status = check_inputs(inputs, shape, &check);
  if (!status.is_ok()) return status;
  if (status = validate_weights(shape.d, out.set().dk); !status.is_ok()) return status;
  const index_t batch = inputs.batch;
  check.input<S>("dO", of_batch(d_o, batch), batch * shape.n, shape.dv);
  check_forward_results(takes_forward_results(plan, out.set()), o, lse, shape, batch, &check);
  add_outputs(out, shape, batch, &check);
  if (!check.status().is_ok()) return check.status();
  if (out.dw_q.cols == 0) out.dw_q = {};
  if (out.dw_k.cols == 0) out.dw_k = {};
  if (status = validate_plan(plan, out.set(), shape, dtype); !status.is_ok()) return status;
  schedules::GradientTask<S> task;
  if (status = resolve<S>(execution, plan.tile.isa, &task); !status.is_ok()) return status;

  if (shape.n == 0 || shape.d == 0 || shape.dv == 0 || seen_keys(shape).is_empty()) {
    for (std::size_t k = 0; k < gradient_count; ++k) {
      const MatrixView<G>& view = out.*out.matrices[k];
      if (view.data != nullptr) fill(of_batch(view, named_gradients[k].entries(batch)), G{});
    }
    return Status::ok();
  }
  // A query that has no weight: most schedules take LSE as it is given.
  const index_t rows = lse == nullptr ? 0 : batch * shape.n;
  const bool has_none = std::find(lse, lse + rows, no_weight<Compute<S>>) != lse + rows;
  const AlignedBuffer shifts(has_none ? std::size_t(rows) * sizeof(*lse) : 0);
  if (has_none) {
    if (shifts.data() == nullptr) return no_memory(rows * index_t(sizeof(*lse)));
    lse = schedules::shifts_of(lse, rows, static_cast<Compute<S>*>(shifts.data()));
  }
  task.shape = shape;
  task.in = inputs;
  task.d_o = d_o;
  task.o = o;
  task.lse = lse;
  set_results(out, &task);
  task.out.w_q = out.w_q;
  task.out.w_k = out.w_k;
  task.blocks = plan.blocks;
  return schedules::layer_gradients(task);
}

#define IOATTN_INSTANTIATE(S, G)                                                                   \
  template Status layer_gradients(const LayerInputs<S>&, MatrixView<const S>, MatrixView<const S>, \
                                  const Compute<S>*, const plan::LayerPlan&, const Execution&,     \
                                  const LayerGradients<G, S>&, std::optional<Tie>)
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
