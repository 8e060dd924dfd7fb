#include "schedules/layer_gradients.hpp"
#include "api/array_types.hpp"
#include "api/layer.hpp"
#include "api/layer_checks.hpp"

namespace ioattn::api {
namespace {

template <class G, class S>
void add_outputs(const LayerGradients<G, S>& g, const LayerShape& shape, index_t batch,
                 ArgumentCheck* check) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t dk = g.set().dk;
  const auto add = [&](const char* name, const MatrixView<G>& view, index_t rows, index_t cols) {
    if (view.data != nullptr) check->output<G>(name, view, rows, cols);
  };
  add("dX", g.dx, d, d);
  add("dY", g.dy, d, e);
  add("dA1", of_batch(g.da1, batch), batch * n, d);
  add("dA2", of_batch(g.da2, batch), batch * m, d);
  add("dA3", of_batch(g.da3, batch), batch * m, d);
  add("dA", of_batch(g.da, batch), batch * m, d);
  add("dW_Q", g.dw_q, d, dk);
  add("dW_K", g.dw_k, d, dk);
  if (g.dw_q.data != nullptr) check->input<S>("W_K", g.w_k, d, dk);
  if (g.dw_k.data != nullptr) check->input<S>("W_Q", g.w_q, d, dk);
}

}  // namespace

bool takes_forward_results(const plan::GradientPlan& plan, const GradientSet& set) {
  const GradientSteps steps = steps_of(set, Tie::all, plan.blocks.rows.form);
  return steps.alone ? steps.dx && takes_forward_results(plan.blocks.schedule) : true;
}

template <class S, class G>
Status layer_gradients(const LayerInputs<S>& inputs, MatrixView<const S> d_o, MatrixView<const S> o,
                       const Compute<S>* lse, const plan::GradientPlan& plan, int threads,
                       Observer* observer, const LayerGradients<G, S>& gradients,
                       const Prepared& prepared) {
  constexpr DType dtype = dtype_of<S>::value;
  LayerShape shape = shape_of(inputs);
  if (prepared.tie) shape.tie = *prepared.tie;
  LayerGradients<G, S> out = gradients;
  ArgumentCheck check;
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
  if (status = validate_plan(plan, out.set(), shape.tie, shape.mask, dtype); !status.is_ok())
    return status;
  const kernels::Kernels* kernels = nullptr;
  if (status = kernels_of(plan.isa, &kernels); !status.is_ok()) return status;

  if (shape.n == 0 || shape.d == 0 || shape.dv == 0 || seen_keys(shape).is_empty()) {
    for (const MatrixView<G>& view :
         {out.dx, out.dy, of_batch(out.da1, batch), of_batch(out.da2, batch),
          of_batch(out.da3, batch), of_batch(out.da, batch), out.dw_q, out.dw_k}) {
      if (view.data != nullptr) fill(view, G{});
    }
    return Status::ok();
  }
  schedules::GradientTask<S> task;
  task.shape = shape;
  task.in = inputs;
  task.d_o = d_o;
  task.o = o;
  task.lse = lse;
  if constexpr (std::is_same_v<G, Compute<S>>) {
    task.out = out;
  } else {
    task.rounded = out;
    task.out.w_q = out.w_q;
    task.out.w_k = out.w_k;
  }
  task.blocks = plan.blocks;
  if (prepared.kernels != nullptr) kernels = prepared.kernels;
  task.kernels = &kernels->table<S>();
  task.threads = std::max(threads, 1);
  task.observer = observer;
  task.memory = prepared.memory;
  task.overflows = prepared.overflows;
  return schedules::layer_gradients(task);
}

#define IOATTN_INSTANTIATE(S, G)                                                                   \
  template Status layer_gradients(const LayerInputs<S>&, MatrixView<const S>, MatrixView<const S>, \
                                  const Compute<S>*, const plan::GradientPlan&, int, Observer*,    \
                                  const LayerGradients<G, S>&, const Prepared&)
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
