#include "api/layer_plan.hpp"

#include "api/layer.hpp"
#include "api/lent_memory.hpp"
#include "api/parsed_plan.hpp"
#include "api/validate.hpp"

namespace ioattn::api {
Status LayerPlan::create(const Goal& goal, const RunOptions& options, LayerPlan* result) {
  result->goal_ = goal;
  plan::PlanRequest request;
  Status status = plan_request(goal.pass, goal.problem, options, &request);
  if (!status.is_ok()) return status;
  plan::Candidate chosen;
  plan::GradientEstimate estimate;
  status = result->is_forward()
               ? plan::make_plan(request, &result->forward_, &chosen)
               : plan::make_gradient_plan(request, goal.gradients, &result->backward_, &estimate);
  if (!status.is_ok()) return status;
  result->objective_ = name_of(options.objective);
  result->M_ = result->is_forward() ? plan::words_of_M(request, chosen) : estimate.M;
  return result->finish(options);
}

Status LayerPlan::parse(const Goal& goal, const RunOptions& options, std::string_view text,
                        LayerPlan* result) {
  result->goal_ = goal;
  plan::Plan& forward = result->forward_;
  plan::GradientPlan& backward = result->backward_;
  const LayerShape& shape = goal.problem.shape;
  std::string error;
  if (!(result->is_forward()
            ? plan::parse_plan(text, &forward, &error)
            : plan::parse_gradient_plan(text, goal.gradients, shape.tie, &backward, &error))) {
    return Status::error(StatusCode::invalid_argument, "%.200s", error.c_str());
  }
  Status status = validate_problem(goal.problem);
  if (status.is_ok()) {
    status = result->is_forward() ? validate_plan(Pass::forward, forward, shape.mask)
                                  : validate_plan(backward, goal.gradients, shape.tie, shape.mask);
  }
  if (!status.is_ok()) return status;
  const Isa isa = result->is_forward() ? forward.isa : backward.isa;
  const std::string& level = result->is_forward() ? forward.level : backward.level;
  const TileShape tile = result->is_forward()
                             ? TileShape{isa, forward.tile_rows, forward.tile_cols}
                             : TileShape{isa, backward.tile_rows, backward.tile_cols};
  status = adopt_parsed(level, tile, goal.problem.dtype, options, &result->M_);
  if (!status.is_ok()) return status;
  return result->finish(options);
}

Status LayerPlan::finish(const RunOptions& options) {
  threads_ = granted_threads(options.threads);
  index_t bytes = 0;
  const Status measured =
      is_forward() ? workspace_of(goal_.problem, forward_, threads_, &bytes)
                   : workspace_of(goal_.problem, backward_, goal_.gradients, threads_, &bytes);
  workspace_bytes_ = with_slack(bytes);
  return measured;
}

Status LayerPlan::check_problem(const LayerProblem& problem) const {
  const LayerShape& given = problem.shape;
  const LayerShape& shape = goal_.problem.shape;
  if (given.n != shape.n || given.m != shape.m || given.d != shape.d || given.dv != shape.dv ||
      given.mask != shape.mask || problem.batch != goal_.problem.batch ||
      problem.scale != goal_.problem.scale) {
    return Status::error(StatusCode::invalid_argument, "the plan is for %s, the inputs are %s",
                         to_text(goal_.problem).c_str(), to_text(problem).c_str());
  }
  if (static_cast<int>(given.tie) < static_cast<int>(shape.tie)) {
    return Status::error(StatusCode::invalid_argument,
                         "the plan is for %s, which is one memory: the inputs are not",
                         shape.tie == Tie::all ? "A1 = A2 = A3" : "A2 = A3");
  }
  return Status::ok();
}

template <class T>
Status LayerPlan::forward(const LayerInputs<T>& inputs, MatrixView<T> o, T* lse, void* workspace,
                          index_t bytes) const {
  const Status matches = check_problem(problem_of(inputs));
  if (!matches.is_ok()) return matches;
  if ((o.data == nullptr && o.rows * o.cols > 0) || (lse == nullptr && o.rows > 0)) {
    return Status::error(StatusCode::invalid_argument, "a plan computes both O and LSE");
  }
  Lent lent(workspace, bytes);
  return layer_forward<T>(inputs, forward_, threads_, nullptr, o, lse,
                          {lent.get(), goal_.problem.shape.tie});
}

template <class T>
Status LayerPlan::backward(const LayerInputs<T>& inputs, MatrixView<const T> d_o,
                           MatrixView<const T> o, const T* lse, const LayerGradients<T>& gradients,
                           void* workspace, index_t bytes) const {
  const Status matches = check_problem(problem_of(inputs));
  if (!matches.is_ok()) return matches;
  if (gradients.set() != goal_.gradients) {
    return Status::error(StatusCode::invalid_argument,
                         "the gradients, or dk, are not those that the plan is for");
  }
  Lent lent(workspace, bytes);
  return layer_gradients<T>(inputs, d_o, o, lse, backward_, threads_, nullptr, gradients,
                            {lent.get(), goal_.problem.shape.tie});
}

std::string LayerPlan::text() const {
  return is_forward() ? plan::to_text(forward_)
                      : plan::to_text(backward_, goal_.gradients, goal_.problem.shape.tie);
}

#define IOATTN_INSTANTIATE(T)                                                                  \
  template Status LayerPlan::forward(const LayerInputs<T>&, MatrixView<T>, T*, void*, index_t) \
      const;                                                                                   \
  template Status LayerPlan::backward(const LayerInputs<T>&, MatrixView<const T>,              \
                                      MatrixView<const T>, const T*, const LayerGradients<T>&, \
                                      void*, index_t) const
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
