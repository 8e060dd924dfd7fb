#include "schedules/layer_gradients.hpp"
#include "api/layer.hpp"
#include "api/layer_checks.hpp"

namespace ioattn::api {
namespace {

template <class T>
void add_outputs(const LayerGradients<T>& g, const LayerShape& shape, index_t batch,
                 ArgumentCheck* check) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t dk = g.set().dk;
  const auto add = [&](const char* name, const MatrixView<T>& view, index_t rows, index_t cols) {
    if (view.data != nullptr) check->output<T>(name, view, rows, cols);
  };
  add("dX", g.dx, d, d);
  add("dY", g.dy, d, e);
  add("dA1", of_batch(g.da1, batch), batch * n, d);
  add("dA2", of_batch(g.da2, batch), batch * m, d);
  add("dA3", of_batch(g.da3, batch), batch * m, d);
  add("dA", of_batch(g.da, batch), batch * m, d);
  add("dW_Q", g.dw_q, d, dk);
  add("dW_K", g.dw_k, d, dk);
  if (g.dw_q.data != nullptr) check->input<T>("W_K", g.w_k, d, dk);
  if (g.dw_k.data != nullptr) check->input<T>("W_Q", g.w_q, d, dk);
}

}  // namespace

bool takes_forward_results(const plan::GradientPlan& plan, const GradientSet& set) {
  const GradientSteps steps = steps_of(set, Tie::all, plan.blocks.rows.form);
  return steps.alone ? steps.dx && takes_forward_results(plan.blocks.schedule) : true;
}

template <class T>
Status layer_gradients(const LayerInputs<T>& inputs, MatrixView<const T> d_o, MatrixView<const T> o,
                       const T* lse, const plan::GradientPlan& plan, int threads,
                       Observer* observer, const LayerGradients<T>& gradients,
                       const Prepared& prepared) {
  LayerShape shape = shape_of(inputs);
  if (prepared.tie) shape.tie = *prepared.tie;
  LayerGradients<T> out = gradients;
  ArgumentCheck check;
  Status status = check_inputs(inputs, shape, &check);
  if (!status.is_ok()) return status;
  if (status = validate_weights(shape.d, out.set().dk); !status.is_ok()) return status;
  const index_t batch = inputs.batch;
  check.input<T>("dO", of_batch(d_o, batch), batch * shape.n, shape.dv);
  check_forward_results(takes_forward_results(plan, out.set()), o, lse, shape, batch, &check);
  add_outputs(out, shape, batch, &check);
  if (!check.status().is_ok()) return check.status();
  if (out.dw_q.cols == 0) out.dw_q = {};
  if (out.dw_k.cols == 0) out.dw_k = {};
  if (status = validate_plan(plan, out.set(), shape.tie, shape.mask); !status.is_ok())
    return status;
  const kernels::Kernels* kernels = nullptr;
  if (status = kernels_of(plan.isa, &kernels); !status.is_ok()) return status;

  if (shape.n == 0 || shape.d == 0 || shape.dv == 0 || seen_keys(shape).is_empty()) {
    for (const MatrixView<T>& view :
         {out.dx, out.dy, of_batch(out.da1, batch), of_batch(out.da2, batch),
          of_batch(out.da3, batch), of_batch(out.da, batch), out.dw_q, out.dw_k}) {
      if (view.data != nullptr) fill(view, T(0));
    }
    return Status::ok();
  }
  schedules::GradientTask<T> task;
  task.shape = shape;
  task.in = inputs;
  task.d_o = d_o;
  task.o = o;
  task.lse = lse;
  task.out = out;
  task.blocks = plan.blocks;
  if (prepared.kernels != nullptr) kernels = prepared.kernels;
  task.kernels = &kernels->table<T>();
  task.threads = std::max(threads, 1);
  task.observer = observer;
  task.memory = prepared.memory;
  return schedules::layer_gradients(task);
}

template Status layer_gradients(const LayerInputs<float>&, MatrixView<const float>,
                                MatrixView<const float>, const float*, const plan::GradientPlan&,
                                int, Observer*, const LayerGradients<float>&, const Prepared&);
template Status layer_gradients(const LayerInputs<double>&, MatrixView<const double>,
                                MatrixView<const double>, const double*, const plan::GradientPlan&,
                                int, Observer*, const LayerGradients<double>&, const Prepared&);

}  // namespace ioattn::api
