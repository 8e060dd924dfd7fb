#include "api/layer_plan.hpp"

#include "api/array_types.hpp"
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
    status =
        result->is_forward()
            ? validate_plan(Pass::forward, forward, shape.mask, goal.problem.dtype)
            : validate_plan(backward, goal.gradients, shape.tie, shape.mask, goal.problem.dtype);
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

template <class S>
Status LayerPlan::forward(const LayerInputs<S>& inputs, MatrixView<S> o, Compute<S>* lse,
                          void* workspace, index_t bytes, OverflowCounts* overflows) const {
  const Status matches = check_problem(problem_of(inputs));
  if (!matches.is_ok()) return matches;
  if ((o.data == nullptr && o.rows * o.cols > 0) || (lse == nullptr && o.rows > 0)) {
    return Status::error(StatusCode::invalid_argument, "a plan computes both O and LSE");
  }
  Lent lent(workspace, bytes);
  return layer_forward<S>(inputs, forward_, threads_, nullptr, o, lse,
                          {lent.get(), goal_.problem.shape.tie, nullptr, overflows});
}

template <class S, class G>
Status LayerPlan::backward(const LayerInputs<S>& inputs, MatrixView<const S> d_o,
                           MatrixView<const S> o, const Compute<S>* lse,
                           const LayerGradients<G, S>& gradients, void* workspace, index_t bytes,
                           OverflowCounts* overflows) const {
  const Status matches = check_problem(problem_of(inputs));
  if (!matches.is_ok()) return matches;
  if (set_of(gradients) != goal_.gradients) {
    return Status::error(StatusCode::invalid_argument,
                         "the gradients, or dk, are not those that the plan is for");
  }
  Lent lent(workspace, bytes);
  return layer_gradients<S, G>(inputs, d_o, o, lse, backward_, threads_, nullptr, gradients,
                               {lent.get(), goal_.problem.shape.tie, nullptr, overflows});
}

std::string LayerPlan::text() const {
  return is_forward() ? plan::to_text(forward_)
                      : plan::to_text(backward_, goal_.gradients, goal_.problem.shape.tie);
}

#define IOATTN_INSTANTIATE(S)                                                                  \
  template Status LayerPlan::forward(const LayerInputs<S>&, MatrixView<S>, Compute<S>*, void*, \
                                     index_t, OverflowCounts*) const
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                          \
  template Status LayerPlan::backward(                                                    \
      const LayerInputs<S>&, MatrixView<const S>, MatrixView<const S>, const Compute<S>*, \
      const LayerGradients<G, S>&, void*, index_t, OverflowCounts*) const
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
